//! Statistics of each worker.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use busyhour::{
    pool::{Selector, TaskPool},
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
