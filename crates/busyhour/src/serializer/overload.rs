use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{AlertGroup, SerializerId};

/// The watermark that a queue has crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermark {
    /// The length rose to the high watermark.
    High,
    /// The length fell back to the low watermark.
    Low,
}

/// A queue has crossed a watermark; each crossing gives one alert, high and low
/// alternate.
#[doc(alias("ast_taskprocessor_alert_set_levels", "high water mark"))]
#[derive(Debug, Clone)]
pub struct QueueAlert {
    /// The watermark that was crossed.
    pub mark: Watermark,
    /// The serializer whose queue it is.
    pub serializer: SerializerId,
    /// The number of tasks that waited at that moment.
    pub queued_len: usize,
    /// Age of the oldest waiting task, in nanoseconds.
    pub oldest_waiting_ns: u64,
    /// The label of the task that was running, if it has one.
    pub running: Option<&'static str>,
    /// Crossings since the last delivered alert that were dropped because the
    /// hook had not returned; always pairs of high and low.
    pub missed_before: u64,
}

/// Receives alerts, one at a time, in the order of the crossings. Runs on the
/// pushing thread or on a worker, and must be short.
pub type QueueAlertHook = Arc<dyn Fn(&QueueAlert) + Send + Sync>;

/// The watermarks of one serializer or of one template.
pub(super) struct SharedMarks {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) hooks: Box<[QueueAlertHook]>,
    pub(super) group: Option<AlertGroup>,
}

/// The watermarks of one serializer, and which one was crossed last.
pub(super) struct Watermarks {
    pub(super) shared: Arc<SharedMarks>,
    pub(super) is_high: bool,
}

impl Watermarks {
    /// The watermark that a queue of this length crosses, if any. It is counted
    /// in `total`, for the whole pool, and in the group.
    pub(super) fn cross(&mut self, len: usize, total: &AtomicUsize) -> Option<Watermark> {
        if !self.is_high && len >= self.shared.high {
            self.is_high = true;
            self.count(total, |counter| _ = counter.fetch_add(1, Ordering::Relaxed));
            Some(Watermark::High)
        } else if self.is_high && len <= self.shared.low {
            self.is_high = false;
            self.count(total, |counter| _ = counter.fetch_sub(1, Ordering::Relaxed));
            Some(Watermark::Low)
        } else {
            None
        }
    }

    fn count(&self, total: &AtomicUsize, count: impl Fn(&AtomicUsize)) {
        count(total);
        if let Some(group) = &self.shared.group {
            count(group.counter());
        }
    }
}

impl fmt::Debug for Watermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watermarks")
            .field("low", &self.shared.low)
            .field("high", &self.shared.high)
            .finish_non_exhaustive()
    }
}
