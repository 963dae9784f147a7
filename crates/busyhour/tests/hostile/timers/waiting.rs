//! Waits that must end: the sleep of a driver, and waits of callbacks for each
//! other.

use super::{Hand, ignore, one_shard, pass};
use crate::watchdog::watched;
use busyhour::{
    pool::{TaskPool, WaitError},
    task::{Executor, Rejected, Task},
    timer::{Cancel, TimerHandle, Timers},
};
use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// A host has announced that it sleeps. Other threads drive and look at the timers
/// meanwhile. An earlier deadline must wake the host.
#[test]
fn driving_or_looking_takes_no_wake_up_from_a_host_that_sleeps() {
    type Other = fn(&Timers);
    let others: &[(&'static str, Other)] = &[
        ("drives", |timers| {
            ignore(timers.run_due(timers.clock().now()))
        }),
        ("looks", |timers| ignore(timers.next_wait())),
        ("both", |timers| {
            timers.run_due(timers.clock().now());
            let _wait = timers.next_wait();
        }),
    ];
    for &(name, other) in others {
        watched(name, || {
            let (timers, hand) = (one_shard(), Hand::default());
            let rings = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&rings);
            assert!(timers.on_earlier_deadline(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            }));
            timers.after(3600 * SECOND, &hand, || ());
            assert_eq!(timers.next_wait(), Some(3600 * SECOND));
            other(&timers);
            timers.after(SECOND, &hand, || ());
            assert_eq!(rings.load(Ordering::Relaxed), 1, "{name}: the host is told");
        });
    }
}

/// The driver's thread sleeps. Other threads drive and look all the time while timers are
/// added.
#[test]
fn a_driver_is_woken_although_others_drive_and_look() {
    watched("a driver beside others", || {
        let timers = Timers::builder().build();
        let _driver = timers.spawn_driver().unwrap();
        let hand = Hand::default();
        timers.after(3600 * SECOND, &hand, || ());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        timers.run_due(timers.clock().now());
                        let _wait = timers.next_wait();
                        thread::yield_now();
                    }
                });
            }
            let (fired, waiting) = mpsc::channel();
            for _ in 0..200 {
                let fired = fired.clone();
                let done = move || fired.send(()).unwrap();
                timers.after(Duration::from_micros(200), &Inline, done);
                waiting.recv().expect("it fires");
            }
            over.store(true, Ordering::Relaxed);
        });
        // From now on, only the driver can run what the other threads saw.
        let (fired, waiting) = mpsc::channel();
        timers.run_due(timers.clock().now());
        timers.after(Duration::from_millis(20), &Inline, move || {
            fired.send(()).unwrap()
        });
        waiting.recv().expect("the driver wakes");
    });
}

/// One callback waits for the end of another, which waits for the serializer that the
/// first one runs on. The second wait is refused, also where the other callback runs in a
/// plain task.
#[test]
fn a_circle_through_a_serializer_is_refused() {
    for round in 0..40 {
        watched("a circle through a serializer", move || {
            let pool = TaskPool::builder().workers(2).build().unwrap();
            let lanes = ["first", "second"].map(|name| pool.serializer(name).build().unwrap());
            let (timers, both_run) = (one_shard(), Arc::new(Barrier::new(2)));
            let second = Arc::new(Mutex::new(None::<TimerHandle>));
            let (answers, outcomes) = mpsc::channel();
            let (inner, known, meet) = (timers.clone(), Arc::clone(&second), Arc::clone(&both_run));
            let answer = answers.clone();
            timers.after(SECOND, &lanes[0], move || {
                meet.wait();
                let second = known.lock().unwrap().expect("added");
                let outcome = inner.cancel_and_wait(&second);
                answer.send(outcome == Cancel::Running).unwrap();
            });
            let first_lane = lanes[0].clone();
            let callback = move || {
                both_run.wait();
                let outcome = first_lane.push_wait(|| ());
                assert!(matches!(outcome, Ok(()) | Err(WaitError::Deadlock(_))));
                answers.send(outcome.is_err()).unwrap();
            };
            let timer = match round % 2 {
                0 => timers.after(SECOND, &lanes[1], callback),
                _ => timers.after(SECOND, &pool, callback),
            };
            *second.lock().unwrap() = Some(timer);
            pass(&timers, 1);
            let refused = [outcomes.recv().unwrap(), outcomes.recv().unwrap()];
            assert_eq!(refused.iter().filter(|refused| **refused).count(), 1);
            assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
        });
    }
}

/// Two services: the callback of each waits for that of the other.
#[test]
fn a_circle_through_two_services_is_refused() {
    watched("a circle through two services", || {
        let services = [one_shard(), one_shard()];
        let both_run = Arc::new(Barrier::new(2));
        let handles: [Arc<Mutex<Option<TimerHandle>>>; 2] = Default::default();
        let (answers, outcomes) = mpsc::channel();
        let hands = [Hand::default(), Hand::default()];
        for own in 0..2 {
            let (other, answer) = (services[1 - own].clone(), answers.clone());
            let (meet, handle) = (Arc::clone(&both_run), Arc::clone(&handles[1 - own]));
            let timer = services[own].after(SECOND, &hands[own], move || {
                meet.wait();
                let handle = handle.lock().unwrap().expect("added");
                answer.send(other.cancel_and_wait(&handle)).unwrap();
            });
            *handles[own].lock().unwrap() = Some(timer);
        }
        services.iter().for_each(|service| ignore(pass(service, 1)));
        thread::scope(|scope| {
            for hand in &hands {
                scope.spawn(|| hand.run_all());
            }
        });
        let mut outcomes = [outcomes.recv().unwrap(), outcomes.recv().unwrap()];
        outcomes.sort_by_key(|outcome| *outcome == Cancel::Running);
        assert_eq!(outcomes, [Cancel::AlreadyRan, Cancel::Running]);
    });
}

/// The only worker waits for a callback that needs the pool.
#[test]
fn a_worker_that_waits_for_a_callback_has_a_stand_in() {
    watched("a worker that waits for a callback", || {
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let (timers, hand) = (one_shard(), Hand::default());
        let (begun, begins) = mpsc::channel();
        let (may_go_on, goes_on) = mpsc::channel::<()>();
        let inner = pool.clone();
        let timer = timers.after(SECOND, &hand, move || {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
            inner
                .push_wait(|| ())
                .expect("a stand-in runs the pool's tasks");
        });
        pass(&timers, 1);
        thread::scope(|scope| {
            scope.spawn(|| hand.run_all());
            begins.recv().unwrap();
            let (inner, waiter) = (timers.clone(), pool.clone());
            let waits = scope.spawn(move || {
                let wait = move || {
                    may_go_on.send(()).unwrap();
                    inner.cancel_and_wait(&timer)
                };
                waiter.push_wait(wait).expect("it runs")
            });
            assert_eq!(waits.join().unwrap(), Cancel::AlreadyRan);
        });
    });
}

/// Runs everything at once, on the driver's thread.
#[derive(Clone)]
struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// Starts a callback on the driver's thread that reports its beginning, and then waits
/// until the test releases it.
fn held_driver(timers: &Timers) -> mpsc::Sender<()> {
    let (begins, begun) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    timers.after(Duration::ZERO, &Inline, move || {
        begins.send(()).unwrap();
        let _ = held.recv();
    });
    begun.recv().unwrap();
    let_go
}

#[test]
fn a_driver_may_wait_for_the_pool_whose_only_worker_stops_it() {
    watched(
        "the only worker stops a driver that waits for the pool",
        || {
            let timers = Timers::builder().build();
            let driver = timers.spawn_driver().unwrap();
            let pool = TaskPool::builder().workers(1).build().unwrap();
            let (stops, stopping) = mpsc::channel::<()>();
            let (begins, begun) = mpsc::channel();
            let inner = pool.clone();
            timers.after(Duration::ZERO, &Inline, move || {
                begins.send(()).unwrap();
                stopping.recv().unwrap();
                assert_eq!(inner.push_wait(|| 7), Ok(7));
            });
            begun.recv().unwrap();
            let stopped = pool.push_wait(move || {
                stops.send(()).unwrap();
                driver.stop();
            });
            assert_eq!(stopped, Ok(()));
            assert_eq!(timers.stats().panicked, 0);
        },
    );
}

#[test]
fn a_wait_for_a_driver_that_does_not_end_has_a_limit() {
    watched("a driver stops within a limit", || {
        let timers = Timers::builder().build();
        let driver = timers.spawn_driver().unwrap();
        let let_go = held_driver(&timers);
        assert!(!driver.stop_within(Duration::from_millis(1)));
        drop(let_go);
    });
}

#[test]
fn a_driver_may_be_stopped_on_its_own_thread() {
    watched("a driver stops itself", || {
        let timers = Timers::builder().build();
        let driver = timers.spawn_driver().unwrap();
        let (stops, stopped) = mpsc::channel();
        timers.after(Duration::ZERO, &Inline, move || {
            driver.stop();
            stops.send(()).unwrap();
        });
        stopped.recv().unwrap();
    });
}
