//! What only a named serializer has: a name, losses by kind, marks, a label.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::overload::{Marks, Water, WaterHook};
use crate::{stats::SerializerStats, sync::SpinLock};

/// Kept beside the serializer, so that one without a name stays small.
pub(super) struct Details {
    pub(super) name: Arc<str>,
    pub(super) rejected: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) conflated: AtomicU64,
    pub(super) panicked: AtomicU64,
    seldom: SpinLock<Seldom>,
}

struct Seldom {
    marks: Option<Marks>,
    /// The label of the task that runs, if it has one.
    label: Option<&'static str>,
}

impl Details {
    pub(super) fn new(name: Arc<str>, marks: Option<Marks>) -> Self {
        Self {
            name,
            rejected: AtomicU64::default(),
            dropped: AtomicU64::default(),
            conflated: AtomicU64::default(),
            panicked: AtomicU64::default(),
            seldom: SpinLock::new(Seldom { marks, label: None }),
        }
    }

    pub(super) fn set_label(&self, label: Option<&'static str>) {
        self.seldom.lock().label = label;
    }

    /// The mark that a queue of this length crosses, if any, and whom to tell.
    pub(super) fn cross(
        &self,
        queued_len: usize,
        oldest_waiting_ns: u64,
    ) -> Option<(WaterHook, Water)> {
        let mut seldom = self.seldom.lock();
        let running = seldom.label;
        let marks = seldom.marks.as_mut()?;
        let water = Water {
            mark: marks.cross(queued_len)?,
            serializer: Arc::clone(&self.name),
            queued_len,
            oldest_waiting_ns,
            running,
        };
        Some((Arc::clone(&marks.hook), water))
    }

    pub(super) fn report(&self, stats: &mut SerializerStats) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.name = self.name.to_string();
        stats.rejected = count(&self.rejected);
        stats.dropped = count(&self.dropped);
        stats.conflated = count(&self.conflated);
        stats.panicked = count(&self.panicked);
        let label = self.seldom.lock().label;
        stats.running = label.map(str::to_owned);
    }
}
