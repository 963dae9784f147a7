//! Executors that break their contract; the driver must still handle their timers.

use super::{Hand, OnDrop, assert_works, ignore, one_shard, pass};
use crate::watchdog::watched;
use busyhour::{
    pool::TaskPool,
    task::{Executor, Overflow, Reason, Rejected, Task},
    timer::{Cancel, Timers},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// Calls its closure with each task.
#[derive(Clone)]
struct Does(Arc<dyn Fn(Task) -> Result<(), Rejected> + Send + Sync>);

impl Does {
    fn new(execute: impl Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static) -> Self {
        Self(Arc::new(execute))
    }
}

impl Executor for Does {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        (self.0)(task)
    }
}

fn full(task: Task) -> Result<(), Rejected> {
    let reason = Reason::Full;
    Err(Rejected { task, reason })
}

#[test]
fn an_executor_may_do_anything() {
    let hand = Hand::default();
    let kept = hand.clone();
    let one = one_shard();
    let inner = one.clone();
    let executors: Vec<(&'static str, Does, u64)> = vec![
        (
            "runs at once",
            Does::new(|task| {
                task.run();
                Ok(())
            }),
            1,
        ),
        (
            "runs at once and rejects another",
            Does::new(|task| {
                task.run();
                full(Task::new(|| ()))
            }),
            1,
        ),
        (
            "keeps and rejects another",
            Does::new(move |task| {
                kept.execute(task)?;
                full(Task::new(|| ()))
            }),
            0,
        ),
        (
            "drops and rejects another",
            Does::new(|task| {
                drop(task);
                full(Task::new(|| ()))
            }),
            0,
        ),
        (
            "panics",
            Does::new(|_task| panic!("on purpose, in an executor")),
            0,
        ),
        (
            "rejects a task whose drop panics",
            Does::new(|_task| {
                let bomb = OnDrop(|| panic!("on purpose, in a drop"));
                full(Task::new(move || drop(bomb)))
            }),
            0,
        ),
        (
            "leaks",
            Does::new(|task| {
                std::mem::forget(task);
                Ok(())
            }),
            0,
        ),
        (
            "drives, clears and looks",
            Does::new(move |task| {
                assert_eq!(inner.run_due(inner.clock().now()), 0, "this thread drives");
                inner.cancel_owner(99);
                let _looked = (inner.stats(), inner.next_wait());
                task.run();
                Ok(())
            }),
            1,
        ),
    ];
    for (name, executor, runs) in executors {
        watched(name, || lead(&one, &executor, runs, name));
    }
    hand.run_all();
    assert_works(&one);
}

fn lead(timers: &Timers, executor: &Does, runs: u64, name: &str) {
    let count = Arc::new(AtomicUsize::new(0));
    let ran = Arc::clone(&count);
    let once = timers.after(SECOND, executor, move || {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    let ran = Arc::clone(&count);
    let each = timers.every(SECOND, executor, move || {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    pass(timers, 1);
    for timer in [once, each] {
        let outcome = timers.cancel_and_wait(&timer);
        assert_ne!(outcome, Cancel::Running, "{name}");
    }
    assert_eq!(count.load(Ordering::Relaxed) as u64, 2 * runs, "{name}");
    assert_works(timers);
}

/// When an executor refuses, its last reference may be dropped with the refused
/// delivery.
#[test]
fn an_executor_that_is_dropped_with_its_refusal_may_call_the_service() {
    for reason in [Reason::Full, Reason::ShutDown] {
        watched("an executor that is dropped", || {
            let timers = one_shard();
            let count = Arc::new(AtomicUsize::new(0));
            let (inner, dropped) = (timers.clone(), Arc::clone(&count));
            let guard = OnDrop(move || {
                dropped.fetch_add(1, Ordering::Relaxed);
                inner.cancel_owner(1);
                panic!("on purpose, in an executor's drop");
            });
            let canceller = timers.clone();
            let shared: Arc<dyn Executor> = Arc::new(Does::new(move |task| {
                let _guard = &guard;
                // The timer is gone before the driver sees the refusal.
                assert_eq!(canceller.cancel_owner(7), 1);
                Err(Rejected { task, reason })
            }));
            let timer = timers.timer().owner(7).after(SECOND).on_shared(shared);
            timer.run(|| ()).unwrap();
            pass(&timers, 1);
            assert_eq!(count.load(Ordering::Relaxed), 1);
            assert_works(&timers);
        });
    }
}

/// A delivery that a full serializer drops is dropped on the driver's thread.
#[test]
fn a_driver_survives_hostile_drops_and_calls() {
    watched("a driver among bombs", || {
        let timers = Timers::builder().build();
        let _driver = timers.spawn_driver().unwrap();
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let lane = pool
            .serializer("lane")
            .capacity(1)
            .overflow(Overflow::DropOldest);
        let lane = lane.build().unwrap();
        let (hold, may_end) = mpsc::channel::<()>();
        lane.push(move || ignore(may_end.recv())).unwrap();
        let bomb = || OnDrop(|| panic!("on purpose, in a drop"));
        let held = bomb();
        lane.push(move || drop(held)).unwrap();
        let panics = Does::new(|_task| panic!("on purpose, in an executor"));
        for _ in 0..200 {
            let held = bomb();
            timers.after(Duration::ZERO, &lane, move || drop(held));
            timers.after(Duration::ZERO, &panics, || ());
        }
        let (fired, waiting) = mpsc::channel();
        timers.after(Duration::from_millis(20), &pool.clone(), move || {
            fired.send(()).unwrap()
        });
        drop(hold);
        waiting.recv().expect("the driver's thread still runs");
        assert!(timers.stats().panicked >= 200);
    });
}

/// Each delivery takes a tenth of a millisecond of the service's own clock.
#[test]
fn a_hundred_thousand_due_timers_end_the_callers_turn_in_time() {
    watched("a turn of run_due", || {
        let timers = one_shard();
        let clock = timers.clock().clone();
        let slow = Does::new(move |task| {
            clock
                .as_virtual()
                .unwrap()
                .advance(Duration::from_micros(100));
            task.run();
            Ok(())
        });
        let count = Arc::new(AtomicUsize::new(0));
        for n in 0..100_000 {
            let ran = Arc::clone(&count);
            timers.after(Duration::ZERO, &slow, move || {
                assert_eq!(ran.fetch_add(1, Ordering::Relaxed), n, "in order");
            });
        }
        let mut delivered = 0;
        while delivered < 100_000 {
            let now = timers.clock().now();
            assert_eq!(timers.next_wait(), Some(Duration::ZERO));
            let turn = timers.run_due(now);
            assert!(
                (1..=32).contains(&turn),
                "{turn} deliveries in a turn of a millisecond"
            );
            delivered += turn;
        }
        assert_eq!(count.load(Ordering::Relaxed), 100_000);
        assert_eq!(timers.next_wait(), None);
    });
}
