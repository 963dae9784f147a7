use super::{Class, Priority, RealTimePriority, RunQueue, SAME_WORKER_BONUS, WorkerId};
use std::time::Duration;

/// The scheduling state of one entity, from which its goodness is computed.
///
/// It is sixteen bytes, owned by the entity's owner and lent to the run queue
/// in each call, so that a sleeping entity costs the queue nothing. It stores
/// the epoch in which it was last updated; the next call makes up for the
/// epochs missed since ([`RunQueue::sync_epoch`](super::RunQueue::sync_epoch)).
///
/// # Examples
///
/// ```
/// use busyhour::run_queue::{Class, Priority, RealTimePriority, SchedState};
///
/// let mut sched_state = SchedState::new(Class::Normal(Priority::new(5)));
/// assert_eq!(sched_state.counter(), 5);
/// sched_state.set_class(Class::RealTime(RealTimePriority::new(50)));
/// assert_eq!(sched_state.class(), Class::RealTime(RealTimePriority::new(50)));
/// ```
#[doc(alias = "task_struct")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedState {
    /// The epoch of `home` to which the counter refers.
    epoch: u32,
    /// Run time not yet charged, below one tick.
    uncharged_ns: u32,
    /// The worker whose epochs it follows.
    home: WorkerId,
    /// The worker it last ran on, or was first queued on.
    ran_on: WorkerId,
    /// Ticks left in this epoch.
    counter: u8,
    priority: Priority,
    real_time: Option<RealTimePriority>,
}

const _: () = assert!(size_of::<SchedState>() <= 16);

impl SchedState {
    /// The scheduling state of an entity that has never run and has no parent:
    /// a full counter. See [`RunQueue::fork`](super::RunQueue::fork) for one
    /// that another entity creates.
    pub const fn new(class: Class) -> Self {
        let (priority, real_time) = split(class);
        Self {
            epoch: 0,
            uncharged_ns: 0,
            home: WorkerId::NOBODY,
            ran_on: WorkerId::NOBODY,
            counter: priority.get(),
            priority,
            real_time,
        }
    }

    /// The class it competes in.
    pub const fn class(&self) -> Class {
        match self.real_time {
            Some(priority) => Class::RealTime(priority),
            None => Class::Normal(self.priority),
        }
    }

    #[inline(always)]
    pub(super) const fn priority(&self) -> Priority {
        self.priority
    }

    #[inline(always)]
    pub(super) const fn real_time(&self) -> Option<RealTimePriority> {
        self.real_time
    }

    /// Moves the entity, which must not be queued, to another class.
    ///
    /// The counter does not change: a change of class neither pays debts nor
    /// earns time. [Sync](super::RunQueue::sync_epoch) a sleeping entity first,
    /// otherwise the epochs it missed count at the new priority.
    /// [Remove](super::RunQueue::remove) a queued entity first, and wake it
    /// again afterwards.
    pub const fn set_class(&mut self, class: Class) {
        (self.priority, self.real_time) = split(class);
    }

    /// Ticks left to run, as of the epoch in which it was last updated.
    pub const fn counter(&self) -> u8 {
        self.counter
    }

    /// The worker it last ran on, or was first queued on; `None` before that.
    pub fn ran_on(&self) -> Option<WorkerId> {
        (self.ran_on != WorkerId::NOBODY).then_some(self.ran_on)
    }

    /// The goodness of the entity on `worker`, as defined by Linux 2.2.
    ///
    /// 1000 + priority in the real-time class. Otherwise 0 if the counter is
    /// used up, else counter + priority, and 15 more on the worker it last ran
    /// on.
    pub fn goodness(&self, worker: WorkerId) -> u16 {
        match (self.real_time, self.counter) {
            (Some(priority), _) => 1000 + u16::from(priority.get()),
            (None, 0) => 0,
            (None, counter) => u16::from(counter) + self.base(worker),
        }
    }

    /// The goodness that an entity with a used-up counter has in the next epoch.
    pub(super) fn renewed_goodness(&self, worker: WorkerId) -> u16 {
        u16::from(self.priority.get()) + self.base(worker)
    }

    /// Whether no queue has met it.
    #[inline(always)]
    pub(super) fn has_no_home(&self) -> bool {
        self.home == WorkerId::NOBODY
    }

    /// Whether it follows the epochs of `worker`.
    pub(super) fn is_home(&self, worker: WorkerId) -> bool {
        self.home == worker
    }

    /// Leaves no tick for this epoch.
    pub(super) fn use_up(&mut self) {
        self.counter = 0;
    }

    /// Shares the counter with a new entity of `class`, which counts as having
    /// run where its parent did.
    pub(super) fn fork(&mut self, class: Class) -> Self {
        let (priority, real_time) = split(class);
        let given = (self.counter / 2).min(priority.get());
        self.counter -= given;
        Self {
            epoch: self.epoch,
            uncharged_ns: 0,
            home: self.home,
            ran_on: self.home,
            counter: given,
            priority,
            real_time,
        }
    }

    /// Any scheduling state that a queue may meet.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn fixture(class: Class, counter: u8, ran_on: WorkerId) -> Self {
        Self {
            counter,
            ran_on,
            ..Self::new(class)
        }
    }

    fn base(&self, worker: WorkerId) -> u16 {
        let is_same = u16::from(self.ran_on == worker);
        u16::from(self.priority.get()) + is_same * u16::from(SAME_WORKER_BONUS)
    }

    /// Catches up with `worker`'s epochs. An entity from another worker keeps
    /// its counter and makes this worker its home. One that has never run
    /// counts as having run here, like a forked child, which counts as having
    /// run where its parent did; otherwise an entity that ran once would stay
    /// ahead of all new ones.
    #[inline(always)]
    pub(super) fn arrive(&mut self, worker: WorkerId, epoch: u32) {
        if self.home == worker {
            self.catch_up(epoch);
        } else {
            if self.home == WorkerId::NOBODY {
                self.ran_on = worker;
            }
            self.home = worker;
            self.epoch = epoch;
        }
    }

    /// Charges like [`RunQueue::charge`](super::RunQueue::charge), without the
    /// queue: on `worker`, with the default tick, in its `epoch`.
    #[inline(always)]
    pub(crate) fn charge_default_ticks(&mut self, worker: WorkerId, epoch: u32, ran_ns: u64) {
        const TICK: Tick = Tick::new(RunQueue::<()>::DEFAULT_TICK);
        self.arrive(worker, epoch);
        self.charge(worker, ran_ns, TICK);
    }

    /// Sets the counter to the value it would have if each epoch since the last
    /// call had renewed it: counter/2 + priority, repeatedly.
    ///
    /// That converges within eight steps, whatever the number of epochs.
    #[inline(always)]
    pub(super) fn catch_up(&mut self, epoch: u32) {
        let missed = epoch.wrapping_sub(self.epoch);
        if missed != 0 {
            self.make_up_for(missed);
        }
    }

    #[cold]
    fn make_up_for(&mut self, missed: u32) {
        self.epoch = self.epoch.wrapping_add(missed);
        self.counter = renewed(self.counter, self.priority, missed);
    }

    /// Subtracts `ran_ns` from the counter in whole ticks, keeping the rest for
    /// later.
    ///
    /// A turn costs at least a thousandth of a tick. So even turns too short
    /// for the clock add up, and no entity stays ahead for ever.
    #[inline(always)]
    pub(super) fn charge(&mut self, worker: WorkerId, ran_ns: u64, tick: Tick) {
        self.ran_on = worker;
        let turn_ns = ran_ns.max(tick.turn_ns_min);
        if turn_ns >= tick.ns {
            return self.charge_ticks(turn_ns, tick.ns);
        }
        // Both are below five seconds.
        let owed_ns = turn_ns + u64::from(self.uncharged_ns);
        if owed_ns >= tick.ns {
            return self.charge_a_tick(owed_ns, tick.ns);
        }
        self.uncharged_ns = owed_ns as u32;
    }

    /// Most turns take much less than a tick. What follows is cold so that they need no jump.
    #[cold]
    fn charge_a_tick(&mut self, owed_ns: u64, tick_ns: u64) {
        self.uncharged_ns = self.take_ticks(owed_ns, tick_ns) as u32;
    }

    /// Charges a turn of a tick or more.
    #[cold]
    fn charge_ticks(&mut self, turn_ns: u64, tick_ns: u64) {
        let owed_ns = turn_ns.saturating_add(u64::from(self.uncharged_ns));
        self.uncharged_ns = self.take_ticks(owed_ns, tick_ns) as u32;
    }

    /// Subtracts whole ticks; returns the rest.
    #[inline]
    fn take_ticks(&mut self, owed_ns: u64, tick_ns: u64) -> u64 {
        // Most turns take one at most, so a division is rarely needed.
        let rest_ns = owed_ns - tick_ns;
        if rest_ns < tick_ns {
            self.counter = self.counter.saturating_sub(1);
            return rest_ns;
        }
        self.take_many_ticks(owed_ns, tick_ns)
    }

    #[inline(never)]
    fn take_many_ticks(&mut self, owed_ns: u64, tick_ns: u64) -> u64 {
        let ticks = owed_ns / tick_ns;
        self.counter = u64::from(self.counter).saturating_sub(ticks) as u8;
        owed_ns % tick_ns
    }
}

/// The unit in which run time is charged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    ns: u64,
    /// The minimum cost of a turn.
    turn_ns_min: u64,
}

impl Tick {
    /// At least a nanosecond, at most about four seconds.
    pub(super) const fn new(tick: Duration) -> Self {
        let ns = nanos(tick);
        let ns = if ns < NS_MAX { ns } else { NS_MAX };
        let ns = if ns > 0 { ns } else { 1 };
        Self {
            ns,
            turn_ns_min: ns / TURNS_PER_TICK_MAX + 1,
        }
    }
}

/// Without the wide arithmetic of `Duration::as_nanos`.
#[inline(always)]
pub(super) const fn nanos(duration: Duration) -> u64 {
    match duration.as_secs() {
        0 => duration.subsec_nanos() as u64,
        _ => many_nanos(duration),
    }
}

#[cold]
const fn many_nanos(duration: Duration) -> u64 {
    const NANOS_PER_SEC: u64 = 1_000_000_000;
    let whole = duration.as_secs().saturating_mul(NANOS_PER_SEC);
    whole.saturating_add(duration.subsec_nanos() as u64)
}

impl Default for SchedState {
    fn default() -> Self {
        Self::new(Class::Normal(Priority::DEFAULT))
    }
}

const TURNS_PER_TICK_MAX: u64 = 1000;
/// What is left below a tick fits into four bytes.
const NS_MAX: u64 = u32::MAX as u64;

/// A real-time entity has a counter too, in case it becomes a normal one again.
const fn split(class: Class) -> (Priority, Option<RealTimePriority>) {
    match class {
        Class::Normal(priority) => (priority, None),
        Class::RealTime(priority) => (Priority::DEFAULT, Some(priority)),
    }
}

fn renewed(mut counter: u8, priority: Priority, epochs: u32) -> u8 {
    for _ in 0..epochs {
        let next = counter / 2 + priority.get();
        if next == counter {
            break;
        }
        counter = next;
    }
    counter
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const TICK: Tick = Tick::new(Duration::from_micros(1));

    #[test]
    fn renewal_converges_within_eight_steps_to_what_every_step_gives() {
        for priority in (1..=40).map(Priority::new) {
            for start in 0..=2 * Priority::MAX.get() {
                let by_steps = (0..1000).fold(start, |c, _| c / 2 + priority.get());
                assert_eq!(renewed(start, priority, 8), by_steps);
                assert_eq!(renewed(start, priority, u32::MAX), by_steps);
            }
        }
    }

    #[test]
    fn a_counter_never_exceeds_twice_the_highest_priority() {
        for start in 0..=2 * Priority::MAX.get() {
            assert!(renewed(start, Priority::MAX, 1) <= 2 * Priority::MAX.get());
        }
    }

    #[test]
    fn short_runs_add_up_to_ticks() {
        let here = WorkerId::new(0);
        let mut sched_state = SchedState::default();
        (0..25).for_each(|_| sched_state.charge(here, 100, TICK));
        assert_eq!(sched_state.counter(), 18);
        sched_state.charge(here, 500, TICK);
        assert_eq!(sched_state.counter(), 17);
        sched_state.charge(here, u64::MAX, TICK);
        assert_eq!(sched_state.counter(), 0);
    }

    #[test]
    fn turns_too_short_for_the_clock_add_up_too() {
        let mut sched_state = SchedState::default();
        let tick = Tick::new(RunQueue::<()>::DEFAULT_TICK);
        (0..1000).for_each(|_| sched_state.charge(WorkerId::new(0), 0, tick));
        assert_eq!(sched_state.counter(), 19);
    }

    #[test]
    fn goodness_is_that_of_linux_2_2() {
        let (here, there) = (WorkerId::new(0), WorkerId::new(1));
        let mut sched_state = SchedState::new(Class::Normal(Priority::new(7)));
        assert_eq!(sched_state.goodness(here), 14);
        sched_state.charge(here, 3000, TICK);
        assert_eq!(sched_state.goodness(here), 4 + 7 + 15);
        assert_eq!(sched_state.goodness(there), 4 + 7);
        sched_state.charge(here, 4000, TICK);
        assert_eq!(sched_state.goodness(here), 0);
        sched_state.set_class(Class::RealTime(RealTimePriority::new(9)));
        assert_eq!(sched_state.goodness(here), 1009);
    }
}
