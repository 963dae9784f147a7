//! Runs the next entity, on a thread that has a worker slot.

use super::{
    thread_context::ThreadContext,
    time_slice::{OnWorker, TimeSlice},
    turn_clock::{TASKS_UNREAD_MAX, TurnClock, next_allowance_log2},
    worker_thread::CurrentWorker,
};
use std::mem;

use crate::{
    clock::Instant,
    pool::{
        context::{self, within},
        entity::Token,
        queue::{Runnable, TaskCell},
        shared::Shared,
    },
};

/// Consecutive turns in one slot.
pub(in crate::pool) struct TurnRunner<'a> {
    shared: &'a Shared,
    on: OnWorker<'a>,
    fifo_allowance_log2: u8,
    /// The entity that ran last, if it has more to do.
    last: Option<Token>,
    /// Whether plain tasks ran last.
    fifo_ran: bool,
    /// What the one that ran last must be charged.
    ran_ns: u64,
    /// The last turn whose switch was timed.
    timed_turn: u64,
}

impl<'a> TurnRunner<'a> {
    pub(in crate::pool) fn begin(shared: &'a Shared, current: CurrentWorker<'a>) -> Self {
        Self {
            shared,
            on: OnWorker {
                current,
                turn_clock: TurnClock::new(&shared.clock, &current.worker.gauges),
            },
            fifo_allowance_log2: 0,
            last: None,
            fifo_ran: false,
            ran_ns: 0,
            timed_turn: current.worker.gauges.turns(),
        }
    }

    /// The last clock reading.
    #[inline(always)]
    pub(in crate::pool) fn now(&self) -> Instant {
        self.on.turn_clock.now()
    }

    /// Whether the clock was read just before the current turn.
    #[inline(always)]
    pub(super) fn is_fresh(&self) -> bool {
        self.on.turn_clock.is_fresh()
    }

    /// Turns begun in this slot.
    #[inline(always)]
    pub(in crate::pool) fn turns(&self) -> u64 {
        self.on.current.worker.gauges.turns()
    }

    /// Whether an entity that has more to do is in no queue, between two turns.
    #[inline]
    pub(super) fn holds_an_entity(&self) -> bool {
        self.last.is_some()
    }

    /// Discards time in which nothing ran.
    pub(super) fn restart(&mut self) {
        self.on.turn_clock.restart();
    }

    /// Counts a turn; called before [`run_next`](Self::run_next).
    #[inline(always)]
    pub(super) fn begin_turn(&mut self) {
        self.on.current.worker.gauges.begin_turn();
    }

    /// Runs the next entity; `false` when there is none.
    #[inline]
    pub(super) fn run_next(&mut self) -> bool {
        context::clear_yield_request();
        let next = match self.last.take() {
            Some(last) => Some(self.on.current.switch_from::<false>(last, self.ran_ns)),
            None if self.fifo_ran => self.switch_from_fifo(),
            None => self.on.current.next(),
        };
        self.run(next)
    }

    #[inline(never)]
    fn switch_from_fifo(&mut self) -> Option<Runnable> {
        let last = self.take_last();
        self.on.current.switch(last, self.ran_ns)
    }

    /// The one that ran last, to be put back.
    #[inline(always)]
    fn take_last(&mut self) -> Option<Runnable> {
        let fifo_ran = mem::take(&mut self.fifo_ran).then_some(Runnable::Fifo);
        self.last.take().map(Runnable::Entity).or(fifo_ran)
    }

    #[inline(always)]
    fn run(&mut self, next: Option<Runnable>) -> bool {
        #[cfg(feature = "tracing")]
        let began = self.on.turn_clock.now();
        let is_any = self.run_any(next);
        #[cfg(feature = "tracing")]
        self.tell_if_long(began);
        is_any
    }

    /// The clock is read after a long turn, at the latest after some short ones.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    fn tell_if_long(&self, began: Instant) {
        let nanos = self.on.turn_clock.now().nanos_since(began);
        if nanos > crate::trace::LONG_TURN_NS {
            crate::trace::took_long(&self.shared.name, self.on.current.worker.number, nanos);
        }
    }

    #[inline(always)]
    fn run_any(&mut self, next: Option<Runnable>) -> bool {
        match next {
            Some(Runnable::Fifo) => self.run_fifo(),
            Some(Runnable::Entity(token)) => self.run_entity(token),
            None => return false,
        }
        true
    }

    /// Like [`run_next`](Self::run_next), after a clock reading: publishes the
    /// mode of the run queue, and now and then measures how long the switch
    /// takes.
    #[inline(always)]
    pub(super) fn run_next_and_publish(&mut self) -> bool {
        context::clear_yield_request();
        let (last, ran_ns) = (self.take_last(), self.ran_ns);
        let switches = self.turns().wrapping_sub(self.timed_turn);
        let next = match switches >= SWITCHES_PER_TIMED {
            true => self.timed_switch(last, ran_ns, switches),
            false => self.on.current.switch(last, ran_ns),
        };
        self.on.current.publish_mode();
        self.run(next)
    }

    /// Counts what this switch takes for all `switches` since the last one that
    /// was timed. Two readings in a row tell what a reading itself takes.
    #[cold]
    fn timed_switch(
        &mut self,
        last: Option<Runnable>,
        ran_ns: u64,
        switches: u64,
    ) -> Option<Runnable> {
        let clock = &self.shared.clock;
        let (before, began) = (clock.now(), clock.now());
        let next = self.on.current.switch(last, ran_ns);
        let took_ns = clock.now().nanos_since(began);
        let choosing_ns = took_ns.saturating_sub(began.nanos_since(before));
        let all_ns = choosing_ns.min(CHOOSING_NS_MAX) * switches;
        (self.on.current.metrics()).add(|metrics| &metrics.choosing_ns, all_ns);
        self.timed_turn = self.turns();
        next
    }

    fn run_fifo(&mut self) {
        debug_assert!(!context::has_payer(), "an entity's turn has ended");
        let allowance = 1 << self.fifo_allowance_log2;
        let ran = within(self.shared, None, || self.run_plain_tasks(allowance));
        let is_exhausted = ran == allowance;
        self.ran_ns = self.on.turn_clock.end_turn(is_exhausted);
        if is_exhausted {
            self.fifo_allowance_log2 = next_allowance_log2(self.fifo_allowance_log2, self.ran_ns);
        }
        self.fifo_ran = true;
    }

    /// Runs tasks of the FIFO; returns how many, or `tasks_max` if they took too
    /// long.
    #[inline(always)]
    fn run_plain_tasks(&self, tasks_max: u32) -> u32 {
        let thread_context = ThreadContext::new(self.shared, Some(self.on.current));
        let mut ran = 0;
        let mut task_cell = TaskCell::empty();
        while ran < tasks_max && !context::is_yield_requested() && !self.shared.is_sealed() {
            if !self.on.current.pop(&mut task_cell) {
                break;
            }
            thread_context.run_task(&mut task_cell);
            ran += 1;
            let is_due = ran % TASKS_UNREAD_MAX == 0 && self.on.current.worker.others_wait();
            if is_due && self.on.turn_clock.is_turn_over() {
                return tasks_max;
            }
        }
        ran
    }

    #[inline(always)]
    fn run_entity(&mut self, token: Token) {
        let mut turn = TimeSlice::on_worker(&mut self.on);
        let Some(token) = token.run(&mut turn) else {
            return;
        };
        let is_exhausted = turn.is_exhausted();
        self.ran_ns = self.on.turn_clock.end_turn(is_exhausted);
        if is_exhausted {
            token.with_share(|share| {
                share.allowance_log2 = next_allowance_log2(share.allowance_log2, self.ran_ns);
            });
        }
        let before = self.last.replace(token);
        debug_assert!(before.is_none(), "it was put back before the next one ran");
        // Tells the compiler that there is nothing to drop.
        mem::forget(before);
    }

    /// Puts back what this worker holds. If the pool is sealed, the shutdown
    /// finds it in the queue, or has taken the queue already and drops it.
    pub(in crate::pool) fn end(&mut self) {
        let Some(token) = self.last.take() else {
            return;
        };
        let put_back = self
            .on
            .current
            .local(|local| local.put_back(token, self.ran_ns));
        if let Err(token) = put_back {
            token.abandon();
        }
    }
}

/// At most one of so many switches is measured: three clock readings cost as
/// much as one or two switches.
const SWITCHES_PER_TIMED: u64 = 1024;
/// A measurement that takes longer contains something else that the system ran.
const CHOOSING_NS_MAX: u64 = 10_000;
