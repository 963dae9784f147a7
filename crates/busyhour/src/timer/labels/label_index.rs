use super::{histogram::LatenessHistogram, timer_set::TimerSet};
use crate::stats::TimerLabelStats;

/// The timers of each label, in one shard.
#[derive(Debug, Default)]
pub(in crate::timer) struct Labels {
    labels: Vec<Label>,
    /// The place of the label that was looked for last.
    last: usize,
}

/// The number of a label in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) struct LabelIndex(u16);

/// The timers of one label. Those without a label share the empty one.
#[derive(Debug)]
pub(in crate::timer) struct Label {
    name: &'static str,
    pending_high_water: u64,
    added: u64,
    cancelled: u64,
    /// Timers that are over, not by a cancel.
    ended: u64,
    expired: u64,
    lateness: LatenessHistogram,
    /// Its timers; not kept for the empty label.
    pub(in crate::timer) members: TimerSet,
}

impl Labels {
    /// Finds or creates the entry for `name`; `None` if there are as many as
    /// allowed. A program has few labels, all of them literals, so most
    /// searches end at the first equal pointer.
    #[inline]
    pub(in crate::timer) fn index(&mut self, name: &'static str) -> Option<LabelIndex> {
        let last = self.labels.get(self.last);
        match last.is_some_and(|label| std::ptr::eq(label.name, name)) {
            true => Some(LabelIndex(self.last as u16)),
            false => self.search(name),
        }
    }

    #[inline(never)]
    fn search(&mut self, name: &'static str) -> Option<LabelIndex> {
        let same = |label: &Label| std::ptr::eq(label.name, name) || label.name == name;
        let found = self.labels.iter().position(same);
        let index = match found {
            Some(index) => index,
            None if self.has_room(name) => {
                self.labels.push(Label::new(name));
                self.labels.len() - 1
            }
            None => return None,
        };
        self.last = index;
        Some(LabelIndex(index as u16))
    }

    /// There is always room for timers without a label, and for those of
    /// futures, which only a closed service refuses.
    fn has_room(&self, name: &'static str) -> bool {
        self.labels.len() < LABELS_MAX || name.is_empty() || name == FUTURES
    }

    /// The entry for `name`, if a timer ever had it.
    pub(in crate::timer) fn find(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|label| label.name == name)
    }

    #[inline]
    pub(in crate::timer) fn name(&self, index: LabelIndex) -> &'static str {
        self.labels[usize::from(index.0)].name
    }

    #[inline]
    pub(in crate::timer) fn get_mut(&mut self, index: LabelIndex) -> &mut Label {
        &mut self.labels[usize::from(index.0)]
    }

    pub(in crate::timer) fn iter(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter()
    }
}

impl Label {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            pending_high_water: 0,
            added: 0,
            cancelled: 0,
            ended: 0,
            expired: 0,
            lateness: LatenessHistogram::new(),
            members: TimerSet::default(),
        }
    }

    #[inline]
    pub(in crate::timer) fn added(&mut self) {
        self.added += 1;
        self.pending_high_water = self.pending_high_water.max(self.pending_count());
    }

    #[inline]
    fn pending_count(&self) -> u64 {
        self.added - self.cancelled - self.ended
    }

    #[inline]
    pub(in crate::timer) fn cancelled(&mut self) {
        self.cancelled += 1;
    }

    #[inline]
    pub(in crate::timer) fn expired(&mut self, lateness_ns: u64) {
        self.expired += 1;
        self.lateness.record(lateness_ns);
    }

    /// The timer is over, not by a cancel.
    #[inline]
    pub(in crate::timer) fn ended(&mut self) {
        self.ended += 1;
    }

    #[inline]
    pub(in crate::timer) fn name(&self) -> &'static str {
        self.name
    }

    pub(in crate::timer) fn lateness(&self) -> &LatenessHistogram {
        &self.lateness
    }

    /// Adds this shard's share to a report over all shards.
    pub(in crate::timer) fn add_to(&self, report: &mut TimerLabelStats) {
        report.pending_count += self.pending_count();
        report.pending_high_water += self.pending_high_water;
        report.added += self.added;
        report.cancelled += self.cancelled;
        report.expired += self.expired;
    }
}

/// The label of the timers of futures.
pub(in crate::timer) const FUTURES: &str = "async";
/// A label costs 2 KiB, and an add looks for its own among all of them.
pub(super) const LABELS_MAX: usize = 1024;
const _: () = assert!(LABELS_MAX + 2 <= u16::MAX as usize);
