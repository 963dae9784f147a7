use super::{
    alarm::Alarm,
    delivery::Delivery,
    handle::{Cancel, TimerHandle},
    record::{Phase, Record, Work},
    report,
    running::{self, Waits},
    shard::{NotCancelled, Shard, State},
    slots::Handle,
    timers::AddError,
};
use crate::{
    clock::{Clock, Instant},
    stats::TimerStats,
    sync::{
        CachePadded, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Executor, Reason, Task},
};
use std::{
    mem,
    sync::{Arc, TryLockError},
    task::Waker,
    time::Duration,
};

/// What all handles of one timer service share.
pub(super) struct Service {
    /// Tells the handles of this service from those of another.
    pub(super) number: u32,
    pub(super) clock: Clock,
    pub(super) alarm: Alarm,
    shards: Box<[CachePadded<Shard>]>,
    shard_capacity: usize,
    refused: AtomicU64,
    /// Held by the one thread that delivers, so that deliveries keep their order.
    driving: Mutex<()>,
    waits: Waits,
}

/// A new timer.
pub(super) struct Add {
    pub(super) deadline: Instant,
    pub(super) work: Work,
    pub(super) label: &'static str,
    pub(super) owner: Option<u64>,
}

impl Service {
    pub(super) fn new(number: u32, clock: Clock, shard_count: usize, capacity: usize) -> Self {
        Self {
            number,
            clock,
            alarm: Alarm::new(),
            shards: (0..shard_count)
                .map(|_| CachePadded(Shard::new()))
                .collect(),
            shard_capacity: capacity.div_ceil(shard_count).min(SHARD_CAPACITY_MAX),
            refused: AtomicU64::new(0),
            driving: Mutex::new(()),
            waits: Waits::default(),
        }
    }

    /// Adds a timer to the calling thread's shard, or to the next one with room.
    #[inline]
    pub(super) fn add(&self, add: Add) -> Result<TimerHandle, AddError> {
        let own = running::lane() % self.shards.len();
        let mut add = Some(add);
        let mut error = AddError::Full;
        for index in (own..self.shards.len()).chain(0..own) {
            match self.add_to(index, &mut add) {
                Ok(handle) => return Ok(handle),
                Err(AddError::Full) => {}
                Err(closed) => error = closed,
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(error)
    }

    #[inline]
    fn add_to(&self, index: usize, add: &mut Option<Add>) -> Result<TimerHandle, AddError> {
        let timer = self.shards[index].change(&self.alarm, |state| {
            state.admit(self.shard_capacity)?;
            let Some(add) = add.take() else {
                return Err(AddError::Full);
            };
            let label = state.labels.index(add.label);
            Ok(state.add(add.deadline, add.work, label, add.owner))
        })?;
        Ok(TimerHandle {
            service: self.number,
            shard: index as u32,
            timer,
        })
    }

    pub(super) fn cancel(&self, handle: &TimerHandle) -> Cancel {
        let Some(shard) = self.shard_of(handle) else {
            return Cancel::AlreadyRan;
        };
        match shard.change(&self.alarm, |state| state.cancel(handle.timer)) {
            Ok(_record) => Cancel::Prevented,
            Err(NotCancelled::Over) => Cancel::AlreadyRan,
            Err(NotCancelled::Running) => Cancel::Running,
        }
    }

    pub(super) fn cancel_and_wait(&self, handle: &TimerHandle) -> Cancel {
        let outcome = self.cancel(handle);
        let Some(shard) = self.shard_of(handle) else {
            return outcome;
        };
        if outcome != Cancel::Running {
            return outcome;
        }
        let Some(_wait) = self.waits.enter(*handle) else {
            return Cancel::Running;
        };
        shard.await_end(handle.timer);
        Cancel::AlreadyRan
    }

    /// Cancels what `chosen` chooses in each shard; returns how many runs were
    /// prevented.
    pub(super) fn cancel_all(&self, chosen: impl Fn(&State) -> Vec<Handle>) -> usize {
        let cancel = |shard: &CachePadded<Shard>| {
            let records: Vec<Record> = shard.change(&self.alarm, |state| {
                let chosen = chosen(state).into_iter();
                chosen
                    .filter_map(|timer| state.cancel(timer).ok())
                    .collect()
            });
            let count = records.len();
            records.into_iter().for_each(Record::discard);
            count
        };
        self.shards.iter().map(cancel).sum()
    }

    /// Takes no timer from now on and drops those that have not begun.
    pub(super) fn close(&self) -> usize {
        for shard in &self.shards {
            shard.lock().closed = true;
        }
        self.cancel_all(State::all)
    }

    /// Moves a timer that has not begun; `false` for any other.
    pub(super) fn reschedule(&self, handle: &TimerHandle, deadline: Instant) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return false;
        };
        shard.change(&self.alarm, |state| {
            let record = state.queue.get(handle.timer);
            let moved = record.is_some_and(|record| record.phase == Phase::Waiting);
            if moved {
                state.wait_until(handle.timer, deadline);
            }
            moved
        })
    }

    pub(super) fn deadline(&self, handle: &TimerHandle) -> Option<Instant> {
        let state = self.shard_of(handle)?.lock();
        state.queue.deadline(handle.timer)
    }

    /// Exchanges the waker of a future's timer; `false` once it is over.
    pub(super) fn set_waker(&self, handle: &TimerHandle, waker: &Waker) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return false;
        };
        // Cloned before and dropped after the lock: both are the waker's own code.
        let mut waker = waker.clone();
        let mut state = shard.lock();
        match state
            .queue
            .get_mut(handle.timer)
            .map(|record| &mut record.work)
        {
            Some(Work::Wake(current)) => {
                mem::swap(current, &mut waker);
                drop(state);
                true
            }
            _ => false,
        }
    }

    /// The earliest deadline of all shards.
    pub(super) fn earliest(&self) -> Instant {
        let deadlines = self.shards.iter().map(|shard| shard.next_deadline());
        deadlines.min().unwrap_or(Instant::FAR_FUTURE)
    }

    pub(super) fn stats(&self) -> TimerStats {
        let refused = self.refused.load(Ordering::Relaxed);
        report::collect(self.shards.iter().map(|shard| shard.lock()), refused)
    }

    fn shard_of(&self, handle: &TimerHandle) -> Option<&Shard> {
        let shard = self.shards.get(handle.shard as usize)?;
        (handle.service == self.number).then_some(&shard.0)
    }
}

/// Delivery and its end.
impl Service {
    /// Delivers what is due at `now`, in order; returns how many.
    ///
    /// It delivers no more than were pending when it began, so that callbacks
    /// that add due timers cannot keep it for ever.
    pub(super) fn run_due(self: &Arc<Self>, now: Instant) -> usize {
        let _driving = match self.driving.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        self.alarm.awake();
        if self.earliest() > now {
            return 0;
        }
        let pending = |shard: &CachePadded<Shard>| shard.lock().queue.len();
        let mut allowed: usize = self.shards.iter().map(pending).sum();
        let mut delivered = 0;
        while allowed > 0 {
            let batch = self.due_batch(now, allowed.min(BATCH));
            if batch.is_empty() {
                break;
            }
            allowed -= batch.len();
            delivered += batch.len();
            batch.into_iter().for_each(Due::deliver);
        }
        delivered
    }

    /// The next due timers of the shard whose turn it is, up to where another
    /// shard's turn comes.
    fn due_batch(self: &Arc<Self>, now: Instant, count_max: usize) -> Vec<Due> {
        let deadline = |index: usize| self.shards[index].next_deadline();
        let indices = 0..self.shards.len();
        let Some(index) = indices.clone().min_by_key(|&index| deadline(index)) else {
            return Vec::new();
        };
        let others = indices.filter(|&other| other != index).map(deadline);
        let until = others.min().unwrap_or(now).min(now);
        let mut batch = Vec::with_capacity(count_max);
        self.shards[index].change(&self.alarm, |state| {
            let due = || self.take_due(state, index as u32, until, now);
            batch.extend(std::iter::from_fn(due).take(count_max));
        });
        batch
    }

    fn take_due(
        self: &Arc<Self>,
        state: &mut State,
        shard: u32,
        until: Instant,
        now: Instant,
    ) -> Option<Due> {
        let timer = state.deliver_due(until, now)?;
        let record = state.queue.get_mut(timer)?;
        let Some(executor) = record.take_executor() else {
            return state.end(timer).map(Due::Ended);
        };
        let handle = TimerHandle {
            service: self.number,
            shard,
            timer,
        };
        let delivery = Delivery::new(Arc::clone(self), handle, record.round);
        Some(Due::Callback(delivery, executor))
    }

    /// What to run for a delivery; `None` if the timer was cancelled or moved since.
    pub(super) fn begin(&self, handle: &TimerHandle, round: u32) -> Option<Work> {
        let mut state = self.shard_of(handle)?.lock();
        state.queue.get_mut(handle.timer)?.begin(round)
    }

    /// The run is over; `again` is the work of a periodic timer that goes on.
    pub(super) fn finish(&self, handle: &TimerHandle, again: Option<Again>, panicked: bool) {
        let Some(shard) = self.shard_of(handle) else {
            return;
        };
        let (awaited, _leftover) = shard.change(&self.alarm, |state| {
            state.counters.panicked += u64::from(panicked);
            finish_in(state, handle, again)
        });
        if awaited {
            shard.notify_ended();
        }
    }

    /// The executor did not take the delivery: later, or never.
    fn refused(&self, handle: &TimerHandle, reason: Reason, executor: Arc<dyn Executor>) {
        let Some(shard) = self.shard_of(handle) else {
            return;
        };
        let retry_at = self.clock.now() + REFUSED_RETRY;
        let _leftover = shard.change(&self.alarm, |state| {
            let record = state.queue.get_mut(handle.timer)?;
            if record.phase != Phase::Delivered {
                return None;
            }
            if reason == Reason::ShutDown {
                state.counters.lost += 1;
                return state.end(handle.timer);
            }
            record.restore_executor(executor);
            state.counters.deferred += 1;
            state.wait_until(handle.timer, retry_at);
            None
        });
    }

    /// The executor dropped the delivery without running it: a one-shot timer
    /// is lost, a periodic one loses this tick.
    pub(super) fn abandoned(&self, handle: &TimerHandle, round: u32) {
        let Some(shard) = self.shard_of(handle) else {
            return;
        };
        let now = self.clock.now();
        let _leftover = shard.change(&self.alarm, |state| {
            let work = state.queue.get_mut(handle.timer)?.begin(round)?;
            state.counters.lost += 1;
            let again = Again::after_loss(work, now);
            Some(finish_in(state, handle, again).1)
        });
    }
}

impl State {
    fn admit(&self, capacity: usize) -> Result<(), AddError> {
        match self.closed {
            true => Err(AddError::Closed),
            false if self.queue.len() >= capacity => Err(AddError::Full),
            false => Ok(()),
        }
    }
}

/// A periodic timer's way back into the queue.
pub(super) struct Again {
    pub(super) work: Work,
    pub(super) deadline: Instant,
    pub(super) missed: u64,
}

impl Again {
    /// A loss does not stop a periodic timer; one whose callback says when to
    /// come again is asked at once.
    fn after_loss(work: Work, now: Instant) -> Option<Self> {
        let Work::Repeat(mut repeat) = work else {
            return None;
        };
        let next = repeat.advance(now, REFUSED_RETRY)?;
        Some(Self {
            deadline: repeat.deadline(),
            missed: next.missed,
            work: Work::Repeat(repeat),
        })
    }
}

/// Something due, taken from its shard.
enum Due {
    Callback(Delivery, Arc<dyn Executor>),
    /// A future's timer: its waker is in the record.
    Ended(Record),
}

impl Due {
    fn deliver(self) {
        match self {
            Self::Callback(delivery, executor) => deliver(delivery, executor),
            Self::Ended(record) => record.discard(),
        }
    }
}

fn deliver(delivery: Delivery, executor: Arc<dyn Executor>) {
    let (service, handle) = (Arc::clone(delivery.service()), delivery.handle());
    let task = Task::new(move || delivery.run());
    if let Err(rejected) = executor.execute(task) {
        service.refused(&handle, rejected.reason, executor);
    }
}

/// Whether somebody waits for this end, and what to drop after unlocking.
type Finished = (bool, (Option<Record>, Option<Work>));

fn finish_in(state: &mut State, handle: &TimerHandle, again: Option<Again>) -> Finished {
    let closed = state.closed;
    let Some(record) = state.queue.get_mut(handle.timer) else {
        return (false, (None, again.map(|again| again.work)));
    };
    let Phase::Running { stop, awaited } = record.phase else {
        return (false, (None, again.map(|again| again.work)));
    };
    match again {
        Some(again) if !stop && !closed => {
            record.work = again.work;
            state.counters.missed += again.missed;
            state.wait_until(handle.timer, again.deadline);
            (awaited, (None, None))
        }
        again => {
            let record = state.end(handle.timer);
            (awaited, (record, again.map(|again| again.work)))
        }
    }
}

/// Timers taken out under one lock.
const BATCH: usize = 64;
/// How long a delivery waits that found its serializer or pool full.
const REFUSED_RETRY: Duration = Duration::from_millis(1);
const SHARD_CAPACITY_MAX: usize = 1 << 31;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{clock::UnixTime, sync::lock};
    use std::{collections::HashSet, thread};

    #[test]
    fn each_thread_adds_to_one_shard_and_no_other_lock_is_taken_for_it() {
        let clock = Clock::simulated(UnixTime::default());
        let service = Service::new(0, clock, 8, 800);
        let add = || {
            let add = Add {
                deadline: Instant::ZERO,
                work: Work::Wake(Waker::noop().clone()),
                label: "",
                owner: None,
            };
            service.add(add).unwrap().shard as usize
        };
        let lanes = Mutex::new(HashSet::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = running::lane();
                    assert!(lock(&lanes).insert(own), "threads share no lane");
                    // The others' locks are held: an add that needed one would
                    // never come back.
                    let others = service.shards.iter().enumerate();
                    let others = others.filter(|(index, _)| *index != own % 8);
                    let is_last = lock(&lanes).len() == 4;
                    let others = others.filter(|_| is_last);
                    let _held: Vec<_> = others.map(|(_, shard)| shard.lock()).collect();
                    assert!((0..20).all(|_| add() == own % 8));
                });
            }
        });
    }
}
