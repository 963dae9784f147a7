//! What a pool does in rare states: stuck workers, panics in drops, shutdown
//! under load.

use std::{
    env,
    future::poll_fn,
    panic::panic_any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{JoinError, Selector, TaskPool, WaitError, consume_budget, request_yield, yield_now},
    run_queue::{Class, Priority, RealTimePriority},
};

/// A limit that only a failing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// A task that pushes itself until it is told to stop.
fn go_round(pool: &TaskPool, stop: &Arc<AtomicBool>) {
    if !stop.load(SeqCst) {
        let (again, stop) = (pool.clone(), Arc::clone(stop));
        pool.push(move || go_round(&again, &stop)).unwrap();
    }
}

/// Makes a pool of two workers: one is stuck in a task that first pushes some
/// tasks of its own, the other is busy with short tasks. Returns what releases
/// the first, and what stops the second.
fn stuck_and_busy(own: impl FnOnce(&TaskPool) + Send + 'static) -> (TaskPool, Release) {
    let pool = TaskPool::builder()
        .workers(2)
        .selector(Selector::Sequential)
        .build()
        .unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    let inner = pool.clone();
    pool.push(move || {
        own(&inner);
        drop(inner);
        started.send(()).unwrap();
        let _sender_is_gone = released.recv();
    })
    .unwrap();
    has_started.recv().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    go_round(&pool, &stop);
    let release = Release {
        _stuck: release,
        stop,
    };
    (pool, release)
}

struct Release {
    _stuck: mpsc::Sender<()>,
    stop: Arc<AtomicBool>,
}

impl Drop for Release {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

#[test]
fn a_task_pushed_to_a_stuck_worker_runs_on_a_busy_one() {
    let (pool, _release) = stuck_and_busy(|_| ());
    let (sender, receiver) = mpsc::channel();
    // Pushes go to the workers in turn, so one of these goes to the stuck
    // worker.
    for number in 0..2 {
        let sender = sender.clone();
        pool.push(move || sender.send(number).unwrap()).unwrap();
    }
    let serializers: Vec<_> = (0..2).map(|_| pool.ephemeral()).collect();
    for (number, serializer) in serializers.iter().enumerate() {
        let sender = sender.clone();
        serializer
            .push(move || sender.send(2 + number).unwrap())
            .unwrap();
    }
    let mut ran: Vec<_> = (0..4)
        .map(|_| receiver.recv_timeout(LONG).unwrap())
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 3]);
}

#[test]
fn a_task_that_a_stuck_task_pushed_runs_on_a_busy_worker() {
    let (sender, receiver) = mpsc::channel();
    let (_pool, _release) = stuck_and_busy(move |pool| {
        for number in 0..3 {
            let sender = sender.clone();
            pool.push(move || sender.send(number).unwrap()).unwrap();
        }
    });
    let mut ran: Vec<_> = (0..3)
        .map(|_| receiver.recv_timeout(LONG).unwrap())
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2]);
}

#[test]
fn a_report_is_exact_whenever_the_deadline_comes() {
    let scale: u64 = env::var("BUSYHOUR_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap());
    (0..150 * scale).for_each(shut_down_under_load);
}

/// Runs chains of tasks through the pool, a named and two ephemeral
/// serializers; shuts down after a time that depends on the round.
fn shut_down_under_load(round: u64) {
    let pool = TaskPool::builder().workers(3).build().unwrap();
    let named = pool.serializer("named").build().unwrap();
    let ways: Arc<[_]> = [named, pool.ephemeral(), pool.ephemeral()].into();
    let (accepted, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let chain = Chain {
        pool: pool.clone(),
        ways: Arc::clone(&ways),
        accepted: Arc::clone(&accepted),
        begun: Arc::clone(&begun),
    };
    (0..40).for_each(|number| chain.push(number));
    let _asleep = (round % 3 == 0).then(|| ways[1].suspend());
    let report = pool.shutdown(Duration::from_micros(round * 7 % 400));
    while pool.stats().worker_count > 0 {
        thread::yield_now();
    }
    let (accepted, begun) = (accepted.load(SeqCst), begun.load(SeqCst));
    assert_eq!(
        report.not_run,
        accepted - begun,
        "round {round}: {report:?}"
    );
    let named: u64 = report.left.iter().map(|left| left.not_run).sum();
    assert!(named <= report.not_run, "round {round}: {report:?}");
    let again = pool.shutdown(Duration::ZERO);
    assert_eq!((again.not_run, again.left.len()), (0, 0), "told once");
    let stats = pool.stats();
    assert_eq!(stats.pushed, stats.processed + stats.dropped, "{stats:?}");
}

#[derive(Clone)]
struct Chain {
    pool: TaskPool,
    ways: Arc<[busyhour::serializer::Serializer]>,
    accepted: Arc<AtomicU64>,
    begun: Arc<AtomicU64>,
}

impl Chain {
    fn push(&self, number: usize) {
        let next = self.clone();
        let task = move || {
            next.begun.fetch_add(1, SeqCst);
            next.push(number + 1);
        };
        let pushed = match self.ways.get(number % 5) {
            Some(way) => way.push(task),
            None => self.pool.push(task),
        };
        if pushed.is_ok() {
            self.accepted.fetch_add(1, SeqCst);
        }
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any("on purpose, in a drop");
    }
}

#[test]
fn a_panic_whose_payload_panics_ends_its_task_only() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let calls = pool.serializer("calls").build().unwrap();
    pool.push(|| panic_any(Bomb)).unwrap();
    calls.push(|| panic_any(Bomb)).unwrap();
    assert_eq!(
        calls.push_wait(|| panic_any(Bomb)),
        Err::<(), _>(WaitError::Panicked)
    );
    assert_eq!(calls.push_wait(|| 3), Ok(3));
    assert_eq!(pool.push_wait(|| 4), Ok(4));
    assert_eq!(pool.stats().worker_count, 1);
    assert!(pool.shutdown(LONG).is_clean());
}

#[test]
fn tasks_that_panic_when_dropped_affect_no_others() {
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    let calls = pool.serializer("calls").build().unwrap();
    let witness = Arc::new(());
    for _ in 0..3 {
        let (bomb, held) = (Bomb, Arc::clone(&witness));
        calls
            .push(move || {
                std::mem::forget(bomb);
                drop(held);
            })
            .unwrap();
    }
    let report = pool.shutdown(Duration::ZERO);
    assert_eq!(report.not_run, 3);
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn a_simulation_continues_after_a_task_that_yields() {
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    let calls = pool.serializer("calls").build().unwrap();
    calls.push(request_yield).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ran);
    calls.push(move || seen.store(true, SeqCst)).unwrap();
    let _steps = (0..4).take_while(|_| pool.step()).count();
    assert!(ran.load(SeqCst));
}

#[test]
fn a_wait_for_a_suspended_serializer_ends_with_its_pool() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let device = pool.ephemeral();
    let _suspension = device.suspend();
    let waiting = device.clone();
    let waiter = thread::spawn(move || waiting.push_wait(|| ()));
    while device.is_empty() {
        thread::yield_now();
    }
    let future = device.spawn(async {});
    assert_eq!(pool.shutdown(Duration::ZERO).not_run, 2);
    assert_eq!(waiter.join().unwrap(), Err(WaitError::Dropped));
    assert_eq!(future.wait(), Err(JoinError::Dropped));
    assert!(device.push(|| ()).is_err());
}

#[test]
fn aborting_a_queued_future_drops_it_at_once() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let device = pool.ephemeral();
    let suspension = device.suspend();
    let witness = Arc::new(());
    let held = Arc::clone(&witness);
    let future = device.spawn(async move { drop(held) });
    future.abort();
    assert_eq!(Arc::strong_count(&witness), 1);
    drop(suspension);
    assert_eq!(future.wait(), Err(JoinError::Aborted));
}

#[test]
fn futures_of_a_class_run_wake_abort_and_panic() {
    let pool = TaskPool::builder().workers(2).build().unwrap();
    let class = Class::RealTime(RealTimePriority::new(3));
    let (open, gate) = mpsc::channel::<()>();
    pool.push(move || gate.recv().unwrap_or(())).unwrap();
    let sends = pool.spawn_as(class, async {
        yield_now().await;
        5
    });
    let waits = pool.spawn_as(Class::default(), sends);
    drop(open);
    assert_eq!(waits.wait(), Ok(Ok(5)));

    // The test keeps the waker: without it the future would end by itself, as the next
    // one does.
    let kept = Arc::new(Mutex::new(None));
    let keeper = Arc::clone(&kept);
    let never = pool.spawn_as(
        Class::default(),
        poll_fn(move |context| {
            *keeper.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }),
    );
    never.abort();
    assert_eq!(never.wait(), Err(JoinError::Aborted));
    let forgotten = pool.spawn_as(Class::default(), std::future::pending::<()>());
    assert_eq!(
        forgotten.wait(),
        Err(JoinError::Dropped),
        "nobody can wake it"
    );
    let panics = pool.spawn_as(Class::default(), async {
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    assert!(
        panics
            .wait()
            .is_err_and(|error: JoinError| error.is_panic())
    );
    assert!(pool.shutdown(LONG).is_clean());
    let late = pool.spawn_as(Class::default(), async {});
    assert_eq!(late.wait(), Err(JoinError::Dropped));
    let stats = pool.stats();
    assert_eq!(stats.pushed, stats.processed + stats.dropped);
}

/// A pool with one worker whose clock stands still, so that charges depend on
/// turns alone.
fn timeless_pool() -> TaskPool {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock);
    pool.build().unwrap()
}

/// Keeps the only worker in a task until the sender is dropped. The task runs when this returns: a
/// worker that finds it together with futures may run those first.
fn keep_the_worker(pool: &TaskPool) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel();
    let wait = move || {
        enter.send(()).unwrap();
        gate.recv().unwrap_or(())
    };
    pool.push(wait).unwrap();
    entered.recv().unwrap();
    open
}

/// On one worker, futures that yield take turns, whatever wakes them.
#[test]
fn futures_that_yield_take_turns() {
    let pool = timeless_pool();
    let open = keep_the_worker(&pool);
    let turns = Arc::new(std::sync::Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..20)
        .map(|number| {
            let turns = Arc::clone(&turns);
            pool.spawn_as(Class::default(), async move {
                for _ in 0..3 {
                    turns.lock().unwrap().push(number);
                    yield_now().await;
                }
            })
        })
        .collect();
    drop(open);
    for handle in handles {
        handle.wait().unwrap();
    }
    let expected: Vec<_> = (0..3).flat_map(|_| 0..20).collect();
    assert_eq!(*turns.lock().unwrap(), expected);
}

/// A future that is always ready would keep the only worker for itself.
#[test]
fn the_budget_of_a_future_lets_others_run() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let greedy = pool.spawn(async move {
        while !stopped.load(SeqCst) {
            consume_budget().await;
        }
    });
    pool.push_wait(move || stop.store(true, SeqCst)).unwrap();
    assert_eq!(greedy.wait(), Ok(()));
}

/// Without yielding, one turn runs up to 64 short tasks of one serializer.
#[test]
fn yielding_ends_the_turn() {
    let pool = timeless_pool();
    let open = keep_the_worker(&pool);
    let serializers = [pool.ephemeral(), pool.ephemeral()];
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for (number, serializer) in serializers.iter().enumerate() {
        for _ in 0..4 {
            let order = Arc::clone(&order);
            serializer
                .push(move || {
                    order.lock().unwrap().push(number);
                    request_yield();
                })
                .unwrap();
        }
    }
    drop(open);
    assert!(pool.shutdown(LONG).is_clean());
    assert_eq!(*order.lock().unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn real_time_serializers_go_first() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let open = keep_the_worker(&pool);
    let normal = pool.serializer("normal").priority(Priority::MAX).build();
    let urgent = (pool.serializer("urgent")).real_time(RealTimePriority::new(1));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for serializer in [normal.unwrap(), urgent.build().unwrap()] {
        let order = Arc::clone(&order);
        let name = serializer.name().to_owned();
        serializer
            .push(move || order.lock().unwrap().push(name))
            .unwrap();
    }
    drop(open);
    assert!(pool.shutdown(LONG).is_clean());
    assert_eq!(*order.lock().unwrap(), ["urgent", "normal"]);
}

#[test]
fn run_times_and_waits_are_counted_in_histograms() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let calls = pool.serializer("calls").build().unwrap();
    (0..100).for_each(|_| calls.push(|| ()).unwrap());
    assert!(pool.shutdown(LONG).is_clean());
    let stats = pool.stats();
    assert!(
        stats.run_ns.count() >= 1 && stats.run_ns.count() <= 100,
        "{stats:?}"
    );
    assert!(stats.wait_ns.count() >= 1, "{stats:?}");
    assert!(stats.run_ns.quantile_ns(1.0) >= stats.run_ns.quantile_ns(0.5));
}

#[cfg(target_os = "linux")]
#[test]
fn workers_keep_to_the_processors_they_are_given() {
    let pool = |processor| {
        TaskPool::builder()
            .workers(2)
            .affinity(&[processor])
            .build()
    };
    let allowed = (0..1024).find_map(|processor| pool(processor).ok());
    assert_eq!(allowed.unwrap().push_wait(|| 1), Ok(1));
}
