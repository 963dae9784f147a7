//! A serializer as the executor of a timer or a subscription.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::TaskPool,
    serializer::ShutdownGroup,
    task::{Deliveries, Executor, HelpOutcome, Reason, Task},
};

const LONG: Duration = Duration::from_secs(60);

fn simulated() -> (TaskPool, Clock) {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    (TaskPool::simulated(1, clock.clone()), clock)
}

/// Deliveries that wait, until they are ended.
struct Waiting {
    name: &'static str,
    count: AtomicU64,
}

impl Waiting {
    fn new(name: &'static str, count: u64) -> Arc<Self> {
        let count = AtomicU64::new(count);
        Arc::new(Self { name, count })
    }

    fn weak(self: &Arc<Self>) -> Weak<dyn Deliveries> {
        let shared: Arc<dyn Deliveries> = Arc::clone(self) as _;
        Arc::downgrade(&shared)
    }
}

impl Deliveries for Waiting {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn end(&self) -> u64 {
        self.count.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn a_kept_executor_keeps_the_serializer_itself() {
    let (pool, _) = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let shared = calls.to_shared().expect("a handle is one reference");
    let again = shared.to_shared().expect("so is the kept executor");
    assert!(Arc::ptr_eq(&shared, &again));
    drop(calls);
    assert!(
        pool.serializer("calls").build().is_err(),
        "the serializer still lives"
    );
    assert!(again.execute(Task::new(|| ())).is_ok());
    drop((shared, again));
    while pool.step() {}
    assert_eq!(pool.stats().processed, 1);
    assert!(pool.serializer("calls").build().is_ok());
}

#[test]
fn a_shutdown_ends_and_names_the_deliveries_that_are_registered() {
    let (pool, _) = simulated();
    let calls = pool.serializer("calls").build().unwrap();
    let kept = calls.to_shared().unwrap();
    let (first, second) = (Waiting::new("first", 3), Waiting::new("second", 4));
    let (none, gone) = (Waiting::new("none", 0), Waiting::new("gone", 5));
    for waiting in [&first, &none, &gone] {
        assert!(calls.register(waiting.weak()));
    }
    assert!(kept.register(second.weak()));
    calls.unregister(Arc::as_ptr(&gone).cast());

    let report = pool.shutdown(LONG);
    let undelivered = report.undelivered.iter();
    let named: Vec<_> = undelivered
        .map(|one| (one.subscription.as_str(), one.count))
        .collect();
    assert_eq!(named, [("first", 3), ("second", 4)]);
    assert_eq!(report.not_delivered, 7);
    assert_eq!(gone.end(), 5, "its deliveries were not ended");
    let late = Waiting::new("late", 1);
    assert!(!calls.register(late.weak()) && !kept.register(late.weak()));
}

#[test]
fn a_member_of_a_group_that_was_shut_down_takes_neither_tasks_nor_turns_nor_deliveries() {
    let (pool, _) = simulated();
    let group = ShutdownGroup::new();
    let member = pool.serializer("member").group(&group).build().unwrap();
    let outsider = pool.serializer("outsider").build().unwrap();
    let (ended, kept) = (Waiting::new("ended", 2), Waiting::new("kept", 1));
    assert!(member.register(ended.weak()) && outsider.register(kept.weak()));
    let report = group.shutdown(LONG);
    assert_eq!(report.not_delivered, 2, "{report:?}");
    assert_eq!(kept.end(), 1, "the one outside of the group continues");

    assert!(!member.register(ended.weak()));
    for taken in [
        member.execute(Task::new(|| ())),
        member.execute_unbounded(Task::new(|| ())),
    ] {
        assert_eq!(taken.unwrap_err().reason, Reason::ShutDown);
    }
    assert!(outsider.execute_unbounded(Task::new(|| ())).is_ok());
    assert_eq!(member.stats().rejected, 2);
    assert_eq!(member.assist(), HelpOutcome::WouldDeadlock);
    assert_eq!(outsider.assist(), HelpOutcome::Helped);
    assert_eq!(outsider.stats().processed, 1);
}

#[test]
fn a_wait_for_a_serializer_sleeps_as_long_as_a_task_may_run() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let group = ShutdownGroup::new();
    let calls = pool.serializer("calls").group(&group).build().unwrap();
    assert_eq!(calls.assist(), HelpOutcome::Wait, "tasks may come");
    let suspension = calls.suspend();
    thread::scope(|scope| {
        calls.push(|| ()).unwrap();
        let shutdown = scope.spawn(|| group.shutdown(LONG));
        let refused = || calls.execute(Task::new(|| ())).err();
        while refused().is_none_or(|rejected| rejected.reason != Reason::ShutDown) {
            thread::yield_now();
        }
        assert_eq!(
            calls.assist(),
            HelpOutcome::Wait,
            "some tasks wait, and no more will come"
        );
        drop(suspension);
        assert!(shutdown.join().unwrap().is_clean());
    });
    assert_eq!(
        calls.assist(),
        HelpOutcome::WouldDeadlock,
        "no more tasks will come"
    );
}

#[test]
fn a_serializer_has_the_clock_of_its_pool() {
    let (pool, clock) = simulated();
    let calls = pool.ephemeral();
    let kept = calls.to_shared().unwrap();
    clock.as_virtual().unwrap().advance(LONG);
    assert_eq!(calls.now(), Some(clock.now()));
    assert_eq!(kept.now(), Some(clock.now()));
}
