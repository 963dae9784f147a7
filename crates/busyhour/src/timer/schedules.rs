//! Schedules of a driver, workers and threads that add, move and cancel timers;
//! with a pool between them this is too large for loom.

use super::{Cancel, TimerHandle, Timers};
use crate::{
    clock::{Clock, UnixTime},
    pool::TaskPool,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        lock,
        scheduled::explore,
        thread,
    },
    task::{Executor, Rejected, Task},
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The service with a thread that drives it. Time stands still: timers without
/// a delay are due, others never are.
struct Driven {
    timers: Timers,
    stop: Arc<AtomicBool>,
    bell: Arc<Bell>,
    driver: thread::JoinHandle<()>,
}

/// Ends the driver's sleep. Under shuttle a parked thread may wake without a
/// reason, which would hide a lost wake-up.
#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *lock(&self.is_rung) = true;
        self.changed.notify_one();
    }

    fn sleep(&self) {
        let mut is_rung = lock(&self.is_rung);
        while !std::mem::take(&mut *is_rung) {
            is_rung = self.changed.wait(is_rung).unwrap();
        }
    }
}

impl Driven {
    fn new() -> Self {
        let clock = Clock::simulated(UnixTime::default());
        let timers = Timers::builder().clock(clock).shards(2).capacity(8).build();
        let stop = Arc::new(AtomicBool::new(false));
        let bell = Arc::new(Bell::default());
        let rung = Arc::clone(&bell);
        assert!(timers.on_earlier_deadline(move || rung.ring()));
        let (driven, stopped, sleeper) = (timers.clone(), Arc::clone(&stop), Arc::clone(&bell));
        let driver = thread::spawn(move || drive(&driven, &stopped, &sleeper));
        Self {
            timers,
            stop,
            bell,
            driver,
        }
    }

    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
        self.driver.join().unwrap();
    }
}

/// Drives like [`Timers::spawn_driver`], while time stands still.
fn drive(timers: &Timers, stop: &AtomicBool, bell: &Bell) {
    while !stop.load(Ordering::SeqCst) {
        timers.run_due(timers.clock().now());
        match timers.next_wait() {
            Some(Duration::ZERO) => thread::yield_now(),
            _ => bell.sleep(),
        }
    }
}

/// What a callback records.
#[derive(Default)]
struct Trace {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Trace {
    fn run(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        // Several steps, so that a cancel can end meanwhile.
        (0..40).for_each(|_| thread::yield_now());
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn read(&self) -> (u64, u64) {
        (
            self.begun.load(Ordering::SeqCst),
            self.ended.load(Ordering::SeqCst),
        )
    }
}

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

/// Whenever it happens, a cancel that waits ends with the callback prevented or
/// over, and no worker begins it later.
#[test]
fn shuttle_a_driver_meets_a_cancel_that_waits() {
    explore(1_500, || cancel_and_wait(|_| {}));
}

/// The same test for a cancel during the callback, which is rare otherwise.
#[test]
fn shuttle_a_callback_meets_a_cancel_that_waits() {
    explore(1_500, || {
        cancel_and_wait(|trace| {
            while trace.read().0 == 0 {
                thread::yield_now();
            }
        });
    });
}

fn cancel_and_wait(wait_before: impl FnOnce(&Trace)) {
    let (driven, pool) = (Driven::new(), pool(2));
    let trace = Arc::new(Trace::default());
    let callback = Arc::clone(&trace);
    let timer = driven
        .timers
        .after(Duration::ZERO, &pool, move || callback.run());
    wait_before(&trace);
    let outcome = driven.timers.cancel_and_wait(&timer);
    let expected = match outcome {
        Cancel::Prevented => 0,
        Cancel::AlreadyRan => 1,
        Cancel::Running => panic!("nobody else waits"),
    };
    assert_eq!(trace.read(), (expected, expected), "{outcome:?}");
    ends_after_the_cancel(driven, &pool, &trace);
}

/// Nothing is left of a cancelled timer, and it does not run again.
fn ends_after_the_cancel(driven: Driven, pool: &TaskPool, trace: &Arc<Trace>) {
    let (begun, ended) = trace.read();
    assert_eq!(begun, ended, "it runs after a cancel that waited");
    let holders = Arc::strong_count(trace);
    assert_eq!(holders, 1, "its captures outlive the cancel");
    driven.end();
    let report = pool.shutdown(Duration::MAX);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(trace.read(), (begun, begun), "it ran later");
}

/// The same test for a periodic timer on a serializer: its runs do not overlap,
/// and end with the cancel.
#[test]
fn shuttle_a_periodic_timer_meets_a_cancel_that_waits() {
    explore(1_500, || {
        let (driven, pool) = (Driven::new(), pool(2));
        let serializer = pool.serializer("model").build().unwrap();
        let trace = Arc::new(Trace::default());
        let callback = Arc::clone(&trace);
        let timer = driven.timers.timer().after(Duration::ZERO).on(&serializer);
        let timer = timer.run_with_next_delay(move || {
            callback.run();
            Duration::from_secs(1)
        });
        let outcome = driven.timers.cancel_and_wait(&timer.unwrap());
        assert_ne!(outcome, Cancel::Running, "nobody else waits");
        ends_after_the_cancel(driven, &pool, &trace);
    });
}

/// A due timer is added while the driver falls asleep: the driver must not
/// sleep past it, or this test would wait for ever.
#[test]
fn shuttle_a_driver_sleeps_past_no_timer() {
    explore(4_000, || {
        let driven = Driven::new();
        let trace = Arc::new(Trace::default());
        let callback = Arc::clone(&trace);
        let _timer = driven
            .timers
            .after(Duration::ZERO, &Inline, move || callback.run());
        while trace.read() != (1, 1) {
            thread::yield_now();
        }
        driven.end();
    });
}

/// Runs tasks on the thread that pushes them.
#[derive(Clone)]
struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// Two callbacks each cancel the other and wait: one of them is told that the
/// wait would never end, and both end.
#[test]
fn shuttle_callbacks_that_wait_for_each_other_end() {
    explore(1_500, || {
        let (driven, pool) = (Driven::new(), pool(2));
        let handles: Arc<[OnceLock<TimerHandle>; 2]> = Arc::default();
        let trace = Arc::new(Trace::default());
        for own in 0..2 {
            let (timers, handles_too) = (driven.timers.clone(), Arc::clone(&handles));
            let callback = Arc::clone(&trace);
            let timer = driven.timers.after(Duration::ZERO, &pool, move || {
                if let Some(other) = handles_too[1 - own].get() {
                    let _outcome = timers.cancel_and_wait(other);
                }
                callback.run();
            });
            handles[own].set(timer).unwrap();
        }
        for handle in handles.iter() {
            let outcome = driven.timers.cancel_and_wait(handle.get().unwrap());
            assert_ne!(outcome, Cancel::Running, "this thread is in no callback");
        }
        let (begun, ended) = trace.read();
        assert_eq!(begun, ended, "it runs after a cancel that waited");
        driven.end();
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}

/// A timer that is moved while the driver looks at it runs once.
#[test]
fn shuttle_a_moved_timer_runs_once() {
    explore(1_500, || {
        let (driven, pool) = (Driven::new(), pool(1));
        let trace = Arc::new(Trace::default());
        let callback = Arc::clone(&trace);
        let timer = driven
            .timers
            .after(Duration::from_secs(9), &pool, move || callback.run());
        let movers = [(); 2].map(|()| {
            let timers = driven.timers.clone();
            thread::spawn(move || timers.reschedule(&timer, timers.clock().now()))
        });
        let moved = movers.map(|mover| mover.join().unwrap());
        assert!(moved.contains(&true));
        while trace.read() != (1, 1) {
            thread::yield_now();
        }
        assert_eq!(driven.timers.cancel_and_wait(&timer), Cancel::AlreadyRan);
        driven.end();
        assert!(pool.shutdown(Duration::MAX).is_clean());
        assert_eq!(trace.read(), (1, 1));
    });
}
