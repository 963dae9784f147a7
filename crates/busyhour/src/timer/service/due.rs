//! Delivery of what is due, and its end.

use super::{
    again::Again,
    delivery::TimerDelivery,
    locked_shard::isolate,
    record::{DeliveryBound, REFUSED_RETRY, Runner, TimerPhase, TimerRecord, Work, panics},
    shard::{TimerCounters, TimerShard, TimerShardState},
    timer_service::{BATCH, Service},
};
use crate::{
    clock::{Clock, Instant},
    pool::in_turn,
    sync::{CachePadded, try_lock},
    task::{Executor, Reason, Rejected, Task},
    timer::handle::TimerHandle,
};
use std::{sync::Arc, time::Duration};

impl Service {
    /// Delivers what is due at `now`, in order; returns how many.
    ///
    /// It delivers no more than were pending when it began, so that callbacks
    /// that add due timers cannot occupy it for ever, and begins no further
    /// batch once [`TURN`] has passed.
    pub(in crate::timer) fn run_due(self: &Arc<Self>, now: Instant) -> usize {
        let Some(_driving) = try_lock(&self.driving) else {
            return 0;
        };
        if self.earliest() > now {
            return 0;
        }
        let pending = |shard: &CachePadded<TimerShard>| shard.lock().queue.len();
        let allowed: usize = self.shards.iter().map(pending).sum();
        let mut batch = Vec::with_capacity(allowed.min(BATCH));
        let (mut delivered, mut turn) = (0, DueRun::default());
        while delivered < allowed {
            let Some((shard, until)) = self.next_shard(now) else {
                break;
            };
            if delivered > 0 && turn.is_over(&self.clock) {
                break;
            }
            // As many as were delivered so far: if those took half of the turn,
            // so will these, and then the turn is over.
            let count_max = delivered.clamp(1, BATCH).min(allowed - delivered);
            self.take_batch(shard, until, now, count_max, &mut batch);
            if batch.is_empty() {
                break;
            }
            delivered += batch.len();
            batch.drain(..).for_each(|due| due.deliver(self));
        }
        delivered
    }

    /// The shard with the earliest timer, and the deadline at which another
    /// shard comes next; `None` if nothing is due.
    fn next_shard(&self, now: Instant) -> Option<(usize, Instant)> {
        let (mut index, mut first, mut second) = (0, Instant::FAR_FUTURE, now);
        for (other, shard) in self.shards.iter().enumerate() {
            let deadline = shard.next_deadline();
            if deadline < first {
                (index, second, first) = (other, second.min(first), deadline);
            } else {
                second = second.min(deadline);
            }
        }
        (first <= now).then_some((index, second))
    }

    /// Takes the next due timers of a shard, up to the deadline at which
    /// another shard comes next.
    fn take_batch(
        self: &Arc<Self>,
        index: usize,
        until: Instant,
        now: Instant,
        count_max: usize,
        batch: &mut Vec<Due>,
    ) {
        self.shards[index].change(&self.driver_waker, |state| {
            while batch.len() < count_max {
                let Some(due) = self.take_due(state, index as u32, until, now) else {
                    return;
                };
                batch.push(due);
            }
        });
    }

    fn take_due(
        self: &Arc<Self>,
        state: &mut TimerShardState,
        shard: u32,
        until: Instant,
        now: Instant,
    ) -> Option<Due> {
        let timer = state.deliver_due(until, now)?;
        let record = state.queue.get_mut(timer)?;
        let bound = record.bound();
        let Some(executor) = record.take_executor() else {
            return state.end(timer).map(Due::Ended);
        };
        let handle = TimerHandle {
            service: self.number,
            shard,
            timer,
        };
        let delivery = TimerDelivery::new(Arc::clone(self), handle, record.round);
        Some(Due::Callback(delivery, executor, bound))
    }

    /// The work of a delivery; `None` if the timer was cancelled or moved
    /// since.
    pub(in crate::timer) fn begin(&self, handle: &TimerHandle, round: u32) -> Option<Work> {
        self.begin_as(handle, round, |_| ())
    }

    fn begin_as(
        &self,
        handle: &TimerHandle,
        round: u32,
        count: impl FnOnce(&mut TimerCounters),
    ) -> Option<Work> {
        let runner = Runner::current();
        let mut state = self.shard_of(handle)?.lock();
        let begun = state.queue.get_mut(handle.timer)?.begin(round, runner);
        if begun.is_ok() {
            count(&mut state.counters);
        }
        drop(state);
        begun.ok()
    }

    /// Ends a run: the timer waits for its next run, or the rest of its work is
    /// dropped; only after that is the end visible.
    pub(in crate::timer) fn finish(&self, handle: &TimerHandle, next: Result<Again, Work>) {
        let Some(shard) = self.shard_of(handle) else {
            return;
        };
        let go_on =
            |again| shard.change(&self.driver_waker, |state| state.go_on(handle.timer, again));
        match next.and_then(go_on) {
            Ok(away) => self.count_panics(away.discard()),
            Err(leftover) => {
                self.discard(shard, leftover);
                let record = shard.change(&self.driver_waker, |state| state.finish(handle.timer));
                if record.as_ref().is_some_and(TimerRecord::is_awaited) {
                    shard.notify_ended();
                }
                self.count_panics(record.map_or(0, TimerRecord::discard));
            }
        }
    }

    /// The executor did not take the delivery: later, or never.
    fn refused(&self, delivered: &Delivered, reason: Reason, executor: Arc<dyn Executor>) {
        let handle = &delivered.handle;
        let Some(shard) = self.shard_of(handle) else {
            return;
        };
        let spare = if reason == Reason::ShutDown {
            self.lose(delivered, |work, _| Err(work));
            Some(executor)
        } else {
            let retry_at = self.clock.now() + REFUSED_RETRY;
            shard.change(&self.driver_waker, |state| {
                state.put_off(handle.timer, delivered.round, executor, retry_at)
            })
        };
        self.count_panics(panics(|| drop(spare)));
    }

    /// The executor dropped the delivery without running it: a one-shot timer
    /// is lost, a periodic one loses this tick.
    pub(super) fn abandoned(&self, handle: &TimerHandle, round: u32) {
        let delivered = Delivered {
            handle: *handle,
            round,
        };
        self.lose(&delivered, Again::after_loss);
    }

    /// Ends a delivery that will not run as if it had run, so that a caller
    /// that cancels the timer and waits also waits until the callback was
    /// dropped.
    fn lose(&self, lost: &Delivered, next: impl FnOnce(Work, Instant) -> Result<Again, Work>) {
        let work = self.begin_as(&lost.handle, lost.round, |counters| counters.lost += 1);
        if let Some(work) = work {
            let _running = in_turn();
            self.finish(&lost.handle, next(work, self.clock.now()));
        }
    }
}

/// For how long this call has been delivering. The clock is read only if there
/// is more than one batch.
#[derive(Default)]
struct DueRun {
    ends_at: Option<Instant>,
}

impl DueRun {
    fn is_over(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        now >= *self.ends_at.get_or_insert(now + TURN)
    }
}

/// One delivery of a timer, after its task was passed on.
struct Delivered {
    handle: TimerHandle,
    round: u32,
}

/// A due timer, taken from its shard.
enum Due {
    Callback(TimerDelivery, Arc<dyn Executor>, DeliveryBound),
    /// A future's timer: its waker is in the record.
    Ended(TimerRecord),
}

impl Due {
    /// Calls the user's executor or waker; a panic ends that call only.
    fn deliver(self, service: &Service) {
        match self {
            Self::Callback(delivery, executor, bound) => {
                deliver(delivery, (executor, bound), service);
            }
            Self::Ended(record) => {
                debug_assert_eq!(record.phase, TimerPhase::Delivered);
                service.count_panics(record.discard());
            }
        }
    }
}

fn deliver(
    delivery: TimerDelivery,
    (executor, bound): (Arc<dyn Executor>, DeliveryBound),
    service: &Service,
) {
    let delivered = Delivered {
        handle: delivery.handle(),
        round: delivery.round(),
    };
    let task = Task::new(move || delivery.run());
    let executed = isolate(|| match bound {
        DeliveryBound::Bounded => executor.execute(task),
        DeliveryBound::Unbounded => executor.execute_unbounded(task),
    });
    match executed {
        Some(Ok(())) => service.count_panics(panics(|| drop(executor))),
        Some(Err(Rejected { task, reason })) => {
            service.refused(&delivered, reason, executor);
            service.count_panics(panics(|| drop(task)));
        }
        None => service.count_panics(1 + panics(|| drop(executor))),
    }
}

/// How long one call may deliver before it returns to its caller.
const TURN: Duration = Duration::from_millis(1);
