use super::{
    entry::{Liveness, TimerEntry},
    gathered::Gathered,
    ranges::{RangedSlots, SlotRange},
};

/// The next timers, sorted.
#[derive(Debug)]
pub(in crate::timer) struct Run {
    /// The earliest is last. The last one is live; dead ones may be in between.
    entries: Vec<TimerEntry>,
    /// Those from which [`Run::fill`] will make the run.
    gathered: Gathered,
}

impl Run {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            gathered: Gathered::new(),
        }
    }

    #[inline]
    pub(in crate::timer) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The earliest.
    #[inline]
    pub(in crate::timer) fn last(&self) -> Option<TimerEntry> {
        self.entries.last().copied()
    }

    /// Removes the earliest, if it is due up to `last_ns`.
    #[inline]
    pub(in crate::timer) fn pop_until(&mut self, last_ns: u64) -> Option<TimerEntry> {
        let last = self.entries.len().checked_sub(1)?;
        let earliest = self.entries[last];
        if earliest.deadline_ns > last_ns {
            return None;
        }
        self.entries.truncate(last);
        Some(earliest)
    }

    /// The deadline of the latest; 0 if there is none.
    pub(super) fn latest_ns(&self) -> u64 {
        self.entries.first().map_or(0, |latest| latest.deadline_ns)
    }

    /// Removes dead entries from the end, so that the last one is live; returns
    /// how many.
    #[inline]
    pub(super) fn drop_dead(&mut self, live: &impl Liveness) -> usize {
        let before = self.entries.len();
        while (self.entries.last()).is_some_and(|entry| !live.is_live(*entry)) {
            self.entries.pop();
        }
        before - self.entries.len()
    }

    /// Inserts a new entry after those with an equal deadline.
    pub(in crate::timer) fn insert(&mut self, entry: TimerEntry) {
        let later = |other: &TimerEntry| other.deadline_ns > entry.deadline_ns;
        let index = self.entries.partition_point(later);
        self.entries.insert(index, entry);
    }

    /// Drops all entries, and their memory if it is much.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        if self.entries.capacity() > KEPT_MAX {
            self.entries = Vec::new();
        }
    }

    /// Removes all entries, the earliest first.
    pub(in crate::timer) fn drain(&mut self) -> impl Iterator<Item = TimerEntry> {
        self.entries.drain(..).rev()
    }

    /// The entries from which [`Run::fill`] will make the run, in order of insertion.
    pub(super) fn gathered(&mut self) -> &mut Vec<TimerEntry> {
        self.gathered.entries()
    }

    /// Makes the run, which must be empty, from ranges of `count` slots, each with a timer.
    pub(super) fn fill_from(
        &mut self,
        count: usize,
        ranges: &[SlotRange],
        slots: &mut impl RangedSlots,
    ) {
        let gathered = &mut self.gathered;
        gathered.sort_ranges_into(&mut self.entries, count, ranges, slots);
    }

    /// Makes the run, which must be empty, from the gathered entries.
    pub(super) fn fill(&mut self) {
        self.gathered.sort_into(&mut self.entries);
    }
}

/// The longest run that is made of a bucket; a larger one is split.
pub(super) const LEN_MAX: usize = 128;
/// A longer run than this does not keep its memory when it is over.
const KEPT_MAX: usize = 4 * LEN_MAX;
