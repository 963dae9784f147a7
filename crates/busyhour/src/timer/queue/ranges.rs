use super::{
    entry::{Liveness, TimerEntry},
    places::Places,
};

/// Slots that were claimed one after the other, and whose timers wait without
/// entries: the slots themselves are in order of insertion.
///
/// A timer is in a range until it leaves its slot, gets another deadline, or is
/// given an entry because its turn in the order comes. The slot knows that. A
/// slot that was released and claimed again is not in its old range: either
/// another slot of the chunk was claimed all the time, and then it has an entry,
/// or the chunk was empty in between, and then it has another generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRange {
    pub(super) first: u32,
    pub(super) len: usize,
    /// That of the chunk, in which all the slots are.
    pub(super) generation: u64,
}

/// A slot's generation and its offset in the chunk.
///
/// Generations differ between chunks, so the key says whether a slot is the next
/// one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) struct RangeKey(u64);

/// The slots of the timers, for the part of the order that has no entries.
pub(in crate::timer) trait RangedSlots: Liveness {
    /// The number of timers in ranges.
    fn ranged(&self) -> usize;

    /// The deadlines of the slots of a range, also of those whose timers left it.
    fn deadlines_ns(&self, range: SlotRange) -> &[u64];

    /// The earliest timer of a range, [`TimerEntry::NONE`] if there is none.
    fn earliest(&self, range: SlotRange) -> TimerEntry;

    /// Takes the timer out of its range that is in a slot and due up to `last_ns`,
    /// if there is one.
    fn leave_slot(&mut self, slot: u32, last_ns: u64) -> Option<TimerEntry>;

    /// Takes the timers that are due up to `last_ns` out of their range, in order
    /// of insertion.
    fn leave_range(&mut self, range: SlotRange, last_ns: u64, give: impl FnMut(TimerEntry));

    /// Takes a timer out of each slot of a range, and puts their entries into `sorted`.
    fn leave_for_places(
        &mut self,
        range: SlotRange,
        places: &mut Places,
        sorted: &mut [TimerEntry],
    );

    /// Takes all timers out of their range, in order of insertion.
    fn leave_whole_range(&mut self, range: SlotRange, entries: &mut Vec<TimerEntry>);
}

impl RangeKey {
    /// The key of no slot.
    pub(super) const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(in crate::timer) const fn new(generation: u64, offset: usize) -> Self {
        Self(generation << OFFSET_BITS | offset as u64)
    }

    #[inline]
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    fn generation(self) -> u64 {
        self.0 >> OFFSET_BITS
    }
}

impl SlotRange {
    /// The slots from `first`, which has the key `begin`, to before `end`.
    pub(super) fn new(first: u32, begin: RangeKey, end: RangeKey) -> Self {
        Self {
            first,
            len: (end.0 - begin.0) as usize,
            generation: begin.generation(),
        }
    }

    /// The range in the form of an entry, to be kept among entries.
    pub(super) fn to_entry(self) -> TimerEntry {
        let number = RangeKey::new(self.generation, self.len).0;
        TimerEntry::new(number, self.first, STAMP)
    }

    /// The range that an entry stands for, if it is not a timer's.
    #[inline]
    pub(super) fn of_entry(entry: TimerEntry) -> Option<Self> {
        (entry.stamp() == STAMP).then_some(Self {
            first: entry.slot(),
            len: (entry.deadline_ns % (1 << OFFSET_BITS)) as usize,
            generation: entry.deadline_ns >> OFFSET_BITS,
        })
    }
}

/// Generations are below this. They begin again after years of nothing else.
pub(super) const GENERATIONS: u64 = 1 << (u64::BITS - OFFSET_BITS);
/// Offsets, and the lengths of ranges, have fewer bits.
const OFFSET_BITS: u32 = 16;
/// No timer's entry has it.
const STAMP: u32 = 1;
