use super::{
    chunk::{CHUNK_SLOTS, Chunk, FreshSlot, SlotRelease, TimerPlace, TimerSlot},
    entry::{Liveness, TimerEntry},
    places::Places,
    range_timer::RangeTimer,
    ranges::{GENERATIONS, RangeKey, RangedSlots, SlotRange},
};
use std::{fmt, num::NonZero, ops::Range};

/// Identifies one timer of a [`TimerQueue`](crate::timer::TimerQueue) while the
/// timer is in it.
///
/// A handle is 8 bytes and never identifies a later timer: its slot counts its
/// uses, and is retired when the numbers are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueHandle {
    slot: u32,
    /// The stamp that the slot had when it was claimed: an even number, except
    /// in [`NEVER`](Self::NEVER), whose slot there is not.
    claimed: NonZero<u32>,
}

impl QueueHandle {
    /// Identifies no timer, ever.
    pub(in crate::timer) const NEVER: Self = Self {
        slot: u32::MAX,
        claimed: NonZero::<u32>::MAX,
    };

    pub(super) fn slot(self) -> u32 {
        self.slot
    }

    pub(super) fn claimed(self) -> u32 {
        self.claimed.get()
    }

    /// The handle as a number, for languages that cannot hold the type; never 0.
    ///
    /// ```
    /// use busyhour::{clock::Instant, timer::{QueueHandle, TimerQueue}};
    ///
    /// let mut queue = TimerQueue::new();
    /// let bits = queue.add(Instant::from_nanos(12), "lunch").to_bits();
    /// assert_eq!(queue.cancel(QueueHandle::from_bits(bits)), Some("lunch"));
    /// assert_eq!(queue.cancel(QueueHandle::from_bits(0)), None);
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.claimed.get() as u64) << 32 | self.slot as u64
    }

    /// The handle of a number that [`QueueHandle::to_bits`] gave. Zero identifies
    /// no timer; another number identifies none, or any.
    pub const fn from_bits(bits: u64) -> Self {
        match NonZero::new((bits >> 32) as u32) {
            Some(claimed) if claimed.get() % 2 == 0 => Self {
                slot: bits as u32,
                claimed,
            },
            _ => Self::never(),
        }
    }

    /// A function by itself, so that a number that identifies a timer is told by branches, which take no time once they are
    /// predicted. Selecting one of two numbers would delay all that follows.
    #[cold]
    #[inline(never)]
    const fn never() -> Self {
        Self::NEVER
    }
}

impl fmt::Display for QueueHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.slot, self.claimed)
    }
}

/// The values of the timers: chunks of slots, so that a growing queue never
/// copies and the memory of an emptied chunk returns to the allocator.
///
/// In a chunk, the slot released last is claimed first, while it is in the
/// caches.
pub(in crate::timer) struct TimerSlots<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks that are neither full nor empty. The last one is claimed from.
    open: Vec<u32>,
    /// Empty chunks with memory.
    rested: Vec<u32>,
    /// Chunks without memory.
    bare: Vec<u32>,
    /// The last one of `open`; [`NO_CHUNK`] if there is none.
    claimed_from: usize,
    /// How many chunks have begun.
    generations: u64,
    /// How many slots were claimed.
    claimed: u64,
    /// How many are still to be released until it is time to tidy up, and how many will have
    /// been released then: a release makes one step, which also says whether it is time.
    until_tidy: i64,
    released_then: u64,
    /// The occupied slots whose timers wait in an entry.
    with_entry: usize,
    /// Those whose timers do not wait. The others wait in ranges.
    held: usize,
}

impl<T> Liveness for TimerSlots<T> {
    #[inline]
    fn is_live(&self, entry: TimerEntry) -> bool {
        let slot = self.slot(entry.slot());
        slot.is_some_and(|slot| slot.has_stamp(entry.stamp()))
    }
}

impl<T> RangedSlots for TimerSlots<T> {
    fn ranged(&self) -> usize {
        self.occupied() - self.with_entry - self.held
    }

    fn deadlines_ns(&self, range: SlotRange) -> &[u64] {
        let (number, offset) = split(range.first);
        match self.chunks.get(number) {
            Some(chunk) if chunk.generation() == range.generation => {
                let all = chunk.deadlines_ns();
                all.get(offset..offset + range.len).unwrap_or_default()
            }
            _ => &[],
        }
    }

    fn earliest(&self, range: SlotRange) -> TimerEntry {
        let (number, offset) = split(range.first);
        let chunk = self.chunks.get(number);
        let chunk = chunk.filter(|chunk| chunk.generation() == range.generation);
        let found = chunk.and_then(|chunk| chunk.earliest(offset..offset + range.len));
        found.map_or(TimerEntry::NONE, |(at, deadline_ns, stamp)| {
            TimerEntry::new(deadline_ns, range.first + (at - offset) as u32, stamp)
        })
    }

    #[inline]
    fn leave_slot(&mut self, slot: u32, last_ns: u64) -> Option<TimerEntry> {
        let (number, offset) = split(slot);
        let (deadline_ns, stamp) = self.chunks.get_mut(number)?.leave_slot(offset, last_ns)?;
        self.with_entry += 1;
        Some(TimerEntry::new(deadline_ns, slot, stamp))
    }

    #[inline]
    fn leave_range(&mut self, range: SlotRange, last_ns: u64, mut give: impl FnMut(TimerEntry)) {
        let (number, offset) = split(range.first);
        let Some(chunk) = self.chunks.get_mut(number) else {
            return;
        };
        if chunk.generation() != range.generation {
            return;
        }
        let (first_of_chunk, mut count) = (range.first - offset as u32, 0);
        let offsets = offset..offset + range.len;
        chunk.leave_range(offsets, last_ns, |offset, deadline_ns, stamp| {
            count += 1;
            give(TimerEntry::new(
                deadline_ns,
                first_of_chunk + offset as u32,
                stamp,
            ));
        });
        self.with_entry += count;
    }

    #[inline(never)]
    fn leave_for_places(
        &mut self,
        range: SlotRange,
        places: &mut Places,
        sorted: &mut [TimerEntry],
    ) {
        let (number, offset) = split(range.first);
        let chunk = self.chunks.get_mut(number);
        if let Some(chunk) = chunk.filter(|chunk| chunk.generation() == range.generation) {
            let offsets = offset..offset + range.len;
            self.with_entry += range.len;
            chunk.leave_for_places(offsets, range.first, places, sorted);
        }
    }

    // In a function of its own the loop has all registers.
    #[inline(never)]
    fn leave_whole_range(&mut self, range: SlotRange, entries: &mut Vec<TimerEntry>) {
        let (number, offset) = split(range.first);
        let chunk = self.chunks.get_mut(number);
        if let Some(chunk) = chunk.filter(|chunk| chunk.generation() == range.generation) {
            let before = entries.len();
            chunk.leave_whole_range(offset..offset + range.len, range.first, entries);
            self.with_entry += entries.len() - before;
        }
    }
}

impl<T> TimerSlots<T> {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            open: Vec::new(),
            rested: Vec::new(),
            bare: Vec::new(),
            claimed_from: NO_CHUNK,
            generations: 0,
            claimed: 0,
            until_tidy: 1,
            released_then: 1,
            with_entry: 0,
            held: 0,
        }
    }

    /// The number of occupied slots.
    #[inline]
    pub(super) fn occupied(&self) -> usize {
        (self.claimed - self.released()) as usize
    }

    /// How many slots were ever released.
    #[inline]
    fn released(&self) -> u64 {
        self.released_then.wrapping_add_signed(-self.until_tidy)
    }

    /// Whether as many slots were released as [`tidy_after`](Self::tidy_after) said.
    #[inline]
    pub(super) fn is_time_to_tidy(&self) -> bool {
        self.until_tidy <= 0
    }

    /// It is time to tidy up after so many releases.
    pub(super) fn tidy_after(&mut self, releases: usize) {
        self.released_then = self.released() + releases as u64;
        self.until_tidy = releases as i64;
    }

    /// It is time to tidy up one release earlier.
    #[inline]
    pub(super) fn tidy_earlier(&mut self) {
        self.until_tidy -= 1;
        self.released_then -= 1;
    }

    /// The occupied slots whose timers wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.occupied() - self.held
    }

    /// Those that wait in an entry.
    #[inline]
    pub(super) fn with_entry(&self) -> usize {
        self.with_entry
    }

    /// The next slot to claim, if it was not claimed since its chunk was empty.
    #[inline]
    pub(super) fn fresh(&mut self) -> Option<FreshClaim<'_, T>> {
        let number = self.claimed_from;
        let chunk = self.chunks.get_mut(number)?;
        let generation = chunk.generation();
        Some(FreshClaim {
            slot: chunk.fresh()?,
            claimed: &mut self.claimed,
            first_of_chunk: number * CHUNK_SLOTS,
            generation,
        })
    }

    /// Makes sure that there is a chunk to claim from; whether it is a new one.
    pub(super) fn began_chunk(&mut self) -> bool {
        let begins = self.claimed_from == NO_CHUNK;
        if begins {
            self.begin_chunk();
        }
        begins
    }

    /// Puts a value that waits for `deadline_ns` into a vacant slot.
    #[inline]
    pub(in crate::timer) fn claim(
        &mut self,
        deadline_ns: u64,
        value: T,
    ) -> (QueueHandle, TimerEntry) {
        self.began_chunk();
        let number = self.claimed_from;
        let chunk = &mut self.chunks[number];
        let (offset, claimed) = chunk.claim(deadline_ns, value);
        if chunk.is_full() {
            self.close_chunk();
        }
        self.claimed += 1;
        self.with_entry += 1;
        let slot = (number * CHUNK_SLOTS + offset) as u32;
        let entry = TimerEntry::new(deadline_ns, slot, claimed.get());
        (QueueHandle { slot, claimed }, entry)
    }

    /// Takes the value of a timer that waits in a range, if nothing else has to be
    /// done but to count the release.
    #[inline]
    pub(super) fn release_in_range(&mut self, handle: QueueHandle) -> Option<T> {
        let (number, offset) = split(handle.slot);
        let value = (self.chunks.get_mut(number)?).release_in_range(offset, handle.claimed)?;
        self.until_tidy -= 1;
        Some(value)
    }

    /// A timer that waits in a range, if nothing else has to be done when it is released
    /// but to count that.
    #[inline(always)]
    pub(super) fn in_range(&mut self, handle: QueueHandle) -> Option<RangeTimer<'_, T>> {
        let (number, offset) = split(handle.slot);
        let slot = (self.chunks.get_mut(number)?).in_range(offset, handle.claimed)?;
        Some(RangeTimer::new(slot, &mut self.until_tidy))
    }

    /// Takes the value out; its entry, if there is one, is dead now. `None` if
    /// the handle is out of date. [`TimerSlots::note_release`] must follow.
    #[inline]
    pub(super) fn release(&mut self, handle: QueueHandle) -> Option<(T, SlotRelease)> {
        let (number, offset) = split(handle.slot);
        let chunk = self.chunks.get_mut(number)?;
        if !chunk.slot(offset)?.is_claimed(handle.claimed) {
            return None;
        }
        let released = chunk.release(offset)?;
        self.until_tidy -= 1;
        Some(released)
    }

    /// Counts what a release left behind.
    #[inline]
    pub(super) fn note_release(&mut self, slot: u32, release: SlotRelease) {
        self.leave(release.place());
        if release.is_at_an_edge() {
            self.note_edge(split(slot).0);
        }
    }

    /// Takes the value that an entry from the order stands for.
    #[inline]
    pub(super) fn release_entry(&mut self, entry: TimerEntry) -> Option<T> {
        let (number, offset) = split(entry.slot());
        let chunk = self.chunks.get_mut(number)?;
        let (value, is_at_an_edge) = chunk.release_entry(offset, entry.stamp())?;
        self.until_tidy -= 1;
        self.with_entry -= 1;
        if is_at_an_edge {
            self.note_edge(number);
        }
        Some(value)
    }

    /// Records that an entry has left the order while its value stays.
    pub(super) fn hold_entry(&mut self, entry: TimerEntry) -> Option<QueueHandle> {
        let handle = self.handle(entry.slot())?;
        self.stop_waiting(handle);
        Some(handle)
    }

    /// Gives a timer another deadline; its entry, if there is one, is then
    /// dead.
    ///
    /// The caller must have checked that [`TimerSlots::is_worn`] is false.
    pub(in crate::timer) fn wait(
        &mut self,
        handle: QueueHandle,
        deadline_ns: u64,
    ) -> Option<TimerEntry> {
        let slot = self.current_mut(handle)?;
        let place = slot.place();
        let entry = TimerEntry::new(deadline_ns, handle.slot, slot.wait_again());
        self.leave(place);
        self.with_entry += 1;
        let (number, offset) = split(handle.slot);
        *self.chunks[number].deadline_mut(offset)? = deadline_ns;
        Some(entry)
    }

    /// Whether the timer was moved so often that its slot is short of stamps.
    pub(super) fn is_worn(&self, handle: QueueHandle) -> bool {
        let slot = self.current(handle);
        slot.is_some_and(|slot| slot.stamp >= STAMP_WORN)
    }

    /// Separates a timer from its entry, which is then dead.
    pub(super) fn stop_waiting(&mut self, handle: QueueHandle) {
        if let Some(slot) = self.current_mut(handle) {
            let place = slot.place();
            slot.stop_waiting();
            self.leave(place);
            self.held += 1;
        }
    }

    /// Counts a timer that is no longer in `place`.
    #[inline]
    fn leave(&mut self, place: TimerPlace) {
        match place {
            TimerPlace::Range => {}
            TimerPlace::Entry => self.with_entry -= 1,
            TimerPlace::Held => self.held -= 1,
        }
    }

    /// Restarts the stamps of a timer that does not wait and has no entry, not
    /// even a dead one.
    pub(super) fn restart(&mut self, handle: QueueHandle) {
        if let Some(slot) = self.current_mut(handle) {
            slot.restart();
        }
    }

    /// The deadline of a timer that waits; `Some(None)` if it is held.
    pub(in crate::timer) fn waits(&self, handle: QueueHandle) -> Option<Option<u64>> {
        let slot = self.current(handle)?;
        let (number, offset) = split(handle.slot);
        let deadline_ns = self.chunks[number].deadline_ns(offset)?;
        Some(slot.waits().then_some(deadline_ns))
    }

    #[inline]
    pub(in crate::timer) fn get(&self, handle: QueueHandle) -> Option<&T> {
        self.current(handle)?.value()
    }

    #[inline]
    pub(in crate::timer) fn get_mut(&mut self, handle: QueueHandle) -> Option<&mut T> {
        self.current_mut(handle)?.value_mut()
    }

    /// Every occupied slot.
    pub(in crate::timer) fn iter(&self) -> impl Iterator<Item = (QueueHandle, &T)> {
        let chunks = (0..).step_by(CHUNK_SLOTS).zip(&self.chunks);
        let slots = chunks.flat_map(|(first, chunk)| (first..).zip(chunk.slots()));
        slots.filter_map(|(index, slot)| {
            let handle = QueueHandle {
                slot: index,
                claimed: slot.claimed()?,
            };
            Some((handle, slot.value()?))
        })
    }

    /// The occupied slots in a range.
    pub(super) fn iter_slots(&self, slots: Range<u32>) -> impl Iterator<Item = (QueueHandle, &T)> {
        slots.filter_map(|slot| {
            let handle = self.handle(slot)?;
            Some((handle, self.get(handle)?))
        })
    }

    /// One more than the last slot.
    pub(super) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK_SLOTS) as u32
    }

    /// The handle of the timer that is in `slot` now.
    #[inline]
    fn handle(&self, slot: u32) -> Option<QueueHandle> {
        let claimed = self.slot(slot)?.claimed()?;
        Some(QueueHandle { slot, claimed })
    }

    #[inline]
    fn slot(&self, slot: u32) -> Option<&TimerSlot<T>> {
        let (number, offset) = split(slot);
        self.chunks.get(number)?.slot(offset)
    }

    #[inline]
    fn current(&self, handle: QueueHandle) -> Option<&TimerSlot<T>> {
        let slot = self.slot(handle.slot)?;
        slot.is_claimed(handle.claimed).then_some(slot)
    }

    #[inline]
    fn current_mut(&mut self, handle: QueueHandle) -> Option<&mut TimerSlot<T>> {
        let (number, offset) = split(handle.slot);
        let slot = self.chunks.get_mut(number)?.slot_mut(offset)?;
        slot.is_claimed(handle.claimed).then_some(slot)
    }

    /// Finds a chunk to claim from: an empty one, or new memory.
    #[cold]
    fn begin_chunk(&mut self) {
        let unused = self.rested.pop().or_else(|| self.bare.pop());
        let number = unused.unwrap_or_else(|| self.new_chunk());
        self.generations = (self.generations + 1) % GENERATIONS;
        self.chunks[number as usize].begin(self.generations);
        self.open.push(number);
        self.claimed_from = number as usize;
    }

    /// Stops claiming from the current chunk, which is full.
    #[cold]
    pub(super) fn close_chunk(&mut self) {
        if let Some(full) = self.open.pop() {
            self.chunks[full as usize].is_open = false;
        }
        self.claim_from_last();
    }

    fn claim_from_last(&mut self) {
        self.claimed_from = self.open.last().map_or(NO_CHUNK, |last| *last as usize);
    }

    fn new_chunk(&mut self) -> u32 {
        let number = self.chunks.len();
        assert!(
            number < CHUNKS_MAX,
            "a timer queue holds fewer than 2^30 timers"
        );
        self.chunks.push(Chunk::new());
        number as u32
    }

    /// A chunk may have room again, or be empty.
    #[cold]
    fn note_edge(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        if chunk.is_full() {
            return;
        }
        let was_open = chunk.is_open;
        chunk.is_open = !chunk.is_empty();
        if !was_open {
            self.open.push(number as u32);
            return self.claim_from_last();
        }
        if chunk.is_open {
            return;
        }
        chunk.reset();
        match self.open.last() {
            Some(last) if *last as usize == number => _ = self.open.pop(),
            _ => self.open.retain(|open| *open as usize != number),
        }
        self.claim_from_last();
        self.rested.push(number as u32);
        self.strip_surplus();
    }

    /// Returns the memory of empty chunks if most chunks are empty, except for
    /// a few. The one emptied last stays, since it is in the caches.
    fn strip_surplus(&mut self) {
        let busy = self.chunks.len() - self.bare.len() - self.rested.len();
        let kept = (RESTED_BYTES / Chunk::<T>::BYTES).max(busy).max(1);
        while self.rested.len() > kept {
            let number = self.rested.swap_remove(0);
            self.chunks[number as usize].strip();
            self.bare.push(number);
        }
    }
}

/// The next slot to claim, which was not claimed since its chunk was empty.
pub(super) struct FreshClaim<'a, T> {
    slot: FreshSlot<'a, T>,
    claimed: &'a mut u64,
    first_of_chunk: usize,
    generation: u64,
}

impl<T> FreshClaim<'_, T> {
    /// Puts a value that waits for `deadline_ns` into it. Also returns the place
    /// in a range, and whether the chunk is full now:
    /// [`TimerSlots::close_chunk`] must follow then.
    #[inline]
    pub(super) fn fill(self, deadline_ns: u64, value: T) -> (QueueHandle, RangeKey, bool) {
        let key = RangeKey::new(self.generation, self.slot.offset);
        let handle = QueueHandle {
            slot: (self.first_of_chunk + self.slot.offset) as u32,
            claimed: self.slot.claimed,
        };
        *self.claimed += 1;
        (handle, key, self.slot.fill(deadline_ns, value))
    }
}

impl<T: fmt::Debug> fmt::Debug for TimerSlots<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

/// The chunk and the offset in it.
#[inline]
fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_SLOTS, slot as usize % CHUNK_SLOTS)
}

const CHUNKS_MAX: usize = (1 << 30) / CHUNK_SLOTS;
/// Empty chunks keep their memory up to this, and at least one does.
const RESTED_BYTES: usize = 512 << 10;
/// A timer with such a stamp has been moved five hundred million times.
const STAMP_WORN: u32 = u32::MAX - 15;
/// No chunk has this number.
const NO_CHUNK: usize = usize::MAX;

#[cfg(all(test, not(any(loom, shuttle))))]
impl<T> TimerSlots<T> {
    /// Takes the value out, with all that follows.
    fn take(&mut self, handle: QueueHandle) -> Option<T> {
        let (value, release) = self.release(handle)?;
        self.note_release(handle.slot, release);
        Some(value)
    }

    /// Takes a timer close to the end of its slot's stamps, with no entry left.
    pub(super) fn wear(&mut self, handle: QueueHandle) {
        if let Some(slot) = self.current_mut(handle) {
            let place = slot.place();
            slot.stamp = STAMP_WORN;
            self.leave(place);
            self.with_entry += 1;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_stays_out_of_date_when_its_chunk_comes_back() {
        let mut slots = TimerSlots::new();
        let count = 60 * CHUNK_SLOTS as u64;
        let handles: Vec<_> = (0..count).map(|n| slots.claim(n, n)).collect();
        for &(handle, _) in &handles {
            assert!(slots.take(handle).is_some());
        }
        assert!(!slots.bare.is_empty());
        for n in 0..count {
            slots.claim(n, n);
        }
        assert!(slots.bare.is_empty());
        for (handle, entry) in handles {
            assert!(slots.get(handle).is_none() && !slots.is_live(entry));
            assert!(slots.take(handle).is_none());
        }
        assert_eq!(slots.iter().count() as u64, count);
    }

    #[test]
    fn chunks_stay_in_their_lists_in_whatever_order_they_are_emptied() {
        let mut slots = TimerSlots::new();
        let count = 4 * CHUNK_SLOTS as u64;
        for step in [1, 3, 1025, 2047] {
            let handles: Vec<_> = (0..count).map(|n| slots.claim(n, n).0).collect();
            assert!(slots.open.is_empty() && slots.rested.is_empty());
            for n in (0..count).map(|n| n * step % count) {
                let released = slots.take(handles[n as usize]);
                assert_eq!(released, Some(n));
                let has_room = |chunk: &&Chunk<u64>| !chunk.is_full() && !chunk.is_empty();
                let open = slots.chunks.iter().filter(has_room).count();
                let empty = slots.chunks.iter().filter(|chunk| chunk.is_empty()).count();
                assert_eq!((slots.open.len(), slots.rested.len()), (open, empty));
            }
            assert_eq!((slots.occupied(), slots.rested.len()), (0, 4));
        }
    }

    #[test]
    fn a_vacant_slot_is_nobodys_whatever_number_a_handle_is_made_of() {
        let mut slots = TimerSlots::new();
        let handles = [0, 1, 2].map(|n| slots.claim(n, n).0);
        for handle in handles {
            assert!(slots.take(handle).is_some());
        }
        slots.claim(3, 3);
        for claimed in 0..10_000_u64 {
            let made = QueueHandle::from_bits(claimed << 32 | 1);
            assert!(slots.get(made).is_none() && slots.take(made).is_none());
        }
    }

    #[test]
    fn a_slot_without_a_further_stamp_is_retired_and_its_chunk_stays_in_use() {
        let mut slots = TimerSlots::new();
        let (first, ..) = slots.claim(0, ());
        slots.wear(first);
        assert!(slots.take(first).is_some());
        assert_eq!((slots.occupied(), slots.rested.len()), (0, 0));
        for n in 1..2 * CHUNK_SLOTS as u64 {
            let (handle, ..) = slots.claim(n, ());
            assert_ne!(handle.slot, first.slot);
        }
        assert!(slots.get(first).is_none());
    }
}
