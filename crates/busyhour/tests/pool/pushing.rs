//! What the pool promises to callers that push.

use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{JoinError, PoolBuildError, PushError, TaskPool, WaitError},
};

const LONG: Duration = Duration::from_secs(60);

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

fn simulated(seed: u64) -> TaskPool {
    TaskPool::simulated(seed, Clock::simulated(UnixTime::from_secs(0)))
}

#[test]
fn every_pushed_task_runs_exactly_once() {
    let pool = pool(3);
    let runs = Arc::new(AtomicU64::new(0));
    for _ in 0..10_000 {
        let runs = Arc::clone(&runs);
        pool.push(move || {
            runs.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    }
    let report = pool.shutdown(LONG);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 10_000);
    assert_eq!(pool.stats().processed, 10_000);
}

#[test]
fn chains_of_tasks_run_to_their_end_during_a_shutdown() {
    fn chain(pool: &TaskPool, left: u64, runs: &Arc<AtomicU64>) -> Result<(), PushError> {
        let (next, runs) = (pool.clone(), Arc::clone(runs));
        pool.push(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            if left > 1 {
                chain(&next, left - 1, &runs).unwrap();
            }
        })
    }
    let pool = pool(2);
    let runs = Arc::new(AtomicU64::new(0));
    chain(&pool, 1000, &runs).unwrap();
    assert!(pool.shutdown(LONG).is_clean());
    assert_eq!(runs.load(Ordering::Relaxed), 1000);
    assert_eq!(pool.push(|| ()), Err(PushError::ShutDown));
}

#[test]
fn a_panic_ends_its_task_only() {
    let pool = pool(1);
    assert_eq!(
        pool.push_wait(|| panic!("on purpose")),
        Err(WaitError::Panicked)
    );
    assert_eq!(pool.push_wait(|| 7), Ok(7));
    assert_eq!(pool.stats().panicked, 1);
}

#[test]
fn a_synchronous_push_from_a_worker_runs_on_that_worker() {
    let pool = pool(1);
    let inner = pool.clone();
    assert_eq!(pool.push_wait(move || inner.push_wait(|| 1 + 1)), Ok(Ok(2)));
}

#[test]
fn the_bound_refuses_and_counts() {
    let pool = TaskPool::builder().workers(1).capacity(2).build().unwrap();
    let (entered, gate) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (at_entry, at_gate) = (Arc::clone(&entered), Arc::clone(&gate));
    pool.push(move || {
        at_entry.wait();
        at_gate.wait();
    })
    .unwrap();
    entered.wait();
    let results: Vec<_> = (0..4).map(|_| pool.push(|| ())).collect();
    gate.wait();
    assert_eq!(results[..2], [Ok(()), Ok(())]);
    assert_eq!(results[2..], [Err(PushError::Full), Err(PushError::Full)]);
    assert!(pool.shutdown(LONG).is_clean());
    let stats = pool.stats();
    assert_eq!((stats.pushed, stats.processed, stats.rejected), (3, 3, 2));
}

#[test]
fn a_deadline_reports_what_did_not_run() {
    let pool = pool(1);
    let (release, released) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    pool.push(move || {
        tell.send(()).unwrap();
        let _ended = released.recv();
    })
    .unwrap();
    told.recv().unwrap();
    for _ in 0..5 {
        pool.push(|| ()).unwrap();
    }
    let report = pool.shutdown(Duration::ZERO);
    assert_eq!((report.not_run, report.unfinished_workers), (5, 1));
    drop(release);
}

/// Idle workers take some microseconds to end; even a deadline of zero waits for
/// that.
#[test]
fn a_shutdown_without_a_deadline_reports_no_idle_worker() {
    for _ in 0..200 {
        let pool = pool(4);
        pool.push_wait(|| ()).unwrap();
        // The answer comes from inside the task; its worker still has to return
        // from it.
        while pool.stats().processed < 1 {
            std::thread::yield_now();
        }
        let report = pool.shutdown(Duration::ZERO);
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(pool.stats().worker_count, 0);
    }
}

#[test]
fn growth_follows_the_queue_up_to_the_maximum() {
    let pool = TaskPool::builder()
        .workers(1)
        .maximum(3)
        .growth_threshold(0)
        .build()
        .unwrap();
    let meeting = Arc::new(Barrier::new(4));
    for _ in 0..3 {
        let meeting = Arc::clone(&meeting);
        pool.push(move || {
            meeting.wait();
        })
        .unwrap();
    }
    for _ in 0..8 {
        pool.push(|| ()).unwrap();
    }
    // This returns only when three workers are here at once.
    meeting.wait();
    assert_eq!(pool.stats().worker_count, 3);
}

/// Threads that push at the same time, and the worker that wakes, each find that workers are missing.
#[test]
fn growth_from_several_threads_keeps_the_maximum() {
    const PUSHERS: usize = 4;
    for _ in 0..300 {
        let pool = TaskPool::builder()
            .workers(1)
            .maximum(2)
            .growth_threshold(0)
            .build()
            .unwrap();
        let begin = Barrier::new(PUSHERS);
        thread::scope(|scope| {
            for _ in 0..PUSHERS {
                scope.spawn(|| {
                    begin.wait();
                    (0..8).for_each(|_| pool.push(thread::yield_now).unwrap());
                    assert!(pool.stats().worker_count <= 2);
                });
            }
        });
    }
}

#[test]
fn thread_hooks_pair_up() {
    let (starts, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (on_start, on_stop) = (Arc::clone(&starts), Arc::clone(&stops));
    let pool = TaskPool::builder()
        .workers(3)
        .on_thread_start(move || {
            on_start.fetch_add(1, Ordering::SeqCst);
        })
        .on_thread_stop(move || {
            on_stop.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    assert!(pool.shutdown(LONG).is_clean());
    assert_eq!(starts.load(Ordering::SeqCst), 3);
    assert_eq!(stops.load(Ordering::SeqCst), 3);
}

#[test]
fn contradicting_counts_are_refused() {
    for (minimum, workers, maximum) in [(1, 0, 1), (0, 0, 0), (2, 1, 2), (1, 3, 2)] {
        let built = TaskPool::builder()
            .minimum(minimum)
            .workers(workers)
            .maximum(maximum)
            .build();
        assert!(matches!(built, Err(PoolBuildError::WorkerCounts { .. })));
    }
}

#[test]
fn futures_run_wake_and_abort() {
    let pool = pool(2);
    let inner = pool.spawn(async { 20 });
    let outer = pool.spawn(async move { inner.await.unwrap() + 1 });
    assert_eq!(outer.wait(), Ok(21));

    // The test keeps the waker, so the pool does not give the future up.
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let never = pool.spawn(poll_fn(move |context| {
        *keep.lock().unwrap() = Some(context.waker().clone());
        Poll::<()>::Pending
    }));
    never.abort();
    assert_eq!(never.wait(), Err(JoinError::Aborted));

    let panicking = pool.spawn(async { panic!("on purpose") });
    assert!(panicking.wait().is_err_and(|error| error.is_panic()));
}

#[test]
fn a_future_nobody_can_wake_is_reported_dropped() {
    let pool = pool(1);
    let forgotten = pool.spawn(std::future::pending::<()>());
    assert_eq!(forgotten.wait(), Err(JoinError::Dropped));
}

#[test]
fn the_seed_alone_decides_the_order() {
    let order = |seed| {
        let pool = simulated(seed);
        let (sender, receiver) = mpsc::channel();
        for number in 0..20 {
            let sender = sender.clone();
            pool.push(move || sender.send(number).unwrap()).unwrap();
        }
        while pool.step() {}
        receiver.try_iter().collect::<Vec<i32>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert_eq!(order(3).len(), 20);
}

#[test]
fn a_simulated_shutdown_drains() {
    let pool = simulated(5);
    for _ in 0..10 {
        pool.push(|| ()).unwrap();
    }
    let report = pool.shutdown(Duration::from_secs(1));
    assert!(report.is_clean());
    assert_eq!(report.ran, 10);
}

#[test]
fn a_blocked_worker_has_a_stand_in() {
    let pool = pool(1);
    let (sender, receiver) = mpsc::channel();
    let waiting = pool.clone();
    let handle = pool.spawn(async move { waiting.blocking(|| receiver.recv()) });
    pool.push(move || sender.send(7).unwrap()).unwrap();
    assert_eq!(handle.wait(), Ok(Ok(7)));
}

#[test]
fn idle_workers_above_the_minimum_leave() {
    let pool = TaskPool::builder()
        .minimum(1)
        .workers(3)
        .maximum(3)
        .idle_timeout(Duration::from_millis(1))
        .build()
        .unwrap();
    while pool.stats().worker_count > 1 {
        std::thread::yield_now();
    }
    assert_eq!(pool.push_wait(|| 5), Ok(5));
    assert!(pool.shutdown(LONG).is_clean());
}
