use super::entry::{Liveness, TimerEntry};

/// The next timers, sorted.
#[derive(Debug)]
pub(in crate::timer) struct Run {
    /// The earliest is last. The last one is live; dead ones may be in between.
    entries: Vec<TimerEntry>,
    /// Entries on their way into the run, in order of insertion.
    gathered: Vec<TimerEntry>,
    /// The keys by which they are sorted, see [`Run::sort_gathered`].
    keys: Vec<u64>,
}

impl Run {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            gathered: Vec::new(),
            keys: Vec::new(),
        }
    }

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
        let is_due = |earliest: &&TimerEntry| earliest.deadline_ns <= last_ns;
        self.entries.last().filter(is_due)?;
        self.entries.pop()
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

    /// Drops all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Removes all entries, the earliest first.
    pub(in crate::timer) fn drain(&mut self) -> impl Iterator<Item = TimerEntry> {
        self.entries.drain(..).rev()
    }

    /// Adds to the entries from which [`Run::fill`] will make the run.
    pub(super) fn gather(&mut self, entries: &[TimerEntry]) {
        self.gathered.extend_from_slice(entries);
    }

    pub(super) fn gathered_len(&self) -> usize {
        self.gathered.len()
    }

    /// The same for one entry.
    pub(super) fn gather_one(&mut self, entry: TimerEntry) {
        self.gathered.push(entry);
    }

    /// Makes the run, which must be empty, from the gathered entries.
    pub(super) fn fill(&mut self) {
        self.sort_gathered();
        let sorted = self.keys.iter().rev();
        let gathered = &self.gathered;
        let entries = sorted.map(|&key| gathered[key as usize % LEN_MAX]);
        self.entries.extend(entries);
        self.gathered.clear();
    }

    /// Fills `keys` with the gathered entries' indices in their low bits, in
    /// order of the deadlines, then of the indices.
    ///
    /// With the deadline's distance from the first in the high bits they are
    /// plain numbers to sort. That leaves 57 bits, over four years; a wider
    /// span is sorted by looking the deadlines up.
    fn sort_gathered(&mut self) {
        let deadlines = self.gathered.iter().map(|entry| entry.deadline_ns);
        let widen = |(first, last): (u64, u64), at: u64| (first.min(at), last.max(at));
        let (first_ns, last_ns) = deadlines.clone().fold((u64::MAX, 0), widen);
        self.keys.clear();
        if last_ns.saturating_sub(first_ns) < u64::MAX / LEN_MAX as u64 {
            let indexed = deadlines.zip(0u64..);
            let keys = indexed.map(|(at, index)| (at - first_ns) * LEN_MAX as u64 + index);
            self.keys.extend(keys);
            self.keys.sort_unstable();
        } else {
            self.keys.extend(0..self.gathered.len() as u64);
            let gathered = &self.gathered;
            let key = |&index: &u64| (gathered[index as usize].deadline_ns, index);
            self.keys.sort_unstable_by_key(key);
        }
    }
}

/// The longest run that is made of what was gathered.
pub(super) const LEN_MAX: usize = 128;
