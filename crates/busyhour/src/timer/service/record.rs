use super::{closure_pool::PooledClosure, locked_shard::isolate};
use crate::{
    clock::Instant,
    pool::{Entity, current_entity},
    sync::thread_token,
    task::{Closure, Executor},
    timer::{
        labels::LabelIndex,
        rule::{NextRun, Rule},
        slack::coalesce,
    },
};
use std::{mem, sync::Arc, task::Waker, time::Duration};

/// One timer of the service. It is in its shard's queue from the add until it
/// is over; between its delivery and the end of its run it is held there (see
/// [`TimerQueue::hold_due`](crate::timer::TimerQueue::hold_due)).
///
/// Everything in it is guarded by the shard's lock.
pub(in crate::timer) struct TimerRecord {
    pub(in crate::timer) work: Work,
    pub(super) phase: TimerPhase,
    /// Counts deliveries, so that a task of an earlier one does nothing.
    pub(super) round: u32,
    pub(in crate::timer) label: LabelIndex,
    has_owner: bool,
    /// Any number if it has none.
    owner: u64,
}

/// With the stamps and the deadline in its slot, a timer takes 72 bytes.
const _: () = assert!(size_of::<TimerRecord>() <= 56 || size_of::<usize>() != 8);

/// The phase of a timer.
///
/// ```text
///              hold_due            begin
///    Waiting ───────────► Delivered ─────► Running ──► over
///       ▲   ◄─────────────    │               │
///       │     refused         ▼ cancel        │ periodic
///       │                    over             │
///       └─────────────────────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) enum TimerPhase {
    /// Waiting in the queue's order.
    Waiting,
    /// Passed to its executor, not begun.
    Delivered,
    /// On a worker.
    Running(RunPhase),
}

/// What is known of the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) enum RunPhase {
    /// A periodic timer runs again.
    GoesOn,
    /// This is the last run.
    Stops,
    /// The last run, for the end of which a thread waits.
    Awaited,
}

/// What a timer does when it is due.
pub(in crate::timer) enum Work {
    /// Runs a small callback; the executor is taken out while a delivery is on its way.
    Once {
        callback: Closure<CALLBACK_BYTES>,
        executor: Option<Arc<dyn Executor>>,
    },
    Other(OtherWork),
}

/// What a timer does that runs no small callback, or not once. It takes no more memory than
/// [`Work::Once`], whose code tells the two apart.
pub(in crate::timer) enum OtherWork {
    /// Like [`Work::Once`], for a callback that does not fit there.
    Pooled {
        callback: PooledClosure,
        executor: Option<Arc<dyn Executor>>,
        bound: DeliveryBound,
    },
    Repeat(Box<Repeat>),
    /// Wakes a future, on the driver's own thread: a waker only queues.
    Wake(Waker),
    /// Taken by the thread that runs it.
    Away(Runner),
}

/// Whether an executor's bound holds for a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::timer) enum DeliveryBound {
    Bounded,
    /// For what the library itself must not lose.
    Unbounded,
}

/// A periodic timer's callback and its rule.
pub(in crate::timer) struct Repeat {
    pub(in crate::timer) run: Box<dyn FnMut() -> Duration + Send>,
    pub(in crate::timer) executor: Arc<dyn Executor>,
    pub(in crate::timer) rule: Rule,
    /// The deadline of the current run, before slack.
    pub(in crate::timer) due: Instant,
    pub(in crate::timer) slack: Duration,
}

impl TimerRecord {
    #[inline]
    pub(in crate::timer) fn new(work: Work, label: LabelIndex, owner: Option<u64>) -> Self {
        Self {
            work,
            phase: TimerPhase::Waiting,
            round: 0,
            label,
            has_owner: owner.is_some(),
            owner: owner.unwrap_or_default(),
        }
    }

    #[inline]
    pub(in crate::timer) fn owner(&self) -> Option<u64> {
        self.has_owner.then_some(self.owner)
    }

    /// The executor to deliver to; `None` for a future's timer.
    pub(super) fn take_executor(&mut self) -> Option<Arc<dyn Executor>> {
        match &mut self.work {
            Work::Once { executor, .. } | Work::Other(OtherWork::Pooled { executor, .. }) => {
                executor.take()
            }
            Work::Other(OtherWork::Repeat(repeat)) => Some(Arc::clone(&repeat.executor)),
            Work::Other(OtherWork::Wake(_) | OtherWork::Away(_)) => None,
        }
    }

    pub(super) fn bound(&self) -> DeliveryBound {
        match &self.work {
            Work::Other(OtherWork::Pooled { bound, .. }) => *bound,
            _ => DeliveryBound::Bounded,
        }
    }

    /// Restores what [`TimerRecord::take_executor`] took, after a refusal;
    /// returns it if the record has its own.
    #[must_use = "an executor is dropped after the shard's lock is released"]
    pub(super) fn restore_executor(
        &mut self,
        restored: Arc<dyn Executor>,
    ) -> Option<Arc<dyn Executor>> {
        match &mut self.work {
            Work::Once { executor, .. } | Work::Other(OtherWork::Pooled { executor, .. }) => {
                executor.replace(restored)
            }
            _ => Some(restored),
        }
    }

    /// Ends a timer that will not run: wakes its future, or drops its callback.
    /// Returns how often user code panicked. No lock may be held.
    #[must_use = "panics are counted"]
    pub(super) fn discard(self) -> u64 {
        match self.work {
            Work::Other(OtherWork::Wake(waker)) => panics(|| waker.wake()),
            work => work.discard(),
        }
    }

    /// Whether the delivery `round` is on its way.
    pub(super) fn is_delivered(&self, round: u32) -> bool {
        self.phase == TimerPhase::Delivered && self.round == round
    }

    /// Whether it is running and may run again.
    pub(super) fn is_running_on(&self) -> bool {
        self.phase == TimerPhase::Running(RunPhase::GoesOn)
    }

    /// Whether a thread waits for the end of the run.
    pub(super) fn is_awaited(&self) -> bool {
        self.phase == TimerPhase::Running(RunPhase::Awaited)
    }

    /// Takes the work to run it as `runner`, if the delivery `round` is still
    /// valid; `Err` returns the runner.
    pub(in crate::timer) fn begin(&mut self, round: u32, runner: Runner) -> Result<Work, Runner> {
        if !self.is_delivered(round) {
            return Err(runner);
        }
        self.phase = TimerPhase::Running(RunPhase::GoesOn);
        let away = Work::Other(OtherWork::Away(runner));
        Ok(mem::replace(&mut self.work, away))
    }
}

impl Work {
    /// The executor to deliver to, while the record has it.
    pub(super) fn executor(&self) -> Option<&Arc<dyn Executor>> {
        match self {
            Self::Once { executor, .. } | Self::Other(OtherWork::Pooled { executor, .. }) => {
                executor.as_ref()
            }
            Self::Other(OtherWork::Repeat(repeat)) => Some(&repeat.executor),
            Self::Other(OtherWork::Wake(_) | OtherWork::Away(_)) => None,
        }
    }

    /// Drops the callback and its executor, each inside its own `catch_unwind`,
    /// so that two drops that panic do not abort the process. Returns how many
    /// panicked. No lock may be held.
    #[must_use = "panics are counted"]
    pub(super) fn discard(self) -> u64 {
        match self {
            Self::Once { callback, executor } => discard_once(callback, executor),
            Self::Other(other) => other.discard(),
        }
    }
}

/// Drops a callback and its executor; returns how often user code panicked. No lock may be held.
#[inline]
pub(super) fn discard_once(
    callback: Closure<CALLBACK_BYTES>,
    executor: Option<Arc<dyn Executor>>,
) -> u64 {
    let panicked = match callback.needs_drop() {
        true => panics(|| drop(callback)),
        // Then it owns nothing, and to forget it is to drop it.
        false => {
            mem::forget(callback);
            0
        }
    };
    panicked + panics(|| drop(executor))
}

impl OtherWork {
    /// Like [`Work::discard`].
    #[must_use = "panics are counted"]
    pub(super) fn discard(self) -> u64 {
        match self {
            Self::Pooled {
                callback, executor, ..
            } => panics(|| drop(callback)) + panics(|| drop(executor)),
            Self::Repeat(repeat) => {
                let Repeat { run, executor, .. } = *repeat;
                panics(|| drop(run)) + panics(|| drop(executor))
            }
            Self::Wake(waker) => panics(|| drop(waker)),
            Self::Away(runner) => panics(|| drop(runner)),
        }
    }
}

/// The thread that runs a callback.
#[derive(Clone)]
pub(in crate::timer) struct Runner {
    /// The [`thread_token`] of the thread.
    pub(super) thread: usize,
    /// The entity whose task runs it; `None` for a plain task, or a thread of
    /// the user's own.
    pub(super) entity: Option<Arc<dyn Entity>>,
}

impl Runner {
    /// For work that has no callback to run.
    pub(super) const NOBODY: Self = Self {
        thread: 0,
        entity: None,
    };

    pub(in crate::timer) fn current() -> Self {
        Self {
            thread: thread_token(),
            entity: current_entity(),
        }
    }
}

/// Runs user code; returns 1 if it panicked, otherwise 0.
#[inline]
pub(in crate::timer) fn panics(foreign: impl FnOnce()) -> u64 {
    u64::from(isolate(foreign).is_none())
}

impl Repeat {
    /// Moves on to the next run; `None` if there is none.
    pub(super) fn advance(&mut self, now: Instant, returned_delay: Duration) -> Option<NextRun> {
        let next = self.rule.next(self.due, now, returned_delay)?;
        self.due = next.due;
        Some(next)
    }

    /// When the current run must be delivered.
    pub(in crate::timer) fn deadline(&self) -> Instant {
        coalesce(self.due, self.slack)
    }
}

/// What a callback may capture to be in its record: a reference and a number, mostly.
pub(in crate::timer) const CALLBACK_BYTES: usize = 16;
/// How long a delivery waits after its serializer or pool was full.
pub(super) const REFUSED_RETRY: Duration = Duration::from_millis(1);
