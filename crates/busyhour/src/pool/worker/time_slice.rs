//! One turn of an entity: how many tasks it may run, and what it is charged.

use std::sync::Arc;

use super::{
    thread_context::ThreadContext,
    turn_clock::{TASKS_UNREAD_MAX, TurnClock},
    worker_thread::CurrentWorker,
};
use crate::{
    clock::Instant,
    pool::{context, entity::Token, shared::Shared},
};

/// The worker on which turns are taken, and its stopwatch.
pub(super) struct OnWorker<'m> {
    pub(super) current: CurrentWorker<'m>,
    pub(super) turn_clock: TurnClock<'m>,
}

/// Passed to an entity that runs.
pub(crate) struct TimeSlice<'a, 'm> {
    /// The worker; `None` in a step of a simulation.
    on: Option<&'a mut OnWorker<'m>>,
    tasks_left: u32,
}

impl<'a, 'm> TimeSlice<'a, 'm> {
    /// A slice of one task, charged to no entity.
    pub(in crate::pool) fn single() -> Self {
        context::clear_yield_request();
        Self {
            on: None,
            tasks_left: 1,
        }
    }

    #[inline(always)]
    pub(super) fn on_worker(on: &'a mut OnWorker<'m>) -> Self {
        Self {
            on: Some(on),
            tasks_left: 1,
        }
    }

    /// This thread's context in the pool.
    #[inline(always)]
    pub(crate) fn thread_context<'p>(&self, shared: &'p Arc<Shared>) -> ThreadContext<'p>
    where
        'm: 'p,
    {
        ThreadContext::new(shared, self.on.as_ref().map(|on| on.current))
    }

    /// Counts a task that is taken out of a queue to run.
    #[inline(always)]
    pub(crate) fn count_started(&self, shared: &Shared) {
        match &self.on {
            Some(on) => on.current.metrics().add(|metrics| &metrics.started, 1),
            None => count_simulated(shared, |context| context.count_started()),
        }
    }

    /// Counts the end of a task that waits for its next turn, as one that is pushed.
    #[inline(always)]
    pub(crate) fn end_task_and_push(&self, shared: &Shared) {
        match &self.on {
            Some(on) => {
                on.current.metrics().end_task();
                on.current.metrics().add(|metrics| &metrics.pushed, 1);
            }
            None => count_simulated(shared, |context| {
                context.end_task();
                context.count_pushed();
            }),
        }
    }

    /// When the turn began, within a few microseconds.
    #[inline(always)]
    pub(crate) fn began(&self, shared: &Shared) -> Instant {
        match &self.on {
            Some(on) => on.turn_clock.now(),
            None => shared.clock.now(),
        }
    }

    /// Takes the first task of the turn, which is always allowed. After it as many
    /// may run as the entity's allowance has.
    #[inline(always)]
    pub(crate) fn take_first(&mut self, token: &Token) {
        self.tasks_left = match self.on {
            Some(_) => (1 << token.with_share(|share| share.allowance_log2)) - 1,
            None => 0,
        };
    }

    /// Whether one more task may run; if so, the caller must run it.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> bool {
        let may = self.tasks_left > 0 && !context::is_yield_requested() && !self.is_over();
        self.tasks_left -= u32::from(may);
        may
    }

    /// Whether the turn has taken too long, by the clock, which is read now and
    /// then.
    #[inline(always)]
    fn is_over(&mut self) -> bool {
        self.tasks_left % TASKS_UNREAD_MAX == 0 && self.is_over_by_the_clock()
    }

    /// A turn that took too long counts as used up, so that the next one is
    /// shorter.
    #[inline(never)]
    fn is_over_by_the_clock(&mut self) -> bool {
        let on = self.on.as_ref();
        let is_over = on
            .is_some_and(|on| on.current.worker.waiting_len() > 0 && on.turn_clock.is_turn_over());
        if is_over {
            self.tasks_left = 0;
        }
        is_over
    }

    /// Records since when the entity has waited for this turn.
    #[inline(always)]
    pub(crate) fn note_wait_since(&self, since: Instant) {
        if let Some(on) = &self.on {
            on.turn_clock.note_wait_since(since);
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.tasks_left == 0
    }

    /// Charges the turn to an entity that has no more tasks. After this the
    /// token may be given up.
    #[inline(always)]
    pub(crate) fn charge(&mut self, token: &Token) {
        context::forget_payer();
        if let Some(on) = &mut self.on {
            let ran_ns = on.turn_clock.end_turn(false);
            let worker = on.current.worker;
            token.with_share(|share| {
                // This does not need the queue, so it does not need the biased
                // lock.
                let sched_state = &mut share.sched_state;
                sched_state.charge_default_ticks(worker.id(), worker.gauges.epoch(), ran_ns);
            });
        }
    }
}

/// Cold, so that a worker needs no jump.
#[cold]
fn count_simulated(shared: &Shared, count: impl FnOnce(ThreadContext<'_>)) {
    count(shared.thread_context());
}
