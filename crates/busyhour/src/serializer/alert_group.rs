use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::task::Watermark;

/// Counts how many serializers of one subsystem are above their high watermark
/// now, so that what feeds the subsystem can slow down, and how often one has
/// risen above it. A clone is the same group.
///
/// ```
/// use busyhour::{pool::TaskPool, serializer::AlertGroup};
///
/// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
/// let signalling = AlertGroup::new();
/// let calls = pool.serializer("calls").watermarks(0, 2).alert_group(&signalling);
/// let calls = calls.build().unwrap();
/// (0..2).for_each(|_| calls.push(|| ()).unwrap());
/// assert_eq!((signalling.alert_count(), pool.alert_count()), (1, 1));
/// while pool.step() {}
/// assert_eq!((signalling.alert_count(), pool.alert_count()), (0, 0));
/// assert_eq!(signalling.raised_count(), 1);
/// ```
#[doc(alias("ast_taskprocessor_get_subsystem_alert", "subsystem"))]
#[derive(Debug, Clone, Default)]
pub struct AlertGroup(Arc<AlertCounts>);

#[derive(Debug, Default)]
struct AlertCounts {
    high: AtomicUsize,
    raised: AtomicU64,
}

impl AlertGroup {
    /// A group without serializers.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many serializers of the group have crossed their high watermark and
    /// have not fallen back to the low one. Reads one number.
    pub fn alert_count(&self) -> usize {
        self.0.high.load(Ordering::Relaxed)
    }

    /// How often a serializer of the group has crossed its high watermark since
    /// the group was made.
    pub fn raised_count(&self) -> u64 {
        self.0.raised.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, crossed: Watermark) {
        match crossed {
            Watermark::High => {
                self.0.raised.fetch_add(1, Ordering::Relaxed);
                self.0.high.fetch_add(1, Ordering::Relaxed);
            }
            Watermark::Low => _ = self.0.high.fetch_sub(1, Ordering::Relaxed),
        }
    }
}
