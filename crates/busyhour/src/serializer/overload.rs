use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{AlertGroup, SerializerId};
use crate::task::Watermark;

/// A queue has crossed a watermark; each crossing gives one alert, high and low
/// alternate.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool, task::Watermark};
/// use std::sync::mpsc;
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let (sender, alerts) = mpsc::channel();
/// let calls = pool.serializer("calls").on_alert(1, 3, move |alert| _ = sender.send(alert.clone()));
/// let calls = calls.build().unwrap();
/// for _ in 0..3 {
///     calls.push(|| ()).unwrap();
/// }
/// let alert = alerts.try_recv().unwrap();
/// assert_eq!((alert.mark, alert.queued_len), (Watermark::High, 3));
/// assert_eq!(alert.serializer.to_string(), "calls");
/// ```
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

impl QueueAlert {
    #[cfg(feature = "tracing")]
    pub(super) fn trace(&self, pool: &str) {
        let name = (&*self.serializer.name, self.serializer.number);
        let queue = (self.mark == Watermark::High, self.queued_len);
        crate::trace::serializer_crossed(pool, name, queue, self.running);
    }
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

impl SharedMarks {
    /// Counts a crossing in `total`, for the whole pool, and in the group.
    pub(super) fn count(&self, crossed: Watermark, total: &AtomicUsize) {
        match crossed {
            Watermark::High => total.fetch_add(1, Ordering::Relaxed),
            Watermark::Low => total.fetch_sub(1, Ordering::Relaxed),
        };
        if let Some(group) = &self.group {
            group.count(crossed);
        }
    }
}
