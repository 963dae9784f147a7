use super::entry::TimerEntry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The earliest timer of a queue, if it is known.
///
/// It is not known after the earliest was cancelled while no timer was sorted,
/// until somebody asks. Who asks may have the queue shared with others, so the
/// answer is kept in atomics. Threads that ask at the same time keep the same
/// answer: nothing changes while the queue is shared.
#[derive(Debug)]
pub(super) struct FirstTimer {
    /// Not after any deadline while it is not known, so no timer is earlier.
    deadline_ns: AtomicU64,
    mark: AtomicU64,
    /// Whether it was looked for among unsorted timers.
    was_looked_for: AtomicBool,
}

impl FirstTimer {
    pub(super) const fn none() -> Self {
        Self {
            deadline_ns: AtomicU64::new(TimerEntry::NONE.deadline_ns),
            mark: AtomicU64::new(TimerEntry::NONE.mark()),
            was_looked_for: AtomicBool::new(false),
        }
    }

    /// The earliest entry, [`TimerEntry::NONE`] if there is none; `None` if it is
    /// not known.
    #[inline]
    pub(super) fn known(&self) -> Option<TimerEntry> {
        let mark = self.mark.load(Ordering::Acquire);
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        (mark != UNKNOWN.mark()).then(|| TimerEntry::from_mark(deadline_ns, mark))
    }

    /// What is known after `found` was looked for among unsorted timers.
    #[cold]
    pub(super) fn keep(&self, found: TimerEntry) -> TimerEntry {
        self.was_looked_for.store(true, Ordering::Relaxed);
        self.deadline_ns.store(found.deadline_ns, Ordering::Relaxed);
        self.mark.store(found.mark(), Ordering::Release);
        found
    }

    #[inline]
    pub(super) fn set(&mut self, entry: TimerEntry) {
        *self.deadline_ns.get_mut() = entry.deadline_ns;
        *self.mark.get_mut() = entry.mark();
    }

    /// Compares it with a timer that is added.
    #[inline]
    pub(super) fn compare(&mut self, added: TimerEntry) {
        let first_ns = *self.deadline_ns.get_mut();
        let is_only =
            added.deadline_ns == u64::MAX && *self.mark.get_mut() == TimerEntry::NONE.mark();
        if added.deadline_ns < first_ns || is_only {
            self.set(added);
        }
    }

    /// Whether it is known to be in this slot.
    #[inline]
    pub(super) fn is_in(&self, slot: u32) -> bool {
        TimerEntry::slot_of(self.mark.load(Ordering::Relaxed)) == slot
    }

    /// Whether it was looked for since the timers began to be unsorted.
    pub(super) fn was_looked_for(&mut self) -> bool {
        *self.was_looked_for.get_mut()
    }

    pub(super) fn forget(&mut self) {
        self.set(UNKNOWN);
    }

    /// The timers begin to be unsorted, with `first` as the earliest.
    pub(super) fn restart(&mut self, first: TimerEntry) {
        self.set(first);
        *self.was_looked_for.get_mut() = false;
    }
}

/// In no slot.
const UNKNOWN: TimerEntry = TimerEntry::new(0, u32::MAX - 1, 0);
