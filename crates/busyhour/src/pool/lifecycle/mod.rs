//! How a pool ends, and the state that it needs for that.

mod shutdown;
mod leftovers;
mod described;
mod ending;
mod in_flight_push;
mod registry;
mod sections;
mod shutdown_thread;
mod subscriptions;
pub(in crate::pool) mod labelled;

pub(crate) use described::{DescribedParts, Describes};
pub(crate) use in_flight_push::InFlightPush;
pub use leftovers::Leftover;
pub(crate) use registry::EntityRegistry;
pub use shutdown::ShutdownReport;
pub(crate) use shutdown::outlast_shutdown;
pub(crate) use subscriptions::Subscriptions;
pub use subscriptions::Undelivered;

use std::time::Instant;

use self::{in_flight_push::InFlightPushes, sections::Sections};
use super::{
    phase::{Phase, PhaseCell},
    worker::{CurrentWorker, WorkerSet},
};
use crate::sync::{
    EventCount,
    runtime::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

/// How far the end of a pool has come, which threads wait for an end, and what
/// a shutdown must wait for itself.
pub(crate) struct Lifecycle {
    phase: PhaseCell,
    /// The last handle was dropped; written once.
    has_no_handle: AtomicBool,
    /// Notified when something ends that a thread may wait for.
    ends: EventCount,
    /// The number of tasks that wait for the others inside a shutdown.
    closing: AtomicUsize,
    pushes: InFlightPushes,
    sections: Sections,
    /// How many tasks shutdowns have reported as not run.
    reported_not_run: AtomicU64,
}

impl Lifecycle {
    pub(super) fn open() -> Self {
        Self {
            phase: PhaseCell::open(),
            has_no_handle: AtomicBool::new(false),
            ends: EventCount::new(),
            closing: AtomicUsize::new(0),
            pushes: InFlightPushes::default(),
            sections: Sections::default(),
            reported_not_run: AtomicU64::new(0),
        }
    }

    /// Whether every thread may push.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.phase.is_open()
    }

    /// Whether no task may start any more.
    #[inline(always)]
    pub(super) fn is_sealed(&self) -> bool {
        self.phase.is_sealed()
    }

    /// Begins a push to an entity that a shutdown could not find; the caller
    /// must check after this whether the push is admitted.
    #[inline(always)]
    pub(super) fn begin_push<'a>(&'a self, current: Option<CurrentWorker<'a>>) -> InFlightPush<'a> {
        self.pushes.begin(current)
    }

    /// Counts an exclusive section, for which a shutdown waits.
    pub(crate) fn begin_section(&self) {
        self.sections.begin();
    }

    /// Called after what the section has left is in a queue again.
    pub(crate) fn end_section(&self) {
        self.sections.end();
        // One of the two sees the other: the shutdown writes the phase before it
        // counts the sections.
        fence(Ordering::SeqCst);
        if !self.is_open() {
            self.notify_end();
        }
    }

    /// Wakes threads that wait for an end.
    pub(crate) fn notify_end(&self) {
        self.ends.notify_all();
    }

    /// Blocks until `done` returns true, which is checked after each
    /// notification, or until `ends_at`.
    pub(crate) fn await_end(&self, ends_at: Option<Instant>, done: impl Fn() -> bool) {
        self.ends.wait_until_or(ends_at, done);
    }

    /// Moves to a later phase and wakes the threads that must know.
    fn enter(&self, phase: Phase, workers: &WorkerSet) {
        self.phase.enter(phase);
        workers.wake_all();
        self.notify_end();
    }

    /// The last worker to fall asleep, or to leave, notifies the threads that
    /// wait for quiet.
    pub(super) fn after_falling_asleep(&self, asleep: usize, workers: &WorkerSet) {
        let is_awake = asleep + self.closing_len() < workers.present_len();
        if self.is_open() || is_awake {
            return;
        }
        self.seal_if_ended(workers);
        self.notify_end();
    }

    /// Seals the pool if there is no handle and nothing waits or runs.
    fn seal_if_ended(&self, workers: &WorkerSet) {
        if self.phase.get() == Phase::Ending && workers.is_quiet(0) {
            self.enter(Phase::Sealed, workers);
        }
    }

    /// Counts `own` tasks, one or none, that begin to wait for all others.
    fn begin_closing(&self, own: usize) {
        self.closing.fetch_add(own, Ordering::SeqCst);
        self.notify_end();
    }

    fn end_closing(&self, own: usize) {
        self.closing.fetch_sub(own, Ordering::SeqCst);
        self.notify_end();
    }

    fn closing_len(&self) -> usize {
        self.closing.load(Ordering::SeqCst)
    }

    /// The part of `not_run` that no earlier shutdown has reported.
    fn report_not_run(&self, not_run: u64) -> u64 {
        let reported = self.reported_not_run.fetch_max(not_run, Ordering::SeqCst);
        not_run.saturating_sub(reported)
    }
}
