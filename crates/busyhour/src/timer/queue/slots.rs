use super::entry::{Liveness, TimerEntry};
use std::{fmt, iter, mem::MaybeUninit, num::NonZero, ops::Range, slice};

/// Identifies one timer of a [`TimerQueue`](crate::timer::TimerQueue) while the
/// timer is in it.
///
/// A handle is 8 bytes and never identifies a later timer: its slot counts its
/// uses, and is retired when the numbers are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueHandle {
    slot: u32,
    /// The stamp that the slot had when it was claimed.
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
            Some(claimed) => Self {
                slot: bits as u32,
                claimed,
            },
            None => Self::NEVER,
        }
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
/// The slot released last is claimed first, while it is in the caches.
pub(in crate::timer) struct TimerSlots<T> {
    /// `None` if the memory was returned.
    chunks: Vec<Option<Chunk<T>>>,
    /// For each chunk, a number above every stamp that was used in returned
    /// memory.
    stamps: Vec<u32>,
    /// Released slots.
    vacant: Vec<u32>,
    /// Slots after those, all in one chunk, to be claimed in order:
    /// `fresh..fresh_end`.
    fresh: u32,
    fresh_end: u32,
    /// Chunks with memory whose slots are in none of the above lists; none is
    /// occupied.
    rested: Vec<u32>,
    /// Chunks without memory.
    bare: Vec<u32>,
    /// Slots that are occupied or in `vacant`.
    in_use: usize,
    /// With this few occupied slots it is time to look for empty chunks.
    occupied_low: usize,
    retired_count: usize,
}

/// Deadlines are stored apart from what a cancel changes.
struct Chunk<T> {
    slots: Box<[TimerSlot<T>; CHUNK_SLOTS]>,
    deadlines_ns: Box<[u64; CHUNK_SLOTS]>,
}

struct TimerSlot<T> {
    /// Even while the timer waits in order, odd otherwise; increases with each
    /// change. The one entry with the same stamp is the live one.
    stamp: u32,
    /// The stamp at the time of the claim; if it is set, `value` is there.
    claimed: Option<NonZero<u32>>,
    value: MaybeUninit<T>,
}

impl<T> Liveness for TimerSlots<T> {
    #[inline]
    fn is_live(&self, entry: TimerEntry) -> bool {
        let slot = self.slot(entry.slot());
        slot.is_some_and(|slot| slot.stamp == entry.stamp())
    }
}

impl<T> TimerSlots<T> {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            stamps: Vec::new(),
            vacant: Vec::new(),
            fresh: 0,
            fresh_end: 0,
            rested: Vec::new(),
            bare: Vec::new(),
            in_use: 0,
            occupied_low: 0,
            retired_count: 0,
        }
    }

    /// The number of occupied slots.
    #[inline]
    pub(super) fn occupied(&self) -> usize {
        self.in_use - self.vacant.len()
    }

    /// After how many releases [`TimerSlots::tidy`] is worth a call.
    pub(super) fn quiet(&self) -> usize {
        self.occupied().saturating_sub(self.occupied_low)
    }

    /// Returns memory that is no longer needed.
    pub(super) fn tidy(&mut self) {
        match self.occupied() {
            0 if self.retired_count == 0 => self.rest_all(),
            occupied if occupied <= self.occupied_low => self.rest_empty(),
            _ => {}
        }
    }

    /// Puts a value that waits for `deadline_ns` into a vacant slot.
    #[inline]
    pub(in crate::timer) fn claim(
        &mut self,
        deadline_ns: u64,
        value: T,
    ) -> (QueueHandle, TimerEntry) {
        let index = match self.vacant.pop() {
            Some(slot) => slot,
            None => self.next_fresh(),
        };
        let (chunk, offset) = split(index);
        let chunk = self.chunks[chunk].as_mut().expect(HAS_MEMORY);
        let slot = &mut chunk.slots[offset];
        let stamp = slot.stamp + 1;
        let claimed = NonZero::new(stamp).expect(NOT_RETIRED);
        *slot = TimerSlot {
            stamp,
            claimed: Some(claimed),
            value: MaybeUninit::new(value),
        };
        chunk.deadlines_ns[offset] = deadline_ns;
        let handle = QueueHandle {
            slot: index,
            claimed,
        };
        (handle, TimerEntry::new(deadline_ns, index, stamp))
    }

    /// Takes the value out, and whether it waited, in which case its entry is
    /// dead now; `None` if the handle is out of date.
    #[inline]
    pub(super) fn release(&mut self, handle: QueueHandle) -> Option<(T, bool)> {
        let slot = self.current_mut(handle)?;
        let waited = slot.waits();
        let (value, is_retired) = slot.vacate()?;
        self.note_vacant(handle.slot, is_retired);
        Some((value, waited))
    }

    /// Takes the value that an entry from the order stands for.
    #[inline]
    pub(super) fn release_entry(&mut self, entry: TimerEntry) -> Option<T> {
        let (chunk, offset) = split(entry.slot());
        let slot = &mut self.chunks.get_mut(chunk)?.as_mut()?.slots[offset];
        let (value, is_retired) = slot.vacate()?;
        self.note_vacant(entry.slot(), is_retired);
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
        slot.stamp = (slot.stamp | 1) + 1;
        let entry = TimerEntry::new(deadline_ns, handle.slot, slot.stamp);
        let (chunk, offset) = split(handle.slot);
        self.chunks[chunk].as_mut()?.deadlines_ns[offset] = deadline_ns;
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
            slot.stamp |= 1;
        }
    }

    /// Restarts the stamps of a timer that does not wait and has no entry, not
    /// even a dead one.
    pub(super) fn restart(&mut self, handle: QueueHandle) {
        if let Some(slot) = self.current_mut(handle) {
            slot.stamp = handle.claimed.get() + 1;
        }
    }

    /// The deadline of a timer that waits; `Some(None)` if it is held.
    pub(in crate::timer) fn waits(&self, handle: QueueHandle) -> Option<Option<u64>> {
        let slot = self.current(handle)?;
        let (chunk, offset) = split(handle.slot);
        let deadline_ns = self.chunks[chunk].as_ref()?.deadlines_ns[offset];
        Some(slot.waits().then_some(deadline_ns))
    }

    #[inline]
    pub(in crate::timer) fn get(&self, handle: QueueHandle) -> Option<&T> {
        self.current(handle)?.value()
    }

    #[inline]
    pub(in crate::timer) fn get_mut(&mut self, handle: QueueHandle) -> Option<&mut T> {
        let slot = self.current_mut(handle)?;
        // SAFETY: `current_mut` has found the slot claimed, which says that
        // the value is there.
        Some(unsafe { slot.value.assume_init_mut() })
    }

    /// Every occupied slot.
    pub(in crate::timer) fn iter(&self) -> impl Iterator<Item = (QueueHandle, &T)> {
        let chunks = (0..).step_by(CHUNK_SLOTS).zip(&self.chunks);
        let slots = chunks.flat_map(|(first, chunk)| {
            let slots = chunk.iter().flat_map(|chunk| chunk.slots.iter());
            (first..).zip(slots)
        });
        slots.filter_map(|(index, slot)| {
            let handle = QueueHandle {
                slot: index,
                claimed: slot.claimed?,
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
        let claimed = self.slot(slot)?.claimed?;
        Some(QueueHandle { slot, claimed })
    }

    #[inline]
    fn slot(&self, slot: u32) -> Option<&TimerSlot<T>> {
        let (chunk, offset) = split(slot);
        let chunk = self.chunks.get(chunk)?.as_ref()?;
        Some(&chunk.slots[offset])
    }

    #[inline]
    fn current(&self, handle: QueueHandle) -> Option<&TimerSlot<T>> {
        let slot = self.slot(handle.slot)?;
        (slot.claimed == Some(handle.claimed)).then_some(slot)
    }

    #[inline]
    fn current_mut(&mut self, handle: QueueHandle) -> Option<&mut TimerSlot<T>> {
        let (chunk, offset) = split(handle.slot);
        let chunk = self.chunks.get_mut(chunk)?.as_mut()?;
        let slot = &mut chunk.slots[offset];
        (slot.claimed == Some(handle.claimed)).then_some(slot)
    }

    #[inline]
    fn note_vacant(&mut self, slot: u32, is_retired: bool) {
        if is_retired {
            self.in_use -= 1;
            self.retired_count += 1;
        } else {
            self.vacant.push(slot);
        }
    }

    #[inline]
    fn next_fresh(&mut self) -> u32 {
        if self.fresh == self.fresh_end {
            self.open_chunk();
        }
        self.fresh += 1;
        self.in_use += 1;
        self.fresh - 1
    }

    /// Finds a chunk of fresh slots: an unused one, or new memory.
    #[cold]
    fn open_chunk(&mut self) {
        let rested = self.rested.pop().or_else(|| self.bare.pop());
        let index = rested.unwrap_or_else(|| self.new_chunk());
        let stamp = self.stamps[index as usize];
        self.chunks[index as usize].get_or_insert_with(|| Chunk::vacant(stamp));
        self.fresh = index * CHUNK_SLOTS as u32;
        self.fresh_end = self.fresh + CHUNK_SLOTS as u32;
        self.occupied_low = self.in_use / 4;
    }

    fn new_chunk(&mut self) -> u32 {
        let index = self.chunks.len();
        assert!(
            index < CHUNKS_MAX,
            "a timer queue holds fewer than 2^30 timers"
        );
        self.chunks.push(None);
        self.stamps.push(1);
        index as u32
    }

    /// Retires chunks without an occupied slot. This looks at every vacant
    /// slot, so it is repeated only when far fewer slots are occupied.
    #[cold]
    fn rest_empty(&mut self) {
        let vacant_counts = self.count_vacant();
        let is_empty = |chunk: &u32| vacant_counts[*chunk as usize] == CHUNK_SLOTS as u32;
        let chunks = (0..self.chunks.len() as u32).rev();
        let before = self.rested.len();
        self.rested.extend(chunks.filter(is_empty));
        if self.rested.len() == before {
            // At one in two chunks most of them are empty, however they lie.
            let sparse = (self.in_use / CHUNK_SLOTS / 2).min(self.occupied() / 2);
            self.occupied_low = sparse.max(self.occupied() / 64);
            return;
        }
        // With no fresh slot left, `fresh` is the first slot after its chunk, of another or of none.
        if self.fresh < self.fresh_end && is_empty(&(self.fresh / CHUNK_SLOTS as u32)) {
            (self.fresh, self.fresh_end) = (0, 0);
        }
        let before = self.vacant.len();
        let is_in_use = |slot: &u32| !is_empty(&(slot / CHUNK_SLOTS as u32));
        self.vacant.retain(is_in_use);
        self.in_use -= before - self.vacant.len();
        self.occupied_low = self.occupied() / 4;
        self.strip_surplus();
    }

    /// How many slots of each chunk are vacant, fresh ones included.
    fn count_vacant(&self) -> Vec<u32> {
        let mut counts = vec![0; self.chunks.len()];
        for &slot in &self.vacant {
            counts[split(slot).0] += 1;
        }
        if self.fresh < self.fresh_end {
            counts[split(self.fresh).0] += self.fresh_end - self.fresh;
        }
        counts
    }

    /// Lets everything start over: no slot is occupied.
    fn rest_all(&mut self) {
        self.vacant.clear();
        (self.fresh, self.fresh_end) = (0, 0);
        (self.in_use, self.occupied_low) = (0, 0);
        self.rested.clear();
        let indices = (0..self.chunks.len() as u32).rev();
        let has_memory = |&index: &u32| self.chunks[index as usize].is_some();
        self.rested.extend(indices.filter(has_memory));
        self.strip_surplus();
    }

    /// Returns the memory of unused chunks, except for a few.
    fn strip_surplus(&mut self) {
        let kept =
            (RESTED_BYTES / (CHUNK_SLOTS * (size_of::<TimerSlot<T>>() + size_of::<u64>()))).max(1);
        let surplus = self.rested.len().saturating_sub(kept);
        if surplus == 0 {
            return;
        }
        for index in self.rested.drain(..surplus) {
            let chunk = self.chunks[index as usize].take();
            let slots = chunk.iter().flat_map(|chunk| chunk.slots.iter());
            let stamp = slots.map(|slot| slot.stamp).max();
            // They go on above the ones used so far, so that old handles and
            // dead entries match nothing that comes.
            self.stamps[index as usize] = stamp.unwrap_or(STAMP_RETIRED);
            self.bare.push(index);
        }
        self.vacant.shrink_to(2 * self.vacant.len() + CHUNK_SLOTS);
    }
}

impl<T> Chunk<T> {
    fn vacant(stamp: u32) -> Self {
        let slot = || TimerSlot {
            stamp,
            claimed: None,
            value: MaybeUninit::uninit(),
        };
        Self {
            slots: boxed_array(iter::repeat_with(slot)),
            deadlines_ns: boxed_array(iter::repeat(0)),
        }
    }
}

/// An array that is never on the stack.
fn boxed_array<E>(elements: impl Iterator<Item = E>) -> Box<[E; CHUNK_SLOTS]> {
    let elements: Vec<E> = elements.take(CHUNK_SLOTS).collect();
    match elements.try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the iterators that are given here do not end"),
    }
}

impl<T> Drop for Chunk<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            Values(self.slots.iter_mut()).drop_all();
        }
    }
}

/// Values to drop. If a drop panics, the others are still dropped.
struct Values<'a, T>(slice::IterMut<'a, TimerSlot<T>>);

impl<T> Values<'_, T> {
    fn drop_all(&mut self) {
        for slot in &mut self.0 {
            if slot.claimed.take().is_some() {
                // SAFETY: the slot was claimed, which says that the value is
                // there; it has just been marked as vacant.
                unsafe { slot.value.assume_init_drop() };
            }
        }
    }
}

impl<T> Drop for Values<'_, T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

impl<T> TimerSlot<T> {
    #[inline]
    fn waits(&self) -> bool {
        self.stamp.is_multiple_of(2)
    }

    /// Takes the value out, and whether the slot must be retired.
    #[inline]
    fn vacate(&mut self) -> Option<(T, bool)> {
        self.claimed.take()?;
        // Odd, and above what it was.
        self.stamp = (self.stamp + 1) | 1;
        // SAFETY: the slot was claimed, which says that the value is there;
        // it is marked as vacant from here on.
        let value = unsafe { self.value.assume_init_read() };
        Some((value, self.stamp >= STAMP_RETIRED))
    }

    #[inline]
    fn value(&self) -> Option<&T> {
        // SAFETY: a claimed slot has its value.
        let value = || unsafe { self.value.assume_init_ref() };
        self.claimed.is_some().then(value)
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

const CHUNK_SLOTS: usize = 1024;
const CHUNKS_MAX: usize = (1 << 30) / CHUNK_SLOTS;
/// Unused chunks keep their memory up to this, and at least one does.
const RESTED_BYTES: usize = 512 << 10;
/// A slot is not used again once its stamp is here.
const STAMP_RETIRED: u32 = u32::MAX / 2;
/// A timer with such a stamp has been moved a thousand million times.
const STAMP_WORN: u32 = u32::MAX - 4;
const HAS_MEMORY: &str = "a vacant slot has memory";
const NOT_RETIRED: &str = "a slot in use has stamps left";

#[cfg(test)]
impl<T> TimerSlots<T> {
    /// Takes a timer close to the end of its slot's stamps, with no entry left.
    pub(super) fn wear(&mut self, handle: QueueHandle) {
        if let Some(slot) = self.current_mut(handle) {
            slot.stamp = STAMP_WORN + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_stays_out_of_date_when_its_chunk_comes_back() {
        let mut slots = TimerSlots::new();
        let count = 30 * CHUNK_SLOTS as u64;
        let handles: Vec<_> = (0..count).map(|n| slots.claim(n, n)).collect();
        for &(handle, _) in &handles {
            assert!(slots.release(handle).is_some());
        }
        slots.tidy();
        assert!(!slots.bare.is_empty());
        for n in 0..count {
            slots.claim(n, n);
        }
        assert!(slots.bare.is_empty());
        for (handle, entry) in handles {
            assert!(slots.get(handle).is_none() && !slots.is_live(entry));
            assert!(slots.release(handle).is_none());
        }
        assert_eq!(slots.iter().count() as u64, count);
    }

    #[test]
    fn chunks_are_kept_also_when_the_last_one_is_exactly_used_up() {
        let mut slots = TimerSlots::new();
        let count = 2 * CHUNK_SLOTS as u64;
        let handles: Vec<_> = (0..count).map(|n| slots.claim(n, n).0).collect();
        for handle in &handles[..CHUNK_SLOTS * 7 / 4] {
            assert!(slots.release(*handle).is_some());
            slots.tidy();
        }
        assert_eq!(slots.rested.len() + slots.bare.len(), 1);
        for (n, handle) in (0..count).zip(handles).skip(CHUNK_SLOTS * 7 / 4) {
            let released = slots.release(handle).map(|(value, _)| value);
            assert_eq!(released, Some(n));
        }
        slots.tidy();
        assert_eq!(slots.occupied(), 0);
    }

    #[test]
    fn a_slot_without_a_further_stamp_is_retired_and_its_chunk_stays_in_use() {
        let mut slots = TimerSlots::new();
        let (first, _) = slots.claim(0, ());
        slots.wear(first);
        assert!(slots.release(first).is_some());
        assert_eq!((slots.occupied(), slots.retired_count), (0, 1));
        slots.tidy();
        for n in 1..2 * CHUNK_SLOTS as u64 {
            let (handle, _) = slots.claim(n, ());
            assert_ne!(handle.slot, first.slot);
        }
        assert!(slots.get(first).is_none());
    }
}
