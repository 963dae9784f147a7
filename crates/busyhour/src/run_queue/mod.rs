//! The run queue of each worker: Linux 2.2 goodness over runnable entities.
//!
//! An entity is what competes for a worker: a serializer with tasks, or all
//! plain tasks of a worker together. Real-time entities run first, by priority.
//! The others run by counter + priority; run time is charged to the counter, so
//! a heavy entity falls behind light ones. When every runnable entity has used
//! up its counter, a new epoch begins, with counter/2 + priority for every
//! entity: for the runnable ones at once, for the sleeping ones when they wake.
//! So an entity that slept is ahead when it returns.
//!
//! The queue is pure: it has no clock, thread or lock. The caller owns each
//! entity's [`SchedState`] and passes how long the entity ran. `README.md`
//! beside this file explains the policy and the structure.

mod class;
mod sched_state;
mod worker_id;
mod rank;
mod thresholds;
mod adaptive;
mod sorted;
mod bucketed;
mod ranks;

pub use class::{Class, Priority, RealTimePriority};
pub use sched_state::SchedState;
pub use thresholds::Thresholds;
pub use worker_id::WorkerId;

use adaptive::Adaptive;
use rank::Rank;
use sched_state::{Tick, nanos};
use std::time::Duration;

/// The bonus of an entity on the worker where it last ran, since its data is in
/// that processor's cache.
///
/// It is odd, so that two used-up entities renewed to the same goodness
/// (2 × priority, and the bonus) have the same priority and the same bonus.
const SAME_WORKER_BONUS: u8 = 15;

const _: () = assert!(SAME_WORKER_BONUS % 2 == 1);

/// The runnable entities of one worker, and the order to run them in.
///
/// `E` is a small handle of an entity: an index, a pointer, an `Arc`. The queue
/// holds one for each runnable entity; the caller must bound their number.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use busyhour::run_queue::{Class, QueueEnd, Priority, RunQueue, SchedState, WorkerId};
///
/// let mut queue = RunQueue::new(WorkerId::new(0));
/// let mut heavy = SchedState::new(Class::Normal(Priority::new(20)));
/// let mut light = SchedState::new(Class::Normal(Priority::new(20)));
/// queue.wake("heavy", &mut heavy, QueueEnd::Back);
/// queue.wake("light", &mut light, QueueEnd::Back);
///
/// assert_eq!(queue.pick(), Some("heavy"));
/// queue.put_back("heavy", &mut heavy, Duration::from_millis(2));
/// assert_eq!(queue.pick(), Some("light"));
/// queue.charge(&mut light, Duration::from_micros(5));
/// assert_eq!(queue.pick(), Some("heavy"));
/// ```
#[doc(alias("schedule", "goodness", "runqueue"))]
#[derive(Debug)]
#[repr(C)] // Its fields are in this order for the reason that `Sorted` has.
pub struct RunQueue<E> {
    tick: Tick,
    worker: WorkerId,
    epoch: u32,
    /// How many more entities without a parent may bring a full counter in
    /// this epoch.
    newcomers_left: u32,
    queued: Adaptive<E>,
}

impl<E> RunQueue<E> {
    /// How many entities that nobody [forked](RunQueue::fork) begin with a full
    /// counter in one epoch. Further ones begin used up: they run when the
    /// others are used up too, and have a full counter from then on.
    pub const NEWCOMERS_PER_EPOCH: u32 = 1024;

    /// The default unit in which run time is charged.
    pub const DEFAULT_TICK: Duration = Duration::from_micros(100);

    /// An empty queue for `worker`.
    pub fn new(worker: WorkerId) -> Self {
        Self::with_tick(worker, Self::DEFAULT_TICK)
    }

    /// An empty queue for `worker` that charges run time in units of `tick`
    /// (at least a nanosecond, at most about four seconds).
    pub fn with_tick(worker: WorkerId, tick: Duration) -> Self {
        Self::with_thresholds(worker, tick, Thresholds::DEFAULT)
    }

    /// Like [`with_tick`](Self::with_tick), with other lengths at which the
    /// structure changes.
    pub fn with_thresholds(worker: WorkerId, tick: Duration, thresholds: Thresholds) -> Self {
        Self {
            tick: Tick::new(tick),
            worker,
            epoch: 0,
            newcomers_left: Self::NEWCOMERS_PER_EPOCH,
            queued: Adaptive::new(thresholds),
        }
    }

    /// Makes an entity runnable: a new one, a sleeping one, or one from another
    /// worker.
    ///
    /// An entity that slept here first gets the epochs it missed. An entity
    /// from another worker keeps its counter; the caller must first
    /// [sync](RunQueue::sync_epoch) it there.
    ///
    /// The scheduling state must not change while the entity is queued.
    #[doc(alias("push", "insert", "enqueue_task"))]
    #[inline(always)]
    pub fn wake(&mut self, entity: E, sched_state: &mut SchedState, end: QueueEnd) {
        if sched_state.has_no_home() {
            self.admit_newcomer(sched_state);
        }
        sched_state.arrive(self.worker, self.epoch);
        let rank = Rank::of(sched_state, self.worker);
        self.queued.push(entity, rank, end);
    }

    /// The scheduling state of an entity that `parent`, which runs here or ran
    /// here last, creates.
    ///
    /// The two share what the parent has left in this epoch: the child gets
    /// half of the counter, rounded down, but no more than a full counter of
    /// its class, and the parent keeps the rest. So an entity gains no time by
    /// creating others, however many.
    ///
    /// ```
    /// use busyhour::run_queue::{Class, Priority, RunQueue, SchedState, WorkerId};
    ///
    /// let queue = RunQueue::<()>::new(WorkerId::new(0));
    /// let mut parent = SchedState::new(Class::Normal(Priority::new(25)));
    /// let child = queue.fork(&mut parent, Class::default());
    /// assert_eq!((parent.counter(), child.counter()), (13, 12));
    /// ```
    #[doc(alias = "do_fork")]
    pub fn fork(&self, parent: &mut SchedState, class: Class) -> SchedState {
        self.sync_epoch(parent);
        parent.fork(class)
    }

    /// Takes the entity with the greatest goodness out of the queue; among
    /// equals the first in the list. `None` if nothing is runnable.
    ///
    /// The caller runs it, then calls [`put_back`](RunQueue::put_back) if it
    /// has more to do, otherwise [`charge`](RunQueue::charge).
    #[doc(alias("pop", "pick_next_task"))]
    #[inline(always)]
    pub fn pick(&mut self) -> Option<E> {
        let (entity, rank) = self.queued.pop()?;
        if rank.is_used_up() {
            self.begin_epoch();
        }
        Some(entity)
    }

    /// Charges an entity for the time it `ran` and queues it again, behind its equals.
    #[doc(alias = "yield")]
    #[inline(always)]
    pub fn put_back(&mut self, entity: E, sched_state: &mut SchedState, ran: Duration) {
        self.charge(sched_state, ran);
        let rank = Rank::of_charged(sched_state);
        self.queued.push(entity, rank, QueueEnd::Back);
    }

    /// Charges an entity for the time it `ran`, queues it again behind its
    /// equals, and takes out the next one to run, which may be the same: a
    /// [`put_back`](RunQueue::put_back) and a [`pick`](RunQueue::pick) in one
    /// step, which costs less than both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::run_queue::{QueueEnd, RunQueue, SchedState, WorkerId};
    ///
    /// let mut queue = RunQueue::new(WorkerId::new(0));
    /// let mut sched_states = [SchedState::default(), SchedState::default()];
    /// queue.wake(1, &mut sched_states[1], QueueEnd::Back);
    /// let mut running = 0;
    /// for expected in [1, 0, 1] {
    ///     let ran = Duration::from_micros(3);
    ///     running = queue.switch(running, &mut sched_states[running], ran);
    ///     assert_eq!(running, expected);
    /// }
    /// ```
    #[inline(always)]
    pub fn switch(&mut self, entity: E, sched_state: &mut SchedState, ran: Duration) -> E {
        self.sync_epoch(sched_state);
        self.switch_after(entity, sched_state, nanos(ran))
    }

    /// Like [`switch`](RunQueue::switch), in nanoseconds, for an entity that was picked
    /// here or is in step with the epochs of this queue.
    #[inline(always)]
    pub(crate) fn switch_after(
        &mut self,
        entity: E,
        sched_state: &mut SchedState,
        ran_ns: u64,
    ) -> E {
        debug_assert!(sched_state.is_home(self.worker), "it was picked here");
        sched_state.catch_up(self.epoch);
        sched_state.charge(self.worker, ran_ns, self.tick);
        let rank = Rank::of_charged(sched_state);
        let (next, rank) = self.queued.exchange(entity, rank);
        if rank.is_used_up() {
            self.begin_epoch();
        }
        next
    }

    /// Charges an entity that has no more to do for the time it `ran`.
    ///
    /// The queue does not keep it; [`wake`](RunQueue::wake) later adds the
    /// epochs that it missed.
    #[inline(always)]
    pub fn charge(&self, sched_state: &mut SchedState, ran: Duration) {
        self.charge_ns(sched_state, nanos(ran));
    }

    /// Like [`charge`](RunQueue::charge), in nanoseconds.
    #[inline(always)]
    pub(crate) fn charge_ns(&self, sched_state: &mut SchedState, ran_ns: u64) {
        sched_state.arrive(self.worker, self.epoch);
        sched_state.charge(self.worker, ran_ns, self.tick);
    }

    /// Brings the counter of an entity up to date without charging it: before
    /// another worker takes it, or before reading it.
    #[inline]
    pub fn sync_epoch(&self, sched_state: &mut SchedState) {
        sched_state.arrive(self.worker, self.epoch);
    }

    /// Takes a queued entity out before its turn and
    /// [syncs](RunQueue::sync_epoch) it: to change its class, or to move it to
    /// another worker.
    ///
    /// Returns `None`, and changes nothing, if it is not queued here. The cost
    /// is a search among its equals.
    pub fn remove(&mut self, entity: &E, sched_state: &mut SchedState) -> Option<E>
    where
        E: PartialEq,
    {
        let mut synced = sched_state.clone();
        self.sync_epoch(&mut synced);
        let rank = Rank::of(&synced, self.worker);
        let removed = self.queued.remove(entity, rank)?;
        *sched_state = synced;
        Some(removed)
    }

    /// The number of runnable entities.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether nothing is runnable.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of epochs that have begun, modulo 2³².
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The structure in use now, for diagnostics.
    pub fn mode(&self) -> Mode {
        self.queued.mode()
    }

    /// The worker of this queue.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The best entity is used up, so all are, and counter/2 + priority is the
    /// priority; each scheduling state is updated when its turn comes. That
    /// keeps the order, so the entity just picked is still the next to run.
    #[cold]
    fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.newcomers_left = Self::NEWCOMERS_PER_EPOCH;
        self.queued.renew();
    }

    /// Bounds the counters that are brought from outside in one epoch, so that
    /// every epoch ends; see README.md, "Why every entity gets its turn".
    #[inline(never)]
    fn admit_newcomer(&mut self, sched_state: &mut SchedState) {
        match self.newcomers_left.checked_sub(1) {
            Some(left) => self.newcomers_left = left,
            None => sched_state.use_up(),
        }
    }
}

/// The end of the list at which an entity is queued, which decides between
/// equals.
///
/// ```
/// use busyhour::run_queue::{Class, QueueEnd, RunQueue, SchedState, WorkerId};
///
/// let mut queue = RunQueue::new(WorkerId::new(0));
/// for (name, end) in [("first", QueueEnd::Back), ("second", QueueEnd::Back), ("urgent", QueueEnd::Front)] {
///     queue.wake(name, &mut SchedState::new(Class::default()), end);
/// }
/// assert_eq!(queue.pick(), Some("urgent"));
/// assert_eq!(queue.pick(), Some("first"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueEnd {
    /// Before all others, as Linux 2.2 queues a task that wakes: the data that
    /// woke it is still in the cache. Under overload the latest runs first, and
    /// the earliest waits.
    Front,
    /// Behind all others, as Linux 2.2 queues a task that yields: equals take
    /// turns.
    Back,
}

/// The structure that a queue uses. The order of the entities is the same in
/// both.
///
/// ```
/// use busyhour::run_queue::{Class, Mode, QueueEnd, RunQueue, SchedState, WorkerId};
///
/// let mut queue = RunQueue::new(WorkerId::new(0));
/// let mut mode_with = Vec::new();
/// for number in 1..=17 {
///     queue.wake(number, &mut SchedState::new(Class::default()), QueueEnd::Back);
///     mode_with.push(queue.mode());
/// }
/// assert_eq!((mode_with[15], mode_with[16]), (Mode::Sorted, Mode::Bucketed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A sorted ring, for up to 16 entities, or what [`Thresholds`] say.
    Sorted,
    /// A list for each goodness, from 17 entities until 8 are left.
    Bucketed,
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::iter;

    const HERE: WorkerId = WorkerId::new(0);
    const TICK: Duration = Duration::from_micros(100);

    fn normal(priority: u8) -> SchedState {
        SchedState::new(Class::Normal(Priority::new(priority)))
    }

    #[test]
    fn an_empty_queue_picks_nothing_and_stays_in_its_epoch() {
        let mut queue = RunQueue::<u32>::new(HERE);
        assert_eq!((queue.pick(), queue.len(), queue.epoch()), (None, 0, 0));
    }

    #[test]
    fn the_position_decides_between_equal_entities() {
        let mut queue = RunQueue::new(HERE);
        queue.wake('b', &mut normal(20), QueueEnd::Back);
        queue.wake('c', &mut normal(20), QueueEnd::Back);
        queue.wake('a', &mut normal(20), QueueEnd::Front);
        let order: Vec<_> = iter::from_fn(|| queue.pick()).collect();
        assert_eq!(order, ['a', 'b', 'c']);
    }

    #[test]
    fn real_time_goes_first_even_when_it_used_up_its_ticks() {
        let mut queue = RunQueue::new(HERE);
        let mut urgent = SchedState::new(Class::RealTime(RealTimePriority::new(0)));
        queue.wake("normal", &mut normal(40), QueueEnd::Back);
        queue.wake("urgent", &mut urgent, QueueEnd::Back);
        for _ in 0..100 {
            assert_eq!(queue.pick(), Some("urgent"));
            queue.put_back("urgent", &mut urgent, 10 * TICK);
        }
        assert_eq!(queue.epoch(), 0);
    }

    #[test]
    fn an_entity_that_wakes_gets_the_epochs_that_it_missed() {
        let mut queue = RunQueue::new(HERE);
        let (mut busy, mut sleeper) = (normal(20), normal(20));
        queue.charge(&mut sleeper, Duration::ZERO);
        queue.wake(1, &mut sleeper, QueueEnd::Back);
        assert_eq!(queue.pick(), Some(1));
        queue.charge(&mut sleeper, 20 * TICK);
        assert_eq!(sleeper.counter(), 0);

        queue.wake(0, &mut busy, QueueEnd::Back);
        for epoch in 0..3 {
            assert_eq!((queue.pick(), queue.epoch()), (Some(0), epoch));
            queue.put_back(0, &mut busy, 20 * TICK);
        }
        queue.wake(1, &mut sleeper, QueueEnd::Back);
        assert_eq!(sleeper.counter(), 30, "20, then 20 / 2 + 20");
        assert_eq!(queue.pick(), Some(1));
    }

    #[test]
    fn removal_leaves_the_order_of_the_others_in_each_mode() {
        for count in [4, 40] {
            let mut queue = RunQueue::new(HERE);
            let mut sched_states = vec![normal(20); count];
            for (entity, sched_state) in sched_states.iter_mut().enumerate() {
                queue.wake(entity, sched_state, QueueEnd::Back);
            }
            assert_eq!(queue.remove(&count, &mut normal(20)), None, "a stranger");
            assert_eq!(queue.remove(&1, &mut sched_states[1]), Some(1));
            assert_eq!(queue.remove(&1, &mut sched_states[1]), None, "gone already");
            assert!(iter::from_fn(|| queue.pick()).eq((0..count).filter(|&entity| entity != 1)));
        }
    }

    #[test]
    fn an_entity_is_found_in_the_epoch_that_began_since_it_was_queued() {
        let mut queue = RunQueue::new(HERE);
        let mut sched_states = vec![normal(20); 40];
        for (entity, sched_state) in sched_states.iter_mut().enumerate() {
            queue.charge(sched_state, 20 * TICK);
            queue.wake(entity, sched_state, QueueEnd::Back);
        }
        assert_eq!((queue.pick(), queue.epoch()), (Some(0), 1));
        assert_eq!(queue.remove(&7, &mut sched_states[7]), Some(7));
        assert_eq!(sched_states[7].counter(), 20);
    }

    #[test]
    fn the_mode_changes_at_both_ends_of_the_hysteresis() {
        let mut queue = RunQueue::new(HERE);
        (0..16).for_each(|entity| queue.wake(entity, &mut normal(20), QueueEnd::Back));
        assert_eq!(queue.mode(), Mode::Sorted);
        queue.wake(16, &mut normal(20), QueueEnd::Back);
        assert_eq!(queue.mode(), Mode::Bucketed);
        (0..8).for_each(|entity| assert_eq!(queue.pick(), Some(entity)));
        assert_eq!((queue.mode(), queue.len()), (Mode::Bucketed, 9));
        assert_eq!((queue.pick(), queue.mode()), (Some(8), Mode::Sorted));
        assert!(iter::from_fn(|| queue.pick()).eq(9..17));
    }

    #[test]
    fn an_entity_from_another_worker_has_no_bonus_and_keeps_its_counter() {
        let (mut here, mut there) = (RunQueue::new(HERE), RunQueue::new(WorkerId::new(1)));
        let mut sched_state = normal(20);
        there.wake(7, &mut sched_state, QueueEnd::Back);
        there.pick();
        there.put_back(7, &mut sched_state, 5 * TICK);
        assert_eq!(there.pick(), Some(7));
        there.sync_epoch(&mut sched_state);

        here.wake(7, &mut sched_state, QueueEnd::Back);
        assert_eq!(sched_state.counter(), 15);
        assert_eq!(sched_state.goodness(HERE), 35);
        here.pick();
        here.put_back(7, &mut sched_state, Duration::ZERO);
        assert_eq!(sched_state.goodness(HERE), 50);
    }
}
