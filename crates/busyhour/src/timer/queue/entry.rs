use super::{
    places::Places,
    ranges::{RangedSlots, SlotRange},
};

/// A waiting timer in the order: its deadline, the slot that holds its value,
/// and the stamp that the slot had when the timer was put in order.
///
/// A cancel or a move changes the slot's stamp but not the entry. The entry is
/// then dead, and is dropped when a search comes across it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) struct TimerEntry {
    pub(in crate::timer) deadline_ns: u64,
    /// Slot and stamp in one word: two words stay in registers, while three
    /// fields would be passed through memory into a bucket.
    mark: u64,
}

/// Tells which entries are dead.
pub(in crate::timer) trait Liveness {
    /// Whether there can be no dead entries, so that none needs to be checked.
    const NONE_DEAD: bool = false;

    fn is_live(&self, entry: TimerEntry) -> bool;
}

/// Treats every entry as live, where that is known or does not matter.
pub(in crate::timer) struct AllLive;

impl Liveness for AllLive {
    const NONE_DEAD: bool = true;

    #[inline]
    fn is_live(&self, _: TimerEntry) -> bool {
        true
    }
}

/// The slots, where it is known that no entry is dead.
pub(in crate::timer) struct NoneDead<'a, S>(pub(in crate::timer) &'a mut S);

impl<S> Liveness for NoneDead<'_, S> {
    const NONE_DEAD: bool = true;

    #[inline]
    fn is_live(&self, _: TimerEntry) -> bool {
        true
    }
}

impl<S: RangedSlots> RangedSlots for NoneDead<'_, S> {
    fn ranged(&self) -> usize {
        self.0.ranged()
    }

    fn deadlines_ns(&self, range: SlotRange) -> &[u64] {
        self.0.deadlines_ns(range)
    }

    fn earliest(&self, range: SlotRange) -> TimerEntry {
        self.0.earliest(range)
    }

    fn leave_slot(&mut self, slot: u32, last_ns: u64) -> Option<TimerEntry> {
        self.0.leave_slot(slot, last_ns)
    }

    fn leave_range(&mut self, range: SlotRange, last_ns: u64, give: impl FnMut(TimerEntry)) {
        self.0.leave_range(range, last_ns, give);
    }

    fn leave_for_places(
        &mut self,
        range: SlotRange,
        places: &mut Places,
        sorted: &mut [TimerEntry],
    ) {
        self.0.leave_for_places(range, places, sorted);
    }

    fn leave_whole_range(&mut self, range: SlotRange, entries: &mut Vec<TimerEntry>) {
        self.0.leave_whole_range(range, entries);
    }
}

impl TimerEntry {
    /// No timer: sorts after all others, in no slot.
    pub(super) const NONE: Self = Self::new(u64::MAX, u32::MAX, 0);

    #[inline]
    pub(in crate::timer) fn is_none(self) -> bool {
        self.slot() == Self::NONE.slot()
    }

    #[inline]
    pub(in crate::timer) const fn new(deadline_ns: u64, slot: u32, stamp: u32) -> Self {
        let mark = (slot as u64) << 32 | stamp as u64;
        Self { deadline_ns, mark }
    }

    /// The earlier of two, `self` if they are equal, [`TimerEntry::NONE`] last.
    #[inline]
    pub(in crate::timer) fn earlier(self, other: Self) -> Self {
        match other.deadline_ns < self.deadline_ns || self.is_none() {
            true => other,
            false => self,
        }
    }

    /// Slot and stamp in one word.
    #[inline]
    pub(super) const fn mark(self) -> u64 {
        self.mark
    }

    #[inline]
    pub(super) const fn from_mark(deadline_ns: u64, mark: u64) -> Self {
        Self { deadline_ns, mark }
    }

    #[inline]
    pub(super) const fn slot_of(mark: u64) -> u32 {
        (mark >> 32) as u32
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        Self::slot_of(self.mark)
    }

    #[inline]
    pub(super) fn stamp(self) -> u32 {
        self.mark as u32
    }
}

const _: () = assert!(size_of::<TimerEntry>() == 16);
