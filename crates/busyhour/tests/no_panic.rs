//! What the library promises not to panic at: extreme options and times, and
//! calls after the end.

use busyhour::{
    bus::Event,
    clock::Instant,
    keyed::Keyed,
    pool::{JoinError, PushError, TaskPool},
    runtime::Runtime,
    serializer::Serializer,
    task::{Executor, Overflow, Task},
    timer::Timers,
};
use std::time::Duration;

#[derive(Clone)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

const POLICIES: [Overflow; 4] = [
    Overflow::Reject,
    Overflow::Block,
    Overflow::DropOldest,
    Overflow::Conflate,
];

#[test]
fn extreme_options_are_taken() {
    for (number, extreme) in [0, 1, usize::MAX].into_iter().enumerate() {
        for policy in POLICIES {
            use_options(extreme, policy, &format!("{number} {policy:?}"));
        }
    }
}

fn use_options(extreme: usize, policy: Overflow, name: &str) {
    let runtime = Runtime::simulated(1);
    let serializer = |capacity: usize| {
        let serializer = runtime.serializer(name).overflow(policy);
        serializer.capacity(capacity)
    };
    assert_eq!(serializer(extreme).build().is_err(), extreme == 0);
    let serializer = || serializer(extreme.max(1));
    let template = serializer().template().unwrap();
    let keyed = Keyed::<u32>::builder(&template, runtime.timers());
    let keyed = keyed.max_keys(extreme).idle_after(Duration::ZERO).build();
    let topic = runtime
        .topic::<Tick>(name)
        .cached()
        .key_limit(extreme)
        .build();
    let calls = serializer().build().unwrap();
    let subscription = topic.subscribe().capacity(extreme).overflow(policy);
    let _subscription = subscription.on(&calls).start(|_| ());
    for number in 0..4 {
        _ = calls.try_push(|| ());
        _ = calls.run(|| ());
        _ = keyed.try_push(&number, |()| ());
        _ = keyed.key(&number);
        _ = topic.publish(Tick(number));
    }
    calls.set_watermarks(extreme, 0);
    runtime
        .simulation()
        .unwrap()
        .run_for(Duration::from_millis(1));
    assert!(runtime.describe().to_string().contains(name));
}

#[test]
fn time_saturates() {
    let runtime = Runtime::simulated(1);
    let (timers, pool) = (runtime.timers(), runtime.pool());
    for delay in [Duration::ZERO, Duration::MAX] {
        let timer = timers.after(delay, pool, || ());
        timers.reschedule(&timer, Instant::FAR_FUTURE);
        _ = timers.every(delay, pool, || ());
        _ = timers.timer().slack(delay).after(delay).on(pool).run(|| ());
        let slept = pool.spawn(timers.timeout(delay, std::future::pending::<()>()));
        runtime
            .simulation()
            .unwrap()
            .run_for(Duration::from_nanos(10));
        assert_eq!(slept.is_finished(), delay.is_zero());
        _ = timers.cancel(&timer);
    }
    assert_eq!(Instant::FAR_FUTURE + Duration::MAX, Instant::FAR_FUTURE);
    assert_eq!(Instant::ZERO - Instant::FAR_FUTURE, Duration::ZERO);
}

#[test]
fn a_runtime_that_is_shut_down_refuses() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let calls = runtime.serializer("calls").build().unwrap();
    let template = runtime.serializer("key").template().unwrap();
    let keyed = Keyed::<u32>::builder(&template, runtime.timers()).build();
    let key = keyed.key(&1).unwrap();
    let topic = runtime.topic::<Tick>("ticks").cached().build();
    assert!(runtime.shutdown(Duration::from_secs(60)).is_clean());

    refuses(runtime.pool(), &calls);
    assert!(keyed.push(&1, |()| ()).is_err() && keyed.run(&2, |()| ()).is_err());
    assert_eq!(key.push(|()| ()), Err(PushError::ShutDown));
    assert!(!keyed.evict(&1) && keyed.evict_all() == 0);
    let heard = topic.subscribe().on(&calls).start(|_| ());
    _ = topic.publish(Tick(1));
    assert_eq!(heard.queued_len(), 0);
    assert!(runtime.timers().timer().on(&calls).run(|| ()).is_err());
    _ = runtime.serializer("late").build();
    assert!(runtime.shutdown(Duration::ZERO).is_clean(), "again");
    assert!(runtime.describe().to_string().contains("calls"));
}

fn refuses(pool: &TaskPool, calls: &Serializer) {
    assert_eq!(pool.push(|| ()), Err(PushError::ShutDown));
    assert_eq!(pool.run(|| ()).err(), Some(PushError::ShutDown));
    assert_eq!(pool.spawn(async {}).wait(), Err(JoinError::Dropped));
    assert!(pool.push_wait(|| ()).is_err());
    assert_eq!(calls.push(|| ()), Err(PushError::ShutDown));
    assert_eq!(calls.try_spawn(async {}).err(), Some(PushError::ShutDown));
    assert_eq!(calls.spawn(async {}).wait(), Err(JoinError::Dropped));
    assert_eq!(
        calls.push_wait(|| ()).is_err(),
        calls.execute(Task::new(|| ())).is_err()
    );
    assert!(calls.spawn_exclusive(async {}).is_err());
}

#[test]
fn handles_outlive_their_pool() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let timers = Timers::builder().build();
    let calls = pool.ephemeral();
    let (pending, waits) = (pool.spawn(std::future::pending::<()>()), calls.suspend());
    let timer = timers.after(Duration::MAX, &calls, || ());
    drop(pool);
    drop(calls);
    drop(timers);
    drop(waits);
    pending.abort();
    assert!(pending.is_finished());
    _ = timer;
}
