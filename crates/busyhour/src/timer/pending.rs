use super::{
    handle::TimerHandle,
    service::{ListCursor, Service},
};
use crate::clock::Instant;
use std::{sync::Arc, time::Duration, vec};

/// One timer that is not over, as it was when it was listed; from
/// [`Timers::pending`](super::Timers::pending),
/// [`Timers::get`](super::Timers::get) and
/// [`Timers::cancel_where`](super::Timers::cancel_where).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingTimer {
    /// Identifies the timer.
    pub handle: TimerHandle,
    /// The label of its class; empty if it has none, "async" for the timers of
    /// futures.
    pub label: &'static str,
    /// The owner that it was given, for example the number of what it is for.
    pub owner: Option<u64>,
    /// When it is due; `None` once it has been passed to its executor.
    pub due: Option<Instant>,
    /// Where it is on its way.
    pub phase: PendingPhase,
    /// Whether and how it repeats; `None` while its callback runs.
    pub kind: Option<TimerKind>,
    /// The [name](crate::task::Executor::name) of its executor; empty if that
    /// has none, for the timers of futures, and while a one-shot timer is
    /// delivered or runs.
    pub executor: String,
}

/// Where a timer that is not over is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PendingPhase {
    /// It waits until it is due.
    Waiting,
    /// It has been passed to its executor and has not begun.
    Delivered,
    /// Its callback runs.
    Running,
}

/// Whether and how a timer repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerKind {
    /// It runs once.
    Once,
    /// At a fixed rate, with this period.
    Every(Duration),
    /// With this pause after each run.
    FixedDelay(Duration),
    /// After the delay that its callback returns.
    NextDelay,
    /// It wakes a future.
    Future,
}

/// The timers of a service that are not over, in no defined order; see
/// [`Timers::pending`](super::Timers::pending).
#[must_use = "an iterator does nothing until it is advanced"]
pub struct PendingTimers {
    service: Arc<Service>,
    cursor: ListCursor,
    page: vec::IntoIter<PendingTimer>,
}

impl PendingTimers {
    pub(super) fn new(service: &Arc<Service>) -> Self {
        Self {
            service: Arc::clone(service),
            cursor: ListCursor::default(),
            page: Vec::new().into_iter(),
        }
    }
}

impl Iterator for PendingTimers {
    type Item = PendingTimer;

    fn next(&mut self) -> Option<PendingTimer> {
        loop {
            if let Some(timer) = self.page.next() {
                return Some(timer);
            }
            self.page = self.service.next_page(&mut self.cursor)?.into_iter();
        }
    }
}
