//! The state that only a named serializer has, or one with watermarks: a name,
//! losses by kind, watermarks, a label.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicUsize},
};

use super::{
    SerializerId,
    overload::{QueueAlert, SharedMarks},
};
use crate::{
    stats::SerializerStats,
    sync::{
        SpinLock,
        runtime::atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Watermark,
};

/// Stored separately, so that a serializer without a name stays small.
pub(super) struct NamedState {
    /// Whether the pool's registry has it, under a name of its own; otherwise
    /// the name is that of its template.
    pub(super) is_listed: bool,
    pub(super) name: Arc<str>,
    /// Tells the serializers of templates apart; 0 if it is listed.
    number: u64,
    pub(super) rejected: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) conflated: AtomicU64,
    pub(super) panicked: AtomicU64,
    /// The watermarks, here as well because every push and every task looks at
    /// them: if there are none, no length reaches the high one.
    /// Written while the queue is locked.
    low: AtomicU64,
    high: AtomicU64,
    /// Whether the high one was crossed last. Written while the queue is locked.
    is_high: AtomicBool,
    pending: SpinLock<PendingAlerts>,
}

struct PendingAlerts {
    marks: Option<Arc<SharedMarks>>,
    /// Alerts for which the hooks have not been called yet, oldest first.
    alerts: VecDeque<QueueAlert>,
    /// A thread calls the hooks now, and continues until no alert is pending.
    is_telling: bool,
    /// The label of the running task, if it has one.
    label: Option<&'static str>,
}

impl PendingAlerts {
    /// Drops a high alert and the low one after it, if a hook is so slow that
    /// many alerts wait; returns how many were dropped since the last one that
    /// was delivered.
    fn make_room(&mut self) -> u64 {
        if self.alerts.len() < UNTOLD_MAX {
            return 0;
        }
        let forgotten = [self.alerts.pop_back(), self.alerts.pop_back()];
        let before = forgotten.iter().flatten().map(|alert| alert.missed_before);
        before.sum::<u64>() + forgotten.len() as u64
    }
}

impl NamedState {
    /// For a serializer that the pool's registry has under this name.
    pub(super) fn listed(name: Arc<str>, marks: Option<Arc<SharedMarks>>) -> Self {
        Self::new(name, marks, 0)
    }

    /// For a serializer of a template, with a number that no other one of the
    /// pool has and that is not 0.
    pub(super) fn of_template(name: Arc<str>, marks: Arc<SharedMarks>, number: u64) -> Self {
        Self::new(name, Some(marks), number)
    }

    fn new(name: Arc<str>, marks: Option<Arc<SharedMarks>>, number: u64) -> Self {
        let (low, high) = marks
            .as_ref()
            .map_or((0, u64::MAX), |marks| (marks.low as u64, marks.high as u64));
        Self {
            is_listed: number == 0,
            name,
            number,
            rejected: AtomicU64::default(),
            dropped: AtomicU64::default(),
            conflated: AtomicU64::default(),
            panicked: AtomicU64::default(),
            low: AtomicU64::new(low),
            high: AtomicU64::new(high),
            is_high: AtomicBool::new(false),
            pending: SpinLock::new(PendingAlerts {
                marks,
                alerts: VecDeque::new(),
                is_telling: false,
                label: None,
            }),
        }
    }

    pub(super) fn has_marks(&self) -> bool {
        self.high.load(Ordering::Relaxed) < u64::MAX
    }

    /// Moves the watermarks; `false` if it was made without, or if they are in
    /// the wrong order. Called while the queue is locked.
    pub(super) fn set_watermarks(&self, low: usize, high: usize) -> bool {
        let is_set = self.pending.lock().marks.is_some() && low < high;
        if is_set {
            self.low.store(low as u64, Ordering::Relaxed);
            self.high.store(high as u64, Ordering::Relaxed);
        }
        is_set
    }

    /// Whether a queue of this length crosses a watermark. Called while the
    /// queue is locked.
    #[inline]
    pub(super) fn crosses(&self, queued_len: usize) -> bool {
        match self.is_high.load(Ordering::Relaxed) {
            false => queued_len as u64 >= self.high.load(Ordering::Relaxed),
            true => queued_len as u64 <= self.low.load(Ordering::Relaxed),
        }
    }

    pub(super) fn set_label(&self, label: Option<&'static str>) {
        self.pending.lock().label = label;
    }

    /// Records the watermark that a queue of this length crosses, if any;
    /// returns whether the caller must call the hooks. Called while the queue
    /// is locked. `total` counts the serializers of the pool that are high.
    pub(super) fn cross(
        &self,
        queued_len: usize,
        oldest_waiting_ns: u64,
        total: &AtomicUsize,
    ) -> bool {
        let mut pending = self.pending.lock();
        let running = pending.label;
        let marks = pending.marks.as_ref();
        let Some(marks) = marks.filter(|_| self.crosses(queued_len)) else {
            return false;
        };
        let mark = match self.is_high.load(Ordering::Relaxed) {
            false => Watermark::High,
            true => Watermark::Low,
        };
        self.is_high
            .store(mark == Watermark::High, Ordering::Relaxed);
        marks.count(mark, total);
        let missed_before = pending.make_room();
        pending.alerts.push_back(QueueAlert {
            mark,
            serializer: SerializerId {
                name: Arc::clone(&self.name),
                number: self.number,
            },
            queued_len,
            oldest_waiting_ns,
            running,
            missed_before,
        });
        !std::mem::replace(&mut pending.is_telling, true)
    }

    /// The next alert, and the marks with its hooks. The caller repeats this until there is
    /// none, so that hooks never run concurrently or out of order.
    pub(super) fn next_to_tell(&self) -> Option<(Arc<SharedMarks>, QueueAlert)> {
        let mut pending = self.pending.lock();
        let alert = pending.alerts.pop_front();
        pending.is_telling = alert.is_some();
        let marks = Arc::clone(pending.marks.as_ref()?);
        Some((marks, alert?))
    }

    /// The marks with their hooks, whose drop is foreign code.
    pub(super) fn take_marks(&self) -> Option<Arc<SharedMarks>> {
        self.pending.lock().marks.take()
    }

    pub(super) fn report(&self, stats: &mut SerializerStats) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.name = self.name.to_string();
        stats.rejected = count(&self.rejected);
        stats.dropped = count(&self.dropped);
        stats.conflated = count(&self.conflated);
        stats.panicked = count(&self.panicked);
        stats.running = self.label().map(str::to_owned);
        if self.has_marks() {
            stats.low_watermark = Some(count(&self.low));
            stats.high_watermark = Some(count(&self.high));
            stats.is_high = self.is_high.load(Ordering::Relaxed);
        }
    }

    /// The label of the running task, if it has one.
    pub(super) fn label(&self) -> Option<&'static str> {
        self.pending.lock().label
    }
}

/// Even, so that high and low keep alternating when a pair is dropped.
const UNTOLD_MAX: usize = 16;
