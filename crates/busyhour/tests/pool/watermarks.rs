//! The watermarks of a pool's own queue.

use busyhour::{
    pool::{PoolAlert, PoolBuildError, TaskPool},
    stats::PoolStats,
    task::Watermark::{self, High, Low},
};
use std::{
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

/// A pool whose workers all wait inside a task, and what its hook is told.
struct Held {
    pool: TaskPool,
    alerts: Receiver<PoolAlert>,
    releases: Vec<Sender<()>>,
}

impl Held {
    fn new(workers: usize, low: usize, high: usize) -> Self {
        let (sender, alerts) = mpsc::channel();
        let told = move |alert: &PoolAlert| _ = sender.send(*alert);
        let pool = TaskPool::builder().workers(workers);
        let pool = pool.on_alert(low, high, told).build().unwrap();
        let held: Vec<_> = (0..workers).map(|_| hold(&pool)).collect();
        Self {
            pool,
            alerts,
            releases: held,
        }
    }

    fn fill(&self, count: usize) {
        (0..count).for_each(|_| self.pool.push(|| ()).unwrap());
    }

    fn release(&mut self) {
        self.releases.clear();
    }

    fn next(&self) -> PoolAlert {
        let patience = Duration::from_secs(60);
        self.alerts.recv_timeout(patience).expect("an alert")
    }

    fn marks(&self) -> (bool, u64) {
        let PoolStats {
            is_high,
            alerts_raised,
            ..
        } = self.pool.stats();
        (is_high, alerts_raised)
    }
}

/// Keeps a worker inside a task until the sender is dropped.
fn hold(pool: &TaskPool) -> Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel();
    pool.push(move || {
        began.send(()).unwrap();
        let _released = released.recv();
    })
    .unwrap();
    has_begun.recv().unwrap();
    release
}

#[test]
fn an_alert_begins_at_the_high_watermark_and_ends_at_the_low_one() {
    let mut held = Held::new(1, 3, 10);
    let stats = held.pool.stats();
    assert_eq!(
        (stats.low_watermark, stats.high_watermark),
        (Some(3), Some(10))
    );
    held.fill(9);
    assert_eq!(held.marks(), (false, 0));
    held.fill(1);
    let high = held.next();
    assert_eq!((high.mark, high.queued_len), (High, 10));
    assert_eq!(held.marks(), (true, 1));
    held.fill(50);
    assert!(held.alerts.try_recv().is_err(), "it is told once");
    held.release();
    let low = held.next();
    assert_eq!(low.mark, Low);
    assert!(low.queued_len <= 3, "{low:?}");
    assert_eq!(held.marks(), (false, 1));

    held.releases.push(hold(&held.pool));
    held.fill(10);
    assert_eq!(held.next().mark, High);
    assert_eq!(held.marks(), (true, 2));
}

#[test]
fn what_waits_at_all_workers_counts_and_serializers_too() {
    let mut held = Held::new(2, 0, 40);
    // Each waits in the run queue of a worker, with a task inside.
    let serializers: Vec<_> = (0..20).map(|_| held.pool.ephemeral()).collect();
    for serializer in &serializers {
        serializer.push(|| ()).unwrap();
    }
    assert_eq!(held.marks(), (false, 0));
    // Another thread pushes to another worker.
    let pool = held.pool.clone();
    let other = thread::spawn(move || (0..10).for_each(|_| pool.push(|| ()).unwrap()));
    other.join().unwrap();
    held.fill(20);
    assert_eq!(held.next().mark, High);
    held.release();
    assert_eq!(held.next().mark, Low);
}

#[test]
fn a_slow_hook_misses_pairs_of_alerts_and_never_the_end_of_one() {
    let (told, seen) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let hook = move |alert: &PoolAlert| {
        told.send(alert.mark).unwrap();
        let _go_on = gate.lock().unwrap().recv();
    };
    let pool = TaskPool::builder().workers(2).on_alert(0, 10, hook);
    let pool = Arc::new(pool.build().unwrap());
    let hold_and_fill = || {
        let held = [hold(&pool), hold(&pool)];
        let pool = pool.clone();
        let filling = thread::spawn(move || (0..10).for_each(|_| pool.push(|| ()).unwrap()));
        (held, filling)
    };
    let (held, filling) = hold_and_fill();
    assert_eq!(seen.recv(), Ok(High), "the hook is slow from now on");
    drop(held);
    while pool.stats().is_high {
        thread::yield_now();
    }
    let (held, other_filling) = hold_and_fill();
    other_filling.join().unwrap();
    assert_eq!(pool.stats().alerts_raised, 2);
    drop(held);
    while pool.stats().is_high {
        thread::yield_now();
    }
    drop(go_on);
    filling.join().unwrap();
    let patience = Duration::from_secs(60);
    assert_eq!(seen.recv_timeout(patience), Ok(Low));
    assert!(seen.try_recv().is_err());
}

#[test]
fn a_shutdown_that_drops_what_waits_ends_the_alert() {
    let held = Held::new(1, 0, 5);
    held.fill(5);
    assert_eq!(held.next().mark, High);
    let report = held.pool.shutdown(Duration::from_millis(1));
    assert_eq!(report.not_run, 5);
    assert_eq!(held.next().mark, Low);
    assert_eq!(held.marks(), (false, 1));
}

#[test]
fn a_hook_may_panic_and_may_use_the_pool() {
    let (sender, told) = mpsc::channel();
    let marks: Arc<Mutex<Vec<Watermark>>> = Arc::default();
    let noted = Arc::clone(&marks);
    let pool = TaskPool::builder().workers(1);
    let pool = pool.on_alert(0, 5, move |alert| {
        noted.lock().unwrap().push(alert.mark);
        panic!("on purpose");
    });
    let pool = pool.on_alert(0, 5, move |alert| _ = sender.send(alert.mark));
    let pool = pool.build().unwrap();
    let held = hold(&pool);
    (0..5).for_each(|_| pool.push(|| ()).unwrap());
    assert_eq!(told.recv(), Ok(High), "the other hook is called");
    drop(held);
    assert_eq!(told.recv(), Ok(Low));
    assert_eq!(*marks.lock().unwrap(), [High, Low]);
    assert_eq!(pool.stats().panicked, 2);
}

#[test]
fn contradicting_watermarks_are_refused() {
    let refused = TaskPool::builder().workers(1).watermarks(4, 4).build();
    let error = refused.err().unwrap();
    assert!(matches!(
        error,
        PoolBuildError::Watermarks { low: 4, high: 4 }
    ));
    assert!(error.to_string().contains("low < high, got 4 and 4"));
    let stats = TaskPool::builder().workers(1).build().unwrap().stats();
    assert_eq!((stats.high_watermark, stats.is_high), (None, false));
}
