//! Callbacks whose captures are hostile when they are dropped, in every way in which a
//! service drops a callback.

use super::{Hand, OnDrop, assert_works, ignore, one_shard, pass};
use crate::watchdog::watched;
use busyhour::{
    pool::TaskPool,
    task::{Executor, Overflow, Reason, Rejected, Task},
    timer::{AddError, Cancel, TimerHandle, Timers},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// Refuses what it is given, or drops it, or panics.
#[derive(Clone, Copy)]
enum Loser {
    Rejects(Reason),
    Drops,
    Panics,
}

impl Executor for Loser {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        match *self {
            Self::Rejects(reason) => Err(Rejected { task, reason }),
            Self::Drops => Ok(()),
            Self::Panics => panic!("on purpose, in an executor"),
        }
    }
}

/// What the drop of a capture does with the service of its timer.
type Deed = fn(&Timers, &TimerHandle);

const DEEDS: &[(&str, Deed)] = &[
    ("panics", |_, _| panic!("on purpose, in a drop")),
    ("cancels another", |timers, other| {
        ignore(timers.cancel(other))
    }),
    ("cancels and waits", |timers, other| {
        ignore(timers.cancel_and_wait(other))
    }),
    ("moves another", |timers, other| {
        timers.reschedule(other, timers.clock().now() + 2 * SECOND);
    }),
    ("adds", |timers, _| {
        ignore(timers.after(SECOND, &Hand::default(), || ()))
    }),
    ("adds and panics", |timers, _| {
        timers.after(SECOND, &Hand::default(), || ());
        panic!("on purpose, in a drop");
    }),
    ("clears", |timers, _| {
        timers.cancel_label("own");
        timers.cancel_owner(7);
    }),
    ("closes", |timers, _| ignore(timers.close())),
    ("drives", |timers, _| {
        ignore(timers.run_due(timers.clock().now()))
    }),
    ("looks", |timers, other| {
        let _looked = (timers.stats(), timers.next_wait(), timers.time_left(other));
    }),
    ("drops a polled sleep", |timers, _| {
        let mut sleep = timers.sleep(SECOND);
        let mut context = Context::from_waker(Waker::noop());
        let _pending = Pin::new(&mut sleep).poll(&mut context);
    }),
];

/// How the service drops a callback. Each way is tried with a one-shot timer whose callback is in
/// its record, with one whose callback is in memory of its shard, and with a periodic one.
type Way = fn(&Timers, Callback);

const WAYS: &[(&str, Way)] = &[
    ("cancel", |timers, callback| {
        let timer = callback.add(timers, &Hand::default());
        assert_eq!(timers.cancel(&timer), Cancel::Prevented);
    }),
    ("cancel while delivered", |timers, callback| {
        let hand = Hand::default();
        let timer = callback.add(timers, &hand);
        pass(timers, 1);
        assert_eq!(timers.cancel_and_wait(&timer), Cancel::Prevented);
        hand.run_all();
    }),
    ("clear owner", |timers, callback| {
        callback.add(timers, &Hand::default());
        assert_eq!(timers.cancel_owner(7), 1);
    }),
    ("clear label", |timers, callback| {
        callback.add(timers, &Hand::default());
        assert_eq!(timers.cancel_label("own"), 1);
    }),
    ("close", |timers, callback| {
        callback.add(timers, &Hand::default());
        timers.close();
    }),
    ("add to a closed service", |timers, callback| {
        timers.close();
        callback.add(timers, &Hand::default());
    }),
    ("rejected: shut down", |timers, callback| {
        callback.add(timers, &Loser::Rejects(Reason::ShutDown));
        pass(timers, 1);
    }),
    ("rejected: full, then cancelled", |timers, callback| {
        let timer = callback.add(timers, &Loser::Rejects(Reason::Full));
        pass(timers, 1);
        assert_eq!(timers.cancel(&timer), Cancel::Prevented);
    }),
    ("dropped by the executor", |timers, callback| {
        let timer = callback.add(timers, &Loser::Drops);
        pass(timers, 1);
        let _stopped = timers.cancel(&timer);
    }),
    ("the executor panics", |timers, callback| {
        let timer = callback.add(timers, &Loser::Panics);
        pass(timers, 1);
        let _stopped = timers.cancel(&timer);
    }),
    ("cancelled while it runs", |timers, callback| {
        let hand = Hand::default();
        let (inner, own) = (timers.clone(), Arc::new(Mutex::new(None)));
        let known = Arc::clone(&own);
        let timer = callback.running(timers, &hand, move || {
            let own = known.lock().unwrap().expect("added");
            assert_eq!(inner.cancel(&own), Cancel::Running);
        });
        *own.lock().unwrap() = Some(timer);
        pass(timers, 1);
        hand.run_all();
    }),
    ("closed while it runs", |timers, callback| {
        let (hand, inner) = (Hand::default(), timers.clone());
        callback.running(timers, &hand, move || ignore(inner.close()));
        pass(timers, 1);
        hand.run_all();
    }),
    ("it ends by itself", |timers, callback| {
        let hand = Hand::default();
        callback.running(timers, &hand, || ());
        pass(timers, 1);
        hand.run_all();
    }),
    // A one-shot callback that panics drops its captures while it unwinds; a second panic
    // would end the process then, as in any program.
    ("it panics", |timers, callback| {
        let hand = Hand::default();
        if callback.kind == Kind::Periodic {
            callback.running(timers, &hand, || panic!("on purpose, in a callback"));
        } else {
            callback.running(timers, &hand, || ());
        }
        pass(timers, 1);
        hand.run_all();
    }),
];

/// A callback with a capture whose drop is hostile.
struct Callback {
    held: Box<dyn Send>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In the timer's record.
    Small,
    /// Too large for a record, and small enough for the memory that a shard uses again.
    Large,
    Periodic,
}

/// What a callback in a record may capture, and one in a shard's memory (see the timers' README).
const RECORD_BYTES: usize = 16;
const SHARD_BYTES: usize = Task::INLINE_BYTES;

impl Callback {
    fn add<E: Executor + Clone + 'static>(self, timers: &Timers, executor: &E) -> TimerHandle {
        self.running(timers, executor, || ())
    }

    /// Adds a timer that calls `run` in a second, for the last time.
    fn running<E: Executor + Clone + 'static>(
        self,
        timers: &Timers,
        executor: &E,
        run: impl FnMut() + Send + 'static,
    ) -> TimerHandle {
        let Self { held, kind } = self;
        // One word, however much `run` captures.
        let both = Box::new((held, run));
        let timer = timers.timer().label("own").owner(7).after(SECOND);
        let timer = timer.on(executor);
        let added = match kind {
            Kind::Small => {
                let callback = calls(both);
                assert!(size_of_val(&callback) <= RECORD_BYTES);
                timer.run(callback)
            }
            Kind::Large => {
                let (room, call) = ([7_u8; 32], calls(both));
                let callback = move || {
                    let _room = &room;
                    call();
                };
                let bytes = size_of_val(&callback);
                assert!(bytes > RECORD_BYTES && bytes <= SHARD_BYTES, "{bytes}");
                timer.run(callback)
            }
            Kind::Periodic => {
                let mut both = both;
                timer.run_with_next_delay(move || {
                    (both.1)();
                    Duration::ZERO
                })
            }
        };
        added.unwrap_or_else(|refused| {
            assert_eq!(refused, AddError::Closed);
            let never = timers.after(SECOND, &Hand::default(), || ());
            assert_eq!(timers.cancel(&never), Cancel::AlreadyRan);
            never
        })
    }
}

/// Calls what is in the box, and then drops it and what it is with.
fn calls<F: FnMut() + Send + 'static>(mut both: Box<(Box<dyn Send>, F)>) -> impl FnOnce() + Send {
    move || (both.1)()
}

#[test]
fn a_capture_may_do_anything_when_it_is_dropped() {
    for &(way_name, way) in WAYS {
        for &(deed_name, deed) in DEEDS {
            for kind in [Kind::Small, Kind::Large, Kind::Periodic] {
                let name: &'static str = format!("{way_name}: {deed_name}").leak();
                watched(name, || drop_by(way, deed, kind, name));
            }
        }
    }
}

fn drop_by(way: Way, deed: Deed, kind: Kind, name: &str) {
    let timers = one_shard();
    let other = timers.after(3600 * SECOND, &Hand::default(), || ());
    let (inner, count) = (timers.clone(), Arc::new(AtomicUsize::new(0)));
    let dropped = Arc::clone(&count);
    let held = OnDrop(move || {
        dropped.fetch_add(1, Ordering::Relaxed);
        deed(&inner, &other);
    });
    let held = Box::new(held);
    way(&timers, Callback { held, kind });
    assert_eq!(count.load(Ordering::Relaxed), 1, "{name}: dropped once");
    let _cleared = timers.cancel_label("");
    if timers.try_sleep(Duration::ZERO).is_ok() {
        assert_works(&timers);
    }
}

#[test]
fn panics_in_drops_are_counted() {
    let timers = one_shard();
    let bomb = || OnDrop(|| panic!("on purpose, in a drop"));
    for _ in 0..3 {
        let held = bomb();
        let timer = timers.after(SECOND, &Hand::default(), move || drop(held));
        assert_eq!(timers.cancel(&timer), Cancel::Prevented);
    }
    assert_eq!(timers.stats().panicked, 3);
    assert_eq!(timers.stats().cancelled, 3);
}

/// Two panics in one unwinding would end the process.
#[test]
fn the_last_handle_drops_all_that_waits_one_by_one() {
    #[derive(Clone)]
    struct Bomb(#[allow(dead_code)] Arc<OnDrop<fn()>>);
    impl Executor for Bomb {
        fn execute(&self, _task: Task) -> Result<(), Rejected> {
            Ok(())
        }
    }
    watched("the last handle with many bombs", || {
        let timers = one_shard();
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let dropped = Arc::clone(&count);
            let held = OnDrop(move || {
                dropped.fetch_add(1, Ordering::Relaxed);
                panic!("on purpose, in a drop");
            });
            let bomb = Bomb(Arc::new(OnDrop(|| {
                panic!("on purpose, in an executor's drop")
            })));
            timers.after(SECOND, &bomb, move || drop(held));
        }
        drop(timers);
        assert_eq!(count.load(Ordering::Relaxed), 100);
    });
}

/// No lock of the timers is held when a displaced delivery is dropped.
#[test]
fn a_displaced_delivery_may_drop_a_sleep_of_its_own_shard() {
    watched("a displaced delivery", || {
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let lane = pool
            .serializer("lane")
            .capacity(1)
            .overflow(Overflow::DropOldest);
        let lane = lane.build().unwrap();
        let timers = one_shard();
        let (begun, may_end) = (mpsc::channel(), mpsc::channel::<()>());
        lane.push(move || {
            begun.0.send(()).unwrap();
            may_end.1.recv().unwrap();
        })
        .unwrap();
        begun.1.recv().unwrap();
        for _ in 0..3 {
            let sleep = polled_sleep(&timers);
            timers.after(SECOND, &lane, move || drop(sleep));
        }
        pass(&timers, 1);
        assert_eq!(timers.stats().lost, 2);
        may_end.0.send(()).unwrap();
        assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
        assert_works(&timers);
    });
}

#[test]
fn a_delivery_that_a_shutdown_drops_may_drop_a_sleep_of_its_own_shard() {
    watched("a delivery that a shutdown drops", || {
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let timers = one_shard();
        let (begun, may_end) = (mpsc::channel(), mpsc::channel::<()>());
        let held = may_end.0.clone();
        pool.push(move || {
            begun.0.send(()).unwrap();
            may_end.1.recv().unwrap();
        })
        .unwrap();
        begun.1.recv().unwrap();
        let sleep = polled_sleep(&timers);
        timers.after(SECOND, &pool, move || drop(sleep));
        pass(&timers, 1);
        let report = pool.shutdown(Duration::ZERO);
        assert_eq!(report.not_run, 1);
        assert_eq!(timers.stats().lost, 1);
        held.send(()).unwrap();
        assert_works(&timers);
    });
}

fn polled_sleep(timers: &Timers) -> busyhour::timer::Sleep {
    let mut sleep = timers.sleep(3600 * SECOND);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep
}

/// A capture whose drop takes a while: it reports when the drop begins, and when it
/// is over.
fn slow_drop() -> (
    OnDrop<impl FnMut() + Send>,
    mpsc::Receiver<()>,
    Arc<AtomicBool>,
) {
    let ((begun, begins), over) = (mpsc::channel(), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&over);
    let slow = OnDrop(move || {
        begun.send(()).expect("the test waits");
        // Long enough that the test notices a wait that ends too early.
        thread::sleep(Duration::from_millis(50));
        done.store(true, Ordering::Release);
    });
    (slow, begins, over)
}

#[test]
fn after_a_wait_for_a_periodic_timer_its_captures_are_dropped() {
    watched("a periodic timer with a slow drop", || {
        let (timers, hand) = (one_shard(), Hand::default());
        let (held, begins, dropped) = slow_drop();
        let (inner, own) = (timers.clone(), Arc::new(Mutex::new(None::<TimerHandle>)));
        let known = Arc::clone(&own);
        let timer = timers.every(SECOND, &hand, move || {
            let _held = &held;
            let own = known.lock().unwrap().expect("added");
            assert_eq!(inner.cancel(&own), Cancel::Running);
        });
        *own.lock().unwrap() = Some(timer);
        pass(&timers, 1);
        thread::scope(|scope| {
            scope.spawn(|| hand.run_all());
            begins.recv().unwrap();
            assert_eq!(timers.cancel_and_wait(&timer), Cancel::AlreadyRan);
            assert!(
                dropped.load(Ordering::Acquire),
                "the call waited for the drop"
            );
        });
    });
}

#[test]
fn after_a_wait_for_a_lost_timer_its_captures_are_dropped() {
    for executor in [
        Loser::Drops,
        Loser::Panics,
        Loser::Rejects(Reason::ShutDown),
    ] {
        watched("a lost timer with a slow drop", || {
            let timers = one_shard();
            let (held, begins, dropped) = slow_drop();
            let timer = timers.after(SECOND, &executor, move || drop(held));
            thread::scope(|scope| {
                scope.spawn(|| pass(&timers, 1));
                begins.recv().unwrap();
                assert_eq!(timers.cancel_and_wait(&timer), Cancel::AlreadyRan);
                assert!(
                    dropped.load(Ordering::Acquire),
                    "the call waited for the drop"
                );
            });
        });
    }
}
