//! Statistics of each worker.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{PoolBuildError, Selector, TaskPool, TaskPoolBuilder},
    serializer::Serializer,
    stats::WorkerStats,
};

fn pool(workers: usize) -> TaskPool {
    let builder = TaskPool::builder().workers(workers);
    builder.selector(Selector::Sequential).build().unwrap()
}

/// Keeps one worker in a task until both barriers are passed.
struct Held {
    begins: Arc<Barrier>,
    ends: Arc<Barrier>,
}

impl Held {
    fn one_of(pool: &TaskPool) -> Self {
        let barrier = || Arc::new(Barrier::new(2));
        let held = Self {
            begins: barrier(),
            ends: barrier(),
        };
        let (begins, ends) = (Arc::clone(&held.begins), Arc::clone(&held.ends));
        pool.push(move || {
            begins.wait();
            ends.wait();
        })
        .unwrap();
        held.begins.wait();
        held
    }

    fn release(self) {
        self.ends.wait();
    }
}

fn until(pool: &TaskPool, is_so: impl Fn(&[WorkerStats]) -> bool) -> Vec<WorkerStats> {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let stats = pool.worker_stats();
        if is_so(&stats) {
            return stats;
        }
        assert!(Instant::now() < limit, "it never comes: {stats:?}");
        thread::yield_now();
    }
}

#[test]
fn each_worker_has_its_number_and_says_whether_it_runs_or_sleeps() {
    let pool = pool(3);
    let idle = until(&pool, |all| all.iter().all(|worker| worker.is_idle));
    let numbers: Vec<u64> = idle.iter().map(|worker| worker.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(idle.iter().all(|worker| !worker.is_running));
    let held = Held::one_of(&pool);
    let stats = until(&pool, |all| all.iter().filter(|it| it.is_idle).count() == 2);
    let running: Vec<&WorkerStats> = stats.iter().filter(|it| it.is_running).collect();
    assert_eq!(running.len(), 1);
    assert!(!running[0].is_idle);
    held.release();
    until(&pool, |all| {
        all.iter()
            .all(|worker| worker.is_idle && !worker.is_running)
    });
}

#[test]
fn what_waits_and_what_ran_is_counted_for_the_worker_itself() {
    let pool = pool(2);
    let held = [Held::one_of(&pool), Held::one_of(&pool)];
    for _ in 0..10 {
        pool.push(|| ()).unwrap();
    }
    let stats = pool.worker_stats();
    assert!(
        stats.iter().all(|worker| worker.queued_len == 5),
        "they take turns"
    );
    held.into_iter().for_each(Held::release);
    let stats = until(&pool, |all| {
        all.iter().map(|worker| worker.processed).sum::<u64>() == 12
    });
    assert!(stats.iter().all(|worker| worker.processed > 0));
    assert!(stats.iter().all(|worker| worker.queued_high_water >= 5));
    assert_eq!(pool.stats().processed, 12);
}

#[test]
fn panics_and_run_times_are_counted_for_the_worker_itself() {
    let pool = pool(2);
    let held = Held::one_of(&pool);
    let before = pool.worker_stats();
    let free = before
        .iter()
        .find(|worker| !worker.is_running)
        .unwrap()
        .number;
    // The held worker's share of these is taken over by the free one.
    for _ in 0..4 {
        pool.push(|| panic!("counted")).unwrap();
    }
    let stats = until(&pool, |all| {
        all.iter().map(|it| it.panicked).sum::<u64>() == 4
    });
    let of = |number: u64| stats.iter().find(|worker| worker.number == number).unwrap();
    assert_eq!(of(free).panicked, 4);
    assert!(of(free).stolen > 0);
    held.release();
    let counted = |worker: &WorkerStats| worker.run_ns.count();
    until(&pool, |all| all.iter().all(|worker| counted(worker) > 0));
}

#[test]
fn a_worker_that_has_ended_is_not_listed() {
    let pool = TaskPool::builder()
        .minimum(1)
        .workers(4)
        .idle_timeout(Duration::ZERO);
    let pool = pool.build().unwrap();
    let left = until(&pool, |all| all.len() == 1);
    assert_eq!(pool.stats().worker_count, 1);
    assert!(left[0].number < 4);
    let simulated = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    assert!(simulated.worker_stats().is_empty());
}

/// A pool whose workers end at once when they are idle, down to none.
fn pool_without_workers() -> TaskPool {
    let builder = TaskPool::builder().workers(0).minimum(0).maximum(2);
    builder.idle_timeout(Duration::ZERO).build().unwrap()
}

fn until_deserted(pool: &TaskPool) {
    until(pool, |all| all.is_empty());
    assert_eq!(pool.stats().worker_count, 0);
}

#[test]
fn a_pool_without_workers_starts_one_for_whatever_is_pushed() {
    let pool = pool_without_workers();
    assert_eq!(pool.stats().worker_count, 0);
    assert_eq!(pool.push_wait(|| 1), Ok(1));
    until_deserted(&pool);
    let serializer = pool.ephemeral();
    assert_eq!(serializer.push_wait(|| 2), Ok(2));
    until_deserted(&pool);
    let (sender, receiver) = mpsc::channel();
    serializer.push(move || sender.send(3).unwrap()).unwrap();
    assert_eq!(receiver.recv(), Ok(3));
    until_deserted(&pool);
    assert_eq!(pool.spawn(async { 4 }).wait(), Ok(4));
    until_deserted(&pool);
    let mut runner = pool.inline_runner();
    let (sender, receiver) = mpsc::channel();
    runner.run(|| pool.push(move || sender.send(5).unwrap()).unwrap());
    assert_eq!(receiver.recv(), Ok(5));
    until_deserted(&pool);
    let report = pool.shutdown(Duration::MAX);
    assert!(report.is_clean(), "{report:?}");
    assert!(pool.push(|| ()).is_err() && serializer.push(|| ()).is_err());
}

#[test]
fn what_meets_the_last_worker_as_it_leaves_runs() {
    const PUSHES: u64 = 500;
    let pool = pool_without_workers();
    let ran = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..3 {
            let (pool, ran) = (&pool, &ran);
            scope.spawn(move || {
                let serializer = pool.ephemeral();
                for push in 1..=PUSHES {
                    let ran = Arc::clone(ran);
                    let task = move || _ = ran.fetch_add(1, Ordering::SeqCst);
                    match number {
                        0 => pool.push(task).unwrap(),
                        1 => serializer.push(task).unwrap(),
                        _ => pool.push_wait(task).unwrap(),
                    }
                    if push % 3 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let ends = Instant::now() + Duration::from_secs(30);
    while ran.load(Ordering::SeqCst) < 3 * PUSHES {
        assert!(Instant::now() < ends, "{:?}", pool.stats());
        thread::yield_now();
    }
    until_deserted(&pool);
}

#[test]
fn a_blocked_worker_keeps_a_stand_in_in_a_pool_that_may_have_none() {
    let pool = pool_without_workers();
    let (sender, receiver) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let waiting = pool.clone();
    let handle = pool.spawn(async move {
        begins.send(()).unwrap();
        waiting.blocking(|| receiver.recv())
    });
    begun.recv().unwrap();
    // Time enough for a stand-in that leaves to leave.
    thread::sleep(Duration::from_millis(50));
    pool.push(move || sender.send(7).unwrap()).unwrap();
    assert_eq!(handle.wait(), Ok(Ok(7)));
}

#[test]
fn a_pool_without_workers_ends_with_its_last_handle() {
    let pool = pool_without_workers();
    let dropped = Arc::new(());
    let kept = Arc::clone(&dropped);
    pool.push_wait(move || drop(kept)).unwrap();
    until_deserted(&pool);
    drop(pool);
    assert_eq!(Arc::strong_count(&dropped), 1);
}

/// Serializers that wait together for the only worker, which tells of itself at each of
/// their turns; each works for `time` at each of its `turns`.
fn seen_at_each_turn(serializers: usize, turns: u32, time: Duration) -> Vec<WorkerStats> {
    seen_with(TaskPool::builder(), serializers, turns, time)
}

fn seen_with(
    builder: TaskPoolBuilder,
    serializers: usize,
    turns: u32,
    time: Duration,
) -> Vec<WorkerStats> {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = builder.workers(1).clock(clock.clone()).build().unwrap();
    let waiting: Vec<Serializer> = (0..serializers).map(|_| pool.ephemeral()).collect();
    let (seen, all_seen) = mpsc::channel();
    let held = Held::one_of(&pool);
    for serializer in waiting.iter().cycle().take(serializers * turns as usize) {
        let (pool, clock, seen) = (pool.clone(), clock.clone(), seen.clone());
        serializer
            .push(move || {
                seen.send(pool.worker_stats().remove(0)).unwrap();
                clock.as_virtual().unwrap().advance(time);
            })
            .unwrap();
    }
    drop(seen);
    held.release();
    let mut seen: Vec<WorkerStats> = all_seen.iter().collect();
    seen.extend(until(&pool, |all| all[0].is_idle));
    seen
}

#[test]
fn the_structure_of_the_run_queue_is_told() {
    let bucketed = |serializers| {
        let seen = seen_at_each_turn(serializers, 1, Duration::ZERO);
        seen.iter().map(|it| it.is_bucketed).collect::<Vec<_>>()
    };
    assert_eq!(bucketed(16), [false; 17]);
    let of_many = bucketed(40);
    // One runs, and more than 8 wait.
    assert_eq!(of_many[..31], [true; 31]);
    assert_eq!(of_many[31..], [false; 10]);
}

#[test]
fn the_thresholds_of_the_run_queues_are_those_of_the_pool() {
    let builder = TaskPool::builder().run_queue_thresholds(4, 1);
    let seen = seen_with(builder, 6, 1, Duration::ZERO);
    let bucketed: Vec<bool> = seen.iter().map(|it| it.is_bucketed).collect();
    // After the first switch five wait, and so on.
    assert_eq!(bucketed, [true, true, true, true, false, false, false]);
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    for (sorted_max, sorted_again) in [(0, 0), (8, 8), (8, 9), (65, 1)] {
        let builder = TaskPool::builder().run_queue_thresholds(sorted_max, sorted_again);
        let refused = builder.build().unwrap_err();
        assert!(matches!(refused, PoolBuildError::Thresholds { .. }));
        let said = refused.to_string();
        let got = format!("sorted_again < sorted_max ≤ 64, got {sorted_again} and {sorted_max}");
        assert!(said.ends_with(&got), "{said}");
    }
}

#[test]
fn switches_epochs_and_busy_time_are_counted() {
    // Each turn uses the whole counter up.
    let time = Duration::from_millis(10);
    let seen = seen_at_each_turn(3, 4, time);
    let epochs: Vec<u32> = seen.iter().map(|it| it.epoch).collect();
    assert_eq!(epochs, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3]);
    let last = seen.last().unwrap();
    assert_eq!(last.busy_ns, 12 * time.as_nanos() as u64);
    assert_eq!(
        (last.choosing_ns, last.choosing_share()),
        (0, 0.0),
        "in virtual time"
    );
    let turns: Vec<u64> = seen.iter().map(|it| it.switches).collect();
    assert!(
        turns[..12].windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{turns:?}"
    );
}

#[test]
fn the_time_spent_choosing_is_a_part_of_the_busy_time() {
    let pool = pool(1);
    let began = Instant::now();
    let (done, is_done) = mpsc::channel();
    let pair = [pool.ephemeral(), pool.ephemeral()];
    hop(pair, 50_000, done);
    is_done.recv().unwrap();
    let stats = until(&pool, |all| all[0].is_idle);
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let worker = &stats[0];
    assert!(worker.switches >= 50_000, "{worker:?}");
    assert!(
        0 < worker.choosing_ns && worker.choosing_ns < worker.busy_ns,
        "{worker:?}"
    );
    assert!(
        worker.busy_ns <= elapsed_ns,
        "{worker:?} in {elapsed_ns} ns"
    );
    assert!(0.0 < worker.choosing_share() && worker.choosing_share() < 1.0);
}

/// Hops from one serializer to the other `left` times.
fn hop([next, after]: [Serializer; 2], left: u32, done: mpsc::Sender<()>) {
    let hop_on = {
        let next = next.clone();
        move || match left {
            0 => done.send(()).unwrap(),
            _ => hop([after, next], left - 1, done),
        }
    };
    next.push(hop_on).unwrap();
}

/// An `unpark` that a task leaves, or one of the pool that comes late, ends the worker's next
/// park at once.
#[test]
fn a_worker_whose_park_ends_at_once_has_not_been_idle_for_long() {
    let pool = TaskPool::builder().workers(1).maximum(3);
    let pool = pool.growth_threshold(0).build().unwrap();
    for _ in 0..20 {
        let meeting = Arc::new(Barrier::new(4));
        for _ in 0..3 {
            let meeting = Arc::clone(&meeting);
            let meet = move || {
                thread::current().unpark();
                meeting.wait();
            };
            pool.push(meet).unwrap();
        }
        (0..8).for_each(|_| pool.push(|| ()).unwrap());
        meeting.wait();
        while pool.stats().idle_worker_count < pool.stats().worker_count {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pool.stats().worker_count, 3);
    }
}
