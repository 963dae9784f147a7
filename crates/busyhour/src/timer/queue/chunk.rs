use super::{entry::TimerEntry, places::Places};
use std::{mem::MaybeUninit, num::NonZero, ops::Range, slice};

/// Slots that get and lose their memory together.
///
/// Released slots are chained, the last one first. Those that were not claimed
/// since the chunk was empty come after all others, in order. So an emptied
/// chunk is reset in one step, in whatever order its slots were released.
pub(super) struct Chunk<T> {
    /// `None` if it was returned.
    memory: Option<Box<ChunkMemory<T>>>,
    /// A number above every stamp that was used in returned memory.
    stamp: u32,
    /// Differs each time that slots are claimed from it while it is empty.
    generation: u64,
    /// The slot released last, or [`NO_SLOT`] if all that were released were
    /// claimed again.
    released: u32,
    /// Slots that are occupied or retired. If none is released, these are the
    /// first ones.
    in_use: u32,
    /// Whether it is among the chunks to claim from.
    pub(super) is_open: bool,
}

/// Deadlines are stored apart from what a cancel changes.
struct ChunkMemory<T> {
    slots: [TimerSlot<T>; CHUNK_SLOTS],
    deadlines_ns: [u64; CHUNK_SLOTS],
}

pub(super) struct TimerSlot<T> {
    /// Increases with each change, see [`stamps`]. The one entry with the same
    /// stamp is the live one.
    pub(super) stamp: u32,
    /// The stamp at the time of the claim, without the mark of a range and so
    /// even, if `value` is there; otherwise twice the slot released before it,
    /// and one.
    claim: u32,
    value: MaybeUninit<T>,
}

/// Where a timer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) enum TimerPlace {
    /// In a range of slots that were claimed one after the other.
    Range,
    /// In an entry of its own.
    Entry,
    /// Nowhere: it is held.
    Held,
}

/// What [`Chunk::release`] left behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRelease {
    /// That of the slot before.
    stamp: u32,
    /// Of the chunk.
    in_use: u32,
}

impl SlotRelease {
    /// Where the timer waited.
    #[inline]
    pub(super) fn place(self) -> TimerPlace {
        stamps::place(self.stamp)
    }

    /// Whether the chunk may have its first room now, or be empty.
    #[inline]
    pub(super) fn is_at_an_edge(self) -> bool {
        is_at_an_edge(self.in_use)
    }
}

/// The two low bits of a stamp say where the timer waits; the others are a
/// number that increases.
mod stamps {
    use super::TimerPlace;

    /// Does not wait; its slot may be vacant.
    const IDLE: u32 = 1;
    /// Waits in a range, unless it is idle.
    const RANGE: u32 = 2;
    const LOW: u32 = IDLE | RANGE;

    pub(super) const FIRST: u32 = IDLE;
    /// What `next` adds to a stamp at most.
    pub(super) const STEP: u32 = LOW + 1;

    /// The next stamp of a timer that waits in an entry.
    #[inline]
    pub(super) const fn next(stamp: u32) -> u32 {
        (stamp | LOW) + 1
    }

    #[inline]
    pub(super) const fn ranged(waiting: u32) -> u32 {
        waiting | RANGE
    }

    /// The stamp of the same timer once it has left its range.
    #[inline]
    pub(super) const fn unranged(stamp: u32) -> u32 {
        stamp & !RANGE
    }

    #[inline]
    pub(super) const fn idle(stamp: u32) -> u32 {
        stamp | IDLE
    }

    #[inline]
    pub(super) const fn is_idle(stamp: u32) -> bool {
        stamp & IDLE != 0
    }

    #[inline]
    pub(super) const fn is_ranged(stamp: u32) -> bool {
        stamp & LOW == RANGE
    }

    #[inline]
    pub(super) const fn place(stamp: u32) -> TimerPlace {
        match stamp & LOW {
            RANGE => TimerPlace::Range,
            0 => TimerPlace::Entry,
            _ => TimerPlace::Held,
        }
    }
}

impl<T> Chunk<T> {
    /// The memory of a chunk.
    pub(super) const BYTES: usize = CHUNK_SLOTS * (size_of::<TimerSlot<T>>() + size_of::<u64>());

    pub(super) const fn new() -> Self {
        Self {
            memory: None,
            stamp: stamps::FIRST,
            generation: 0,
            released: NO_SLOT,
            in_use: 0,
            is_open: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// Whether no slot can be claimed.
    pub(super) fn is_full(&self) -> bool {
        self.in_use as usize == CHUNK_SLOTS
    }

    /// Prepares an empty chunk for claims.
    pub(super) fn begin(&mut self, generation: u64) {
        debug_assert!(self.is_empty() && self.released == NO_SLOT);
        let stamp = self.stamp;
        self.memory
            .get_or_insert_with(|| ChunkMemory::vacant(stamp));
        self.generation = generation;
        self.is_open = true;
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The next slot to claim, if it is the first of those that were not claimed
    /// since the chunk was empty, and is not near its last stamp. The chunk must not be full.
    #[inline]
    pub(super) fn fresh(&mut self) -> Option<FreshSlot<'_, T>> {
        debug_assert!(!self.is_full());
        if self.released != NO_SLOT {
            return None;
        }
        let memory = self.memory.as_mut()?;
        let offset = self.in_use as usize % CHUNK_SLOTS;
        let slot = &mut memory.slots[offset];
        let claimed = NonZero::new(stamps::next(slot.stamp))?;
        if claimed.get() >= LAST_CLAIM {
            return None;
        }
        Some(FreshSlot {
            slot,
            deadline_ns: &mut memory.deadlines_ns[offset],
            in_use: &mut self.in_use,
            offset,
            claimed,
        })
    }

    /// Claims a slot for a timer that waits in an entry; the chunk must have
    /// begun and not be full.
    #[inline]
    pub(super) fn claim(&mut self, deadline_ns: u64, value: T) -> (usize, NonZero<u32>) {
        debug_assert!(!self.is_full());
        let memory = self.memory.as_mut().expect(BEGUN);
        let is_fresh = self.released == NO_SLOT;
        let offset = if is_fresh { self.in_use } else { self.released };
        let offset = offset as usize % CHUNK_SLOTS;
        let slot = &mut memory.slots[offset];
        if !is_fresh {
            self.released = slot.next_released();
        }
        let claim = stamps::next(slot.stamp);
        *slot = TimerSlot {
            stamp: claim,
            claim,
            value: MaybeUninit::new(value),
        };
        memory.deadlines_ns[offset] = deadline_ns;
        self.in_use += 1;
        (offset, NonZero::new(claim).expect(NOT_RETIRED))
    }

    /// Takes the value of a timer that waits in a range since this claim, if nothing is
    /// left to be counted. Most cancels are of that kind: three comparisons say so. A timer whose
    /// slot is near its last stamp waits in no range.
    ///
    /// It does the same as [`Chunk::in_range`] with [`RangeSlot::release`], which take five more
    /// instructions where the value is a number.
    #[inline]
    pub(super) fn release_in_range(&mut self, offset: usize, claimed: NonZero<u32>) -> Option<T> {
        let slot = &mut self.memory.as_mut()?.slots[offset];
        let (waiting, in_use) = (stamps::ranged(claimed.get()), self.in_use.wrapping_sub(1));
        if !slot.is_claimed(claimed) || slot.stamp != waiting || is_at_an_edge(in_use) {
            return None;
        }
        debug_assert!(slot.is_occupied() && waiting < STAMP_RETIRED - stamps::STEP);
        slot.claim = released_after(self.released);
        slot.stamp = stamps::idle(stamps::next(waiting));
        (self.released, self.in_use) = (offset as u32, in_use);
        // SAFETY: the slot had the stamp of a claim, which is even, so it was occupied, which
        // says that the value is there; it is marked as vacant from here on. A vacant slot has
        // an odd number in place of the stamp, and no slot has that of the one odd handle.
        Some(unsafe { slot.value.assume_init_read() })
    }

    /// The slot of such a timer. Its value is then read once, where an `Option` of a large one is moved.
    #[inline(always)]
    pub(super) fn in_range(
        &mut self,
        offset: usize,
        claimed: NonZero<u32>,
    ) -> Option<RangeSlot<'_, T>> {
        let slot = &mut self.memory.as_mut()?.slots[offset];
        let (waiting, in_use) = (stamps::ranged(claimed.get()), self.in_use.wrapping_sub(1));
        if !slot.is_claimed(claimed) || slot.stamp != waiting || is_at_an_edge(in_use) {
            return None;
        }
        debug_assert!(slot.is_occupied() && waiting < STAMP_RETIRED - stamps::STEP);
        Some(RangeSlot {
            slot,
            released: &mut self.released,
            in_use: &mut self.in_use,
            offset,
            waiting,
        })
    }

    /// Takes the value out of an occupied slot, and what was left behind.
    #[inline]
    pub(super) fn release(&mut self, offset: usize) -> Option<(T, SlotRelease)> {
        let slot = &mut self.memory.as_mut()?.slots[offset];
        let stamp = slot.stamp;
        let value = slot.vacate(self.released)?;
        if slot.stamp < STAMP_RETIRED {
            self.released = offset as u32;
            self.in_use -= 1;
        }
        let in_use = self.in_use;
        Some((value, SlotRelease { stamp, in_use }))
    }

    /// Takes the value of a timer that waits in the entry with this stamp, and whether the
    /// chunk may have its first room now, or be empty.
    #[inline]
    pub(super) fn release_entry(&mut self, offset: usize, stamp: u32) -> Option<(T, bool)> {
        let slot = &mut self.memory.as_mut()?.slots[offset];
        if slot.stamp != stamp || stamps::place(stamp) != TimerPlace::Entry {
            return None;
        }
        debug_assert!(slot.is_occupied());
        slot.claim = released_after(self.released);
        slot.stamp = stamps::idle(stamps::next(stamp));
        // SAFETY: the slot had the stamp of a timer that waits in an entry. That of a vacant
        // slot says that nothing waits. So the value is there; the slot is marked as vacant
        // from here on.
        let value = unsafe { slot.value.assume_init_read() };
        if slot.stamp < STAMP_RETIRED {
            self.released = offset as u32;
            self.in_use -= 1;
        }
        Some((value, is_at_an_edge(self.in_use)))
    }

    /// The earliest timer of the slots in `offsets` that is in a range: its offset,
    /// deadline and stamp.
    pub(super) fn earliest(&self, offsets: Range<usize>) -> Option<(usize, u64, u32)> {
        let memory = self.memory.as_ref()?;
        let deadlines = &memory.deadlines_ns[offsets.clone()];
        let slots = &memory.slots[offsets.clone()];
        let mut first = None;
        let mut first_ns = u64::MAX;
        for ((slot, deadline_ns), offset) in slots.iter().zip(deadlines).zip(offsets) {
            // Mostly it is later, and then the slot, which may be far away, is not read.
            if (*deadline_ns < first_ns || first.is_none()) && slot.is_ranged() {
                first_ns = *deadline_ns;
                first = Some((offset, first_ns, stamps::unranged(slot.stamp)));
            }
        }
        first
    }

    /// Takes the timer of a slot out of its range if it is due up to `last_ns`;
    /// returns its deadline and stamp.
    #[inline]
    pub(super) fn leave_slot(&mut self, offset: usize, last_ns: u64) -> Option<(u64, u32)> {
        let memory = self.memory.as_mut()?;
        let (slot, deadline_ns) = (&mut memory.slots[offset], memory.deadlines_ns[offset]);
        let leaves = slot.is_ranged() && deadline_ns <= last_ns;
        leaves.then(|| (deadline_ns, slot.leave_range()))
    }

    /// Takes the timers of the slots in `offsets` that are due up to `last_ns` out
    /// of their range; gives their offsets, deadlines and stamps.
    #[inline]
    pub(super) fn leave_range(
        &mut self,
        offsets: Range<usize>,
        last_ns: u64,
        mut give: impl FnMut(usize, u64, u32),
    ) {
        let Some(memory) = &mut self.memory else {
            return;
        };
        let deadlines = &memory.deadlines_ns[offsets.clone()];
        let slots = &mut memory.slots[offsets.clone()];
        for ((slot, deadline_ns), offset) in slots.iter_mut().zip(deadlines).zip(offsets) {
            if *deadline_ns <= last_ns && slot.is_ranged() {
                give(offset, *deadline_ns, slot.leave_range());
            }
        }
    }

    /// Takes the timers of the slots in `offsets` out of their range, into entries;
    /// `slot` is the first of them.
    pub(super) fn leave_whole_range(
        &mut self,
        offsets: Range<usize>,
        slot: u32,
        entries: &mut Vec<TimerEntry>,
    ) {
        let Some(memory) = &mut self.memory else {
            return;
        };
        let deadlines = &memory.deadlines_ns[offsets.clone()];
        let slots = memory.slots[offsets].iter_mut().zip(deadlines).zip(slot..);
        let ranged = slots.filter(|((slot, _), _)| slot.is_ranged());
        entries.extend(ranged.map(|((slot, deadline_ns), number)| {
            TimerEntry::new(*deadline_ns, number, slot.leave_range())
        }));
    }

    /// Takes a timer out of each of the slots in `offsets`, which are in a range, and puts their
    /// entries into `sorted`; `slot` is the first of them.
    pub(super) fn leave_for_places(
        &mut self,
        offsets: Range<usize>,
        slot: u32,
        places: &mut Places,
        sorted: &mut [TimerEntry],
    ) {
        let Some(memory) = &mut self.memory else {
            return;
        };
        let deadlines = &memory.deadlines_ns[offsets.clone()];
        let slots = memory.slots[offsets].iter_mut().zip(deadlines).zip(slot..);
        for ((slot, deadline_ns), number) in slots {
            debug_assert!(slot.is_ranged());
            let entry = TimerEntry::new(*deadline_ns, number, slot.leave_range());
            places.put(entry, sorted);
        }
    }

    /// The deadlines of all slots, vacant ones included.
    pub(super) fn deadlines_ns(&self) -> &[u64] {
        match &self.memory {
            Some(memory) => &memory.deadlines_ns,
            None => &[],
        }
    }

    #[inline]
    pub(super) fn slot(&self, offset: usize) -> Option<&TimerSlot<T>> {
        Some(&self.memory.as_ref()?.slots[offset])
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, offset: usize) -> Option<&mut TimerSlot<T>> {
        Some(&mut self.memory.as_mut()?.slots[offset])
    }

    #[inline]
    pub(super) fn deadline_mut(&mut self, offset: usize) -> Option<&mut u64> {
        Some(&mut self.memory.as_mut()?.deadlines_ns[offset])
    }

    pub(super) fn deadline_ns(&self, offset: usize) -> Option<u64> {
        Some(self.memory.as_ref()?.deadlines_ns[offset])
    }

    /// All slots, if they have memory.
    pub(super) fn slots(&self) -> impl Iterator<Item = &TimerSlot<T>> {
        self.memory.iter().flat_map(|memory| memory.slots.iter())
    }

    /// Lets an empty chunk start over.
    pub(super) fn reset(&mut self) {
        debug_assert!(self.is_empty());
        self.released = NO_SLOT;
    }

    /// Returns the memory of an empty chunk.
    ///
    /// Its stamps go on above the ones used so far, so that old handles and
    /// dead entries match nothing that comes.
    pub(super) fn strip(&mut self) {
        self.reset();
        self.stamp = self
            .slots()
            .map(|slot| slot.stamp)
            .max()
            .unwrap_or(self.stamp);
        self.memory = None;
    }
}

impl<T> ChunkMemory<T> {
    /// One allocation, which is never on the stack.
    #[cold]
    fn vacant(stamp: u32) -> Box<Self> {
        let mut memory = Box::<Self>::new_uninit();
        let place = memory.as_mut_ptr();
        for offset in 0..CHUNK_SLOTS {
            let slot = TimerSlot {
                stamp,
                claim: released_after(NO_SLOT),
                value: MaybeUninit::uninit(),
            };
            // SAFETY: `place` is the memory of the box, and both arrays have a place with this
            // offset. Nothing is read or dropped.
            unsafe {
                (&raw mut (*place).slots[offset]).write(slot);
                (&raw mut (*place).deadlines_ns[offset]).write(0);
            }
        }
        // SAFETY: each element of both arrays was written, and there are no other fields.
        unsafe { memory.assume_init() }
    }
}

impl<T> Drop for ChunkMemory<T> {
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
            drop(slot.vacate(NO_SLOT));
        }
    }
}

impl<T> Drop for Values<'_, T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

/// An occupied slot whose release leaves nothing to be counted. The value that [`release`](Self::release)
/// returns is no `Option`, so it is read once.
pub(super) struct RangeSlot<'a, T> {
    slot: &'a mut TimerSlot<T>,
    released: &'a mut u32,
    in_use: &'a mut u32,
    offset: usize,
    /// Its stamp.
    waiting: u32,
}

impl<T> RangeSlot<'_, T> {
    /// Takes the value out.
    #[inline(always)]
    pub(super) fn release(self) -> T {
        self.slot.claim = released_after(*self.released);
        self.slot.stamp = stamps::idle(stamps::next(self.waiting));
        *self.released = self.offset as u32;
        *self.in_use -= 1;
        // SAFETY: `in_range` gives only slots with the stamp of a claim, which is even, so it was
        // occupied, which says that the value is there; it is marked as vacant from here on. A vacant
        // slot has an odd number in place of the stamp, and no slot has that of the one odd handle.
        unsafe { self.slot.value.assume_init_read() }
    }
}

/// A slot that was not claimed since its chunk was empty. To fill it cannot
/// panic, so the value goes there without a copy on the way.
pub(super) struct FreshSlot<'a, T> {
    slot: &'a mut TimerSlot<T>,
    deadline_ns: &'a mut u64,
    in_use: &'a mut u32,
    pub(super) offset: usize,
    /// The stamp of its claim.
    pub(super) claimed: NonZero<u32>,
}

impl<T> FreshSlot<'_, T> {
    /// Claims the slot, for a timer that waits in a range; whether the chunk is
    /// full now.
    #[inline]
    pub(super) fn fill(self, deadline_ns: u64, value: T) -> bool {
        let claim = self.claimed.get();
        *self.slot = TimerSlot {
            stamp: stamps::ranged(claim),
            claim,
            value: MaybeUninit::new(value),
        };
        *self.deadline_ns = deadline_ns;
        *self.in_use += 1;
        *self.in_use as usize == CHUNK_SLOTS
    }
}

impl<T> TimerSlot<T> {
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !stamps::is_idle(self.stamp)
    }

    /// Whether it is occupied since the claim that gave this stamp.
    #[inline]
    pub(super) fn is_claimed(&self, claimed: NonZero<u32>) -> bool {
        self.claim == claimed.get()
    }

    /// Whether an entry with this stamp is the live one.
    #[inline]
    pub(super) fn has_stamp(&self, stamp: u32) -> bool {
        stamps::unranged(self.stamp) == stamps::unranged(stamp)
    }

    #[inline]
    pub(super) fn place(&self) -> TimerPlace {
        stamps::place(self.stamp)
    }

    #[inline]
    fn is_ranged(&self) -> bool {
        stamps::is_ranged(self.stamp)
    }

    /// Takes the timer out of its range; returns the stamp of its entry.
    #[inline]
    pub(super) fn leave_range(&mut self) -> u32 {
        self.stamp = stamps::unranged(self.stamp);
        self.stamp
    }

    /// Makes every entry dead; returns the stamp of the next one.
    #[inline]
    pub(super) fn wait_again(&mut self) -> u32 {
        self.stamp = stamps::next(self.stamp);
        self.stamp
    }

    /// Makes every entry dead.
    #[inline]
    pub(super) fn stop_waiting(&mut self) {
        self.stamp = stamps::idle(self.stamp);
    }

    /// Goes back to the stamps that follow the claim.
    pub(super) fn restart(&mut self) {
        self.stamp = stamps::idle(self.claim);
    }

    /// The stamp of the claim, if it is occupied.
    #[inline]
    pub(super) fn claimed(&self) -> Option<NonZero<u32>> {
        NonZero::new(self.claim).filter(|_| self.is_occupied())
    }

    #[inline]
    fn is_occupied(&self) -> bool {
        self.claim % 2 == 0
    }

    /// The slot that was released before this one.
    #[inline]
    fn next_released(&self) -> u32 {
        debug_assert!(!self.is_occupied());
        self.claim >> 1
    }

    /// Takes the value out of an occupied slot; `before` was released before it.
    #[inline]
    fn vacate(&mut self, before: u32) -> Option<T> {
        if !self.is_occupied() {
            return None;
        }
        self.claim = released_after(before);
        self.stamp = stamps::idle(stamps::next(self.stamp));
        // SAFETY: the slot was occupied, which says that the value is there;
        // it is marked as vacant from here on.
        Some(unsafe { self.value.assume_init_read() })
    }

    #[inline]
    pub(super) fn value(&self) -> Option<&T> {
        // SAFETY: an occupied slot has its value.
        let value = || unsafe { self.value.assume_init_ref() };
        self.is_occupied().then(value)
    }

    #[inline]
    pub(super) fn value_mut(&mut self) -> Option<&mut T> {
        if !self.is_occupied() {
            return None;
        }
        // SAFETY: an occupied slot has its value.
        Some(unsafe { self.value.assume_init_mut() })
    }
}

/// Whether a chunk with so many slots in use may have its first room now, or be empty.
#[inline]
const fn is_at_an_edge(in_use: u32) -> bool {
    in_use.wrapping_sub(1) >= CHUNK_SLOTS as u32 - 2
}

/// The claim of a vacant slot: odd, so that it is no stamp of a claim.
#[inline]
const fn released_after(before: u32) -> u32 {
    before << 1 | 1
}

pub(super) const CHUNK_SLOTS: usize = 1024;
const NO_SLOT: u32 = CHUNK_SLOTS as u32;
/// A slot is not used again once its stamp is here.
const STAMP_RETIRED: u32 = u32::MAX / 2;
/// A slot that is claimed with this stamp may be retired when it is released.
const LAST_CLAIM: u32 = STAMP_RETIRED - 2 * stamps::STEP;
const BEGUN: &str = "a chunk has its memory before slots are claimed from it";
const NOT_RETIRED: &str = "a slot in use has stamps left";

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_with_its_last_stamp_is_in_no_range_and_not_claimed_again() {
        const LAST: u32 = STAMP_RETIRED + 1 - 2 * stamps::STEP;
        let mut chunk = Chunk::new();
        chunk.begin(1);
        assert!(!chunk.fresh().expect("room").fill(0, 0));
        chunk.memory.as_mut().expect("it has begun").slots[1].stamp = stamps::idle(LAST);
        assert!(chunk.fresh().is_none());
        let (offset, claimed) = chunk.claim(1, 1);
        assert_eq!((offset, claimed.get()), (1, LAST + stamps::STEP));
        assert!(chunk.in_range(1, claimed).is_none());
        assert_eq!(chunk.release_in_range(1, claimed), None);
        let released = chunk.release(1).map(|(value, _)| value);
        assert_eq!(released, Some(1));
        while !chunk.is_full() {
            let (offset, _) = chunk.claim(0, 7);
            assert_ne!(offset, 1);
        }
    }
}
