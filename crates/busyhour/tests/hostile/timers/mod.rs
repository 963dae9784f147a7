//! The timer service and hostile user code: callbacks, wakers, executors, the hook of
//! `on_earlier_deadline`, and drops.

mod drops;
mod executors;
mod labels;
mod queue;
mod waiting;
mod wakers;

use crate::watchdog::watched;
use busyhour::{
    clock::{Clock, Instant, UnixTime},
    runtime::Runtime,
    task::{Executor, Rejected, Task},
    timer::{Cancel, TimerHandle, Timers},
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

/// A queue that the test empties by hand; it catches panics as a pool does.
#[derive(Clone, Default)]
struct Hand(Arc<Mutex<VecDeque<Task>>>);

impl Executor for Hand {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.0.lock().unwrap().push_back(task);
        Ok(())
    }
}

impl Hand {
    fn take(&self) -> Option<Task> {
        self.0.lock().unwrap().pop_front()
    }

    fn run_all(&self) {
        while let Some(task) = self.take() {
            let _panicked = catch_unwind(AssertUnwindSafe(|| task.run()));
        }
    }
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Drops a value whose result does not matter.
fn ignore<T>(_value: T) {}

/// A service in virtual time with one shard, so that all timers share a lock.
fn one_shard() -> Timers {
    let clock = Clock::simulated(UnixTime::default());
    Timers::builder().clock(clock).shards(1).build()
}

/// Advances the time by `seconds` and runs the timers that are due.
fn pass(timers: &Timers, seconds: u64) -> usize {
    let clock = timers.clock();
    let controls = clock.as_virtual().expect("virtual time");
    controls.advance(Duration::from_secs(seconds));
    timers.run_due(clock.now())
}

/// Adds a timer, advances the time, and checks that the timer runs once.
fn assert_works(timers: &Timers) {
    let (hand, ran) = (Hand::default(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ran);
    timers.after(Duration::from_secs(1), &hand, move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    pass(timers, 1);
    hand.run_all();
    assert_eq!(ran.load(Ordering::Relaxed), 1, "a later timer runs");
}

#[test]
fn a_callback_that_panics_leaves_the_timers_working() {
    watched("a callback that panics", || {
        let runtime = Runtime::builder().workers(1).build().expect("a runtime");
        let serializer = runtime.serializer("timers").build().expect("a serializer");
        let timers = runtime.timers();
        timers.after(Duration::ZERO, &serializer, || panic!("on purpose"));
        let (fired, waiting) = mpsc::channel();
        let fired = Arc::new(fired);
        timers.after(Duration::from_millis(1), &serializer, move || {
            fired.send(()).expect("the test waits");
        });
        waiting.recv().expect("the second timer fires");
        assert_eq!(runtime.stats().pool.panicked, 1);
    });
}

/// What a callback may do to its own service while it runs, with every method.
#[test]
fn a_callback_may_call_everything() {
    type Call = fn(&Timers, &TimerHandle);
    let calls: &[(&'static str, Call)] = &[
        ("cancel", |timers, own| ignore(timers.cancel(own))),
        ("cancel and wait", |timers, own| {
            assert_eq!(timers.cancel_and_wait(own), Cancel::Running);
        }),
        ("reschedule", |timers, own| {
            assert!(!timers.reschedule(own, Instant::ZERO));
        }),
        ("time left", |timers, own| {
            assert_eq!(timers.time_left(own), None)
        }),
        ("clear owner", |timers, _| {
            assert_eq!(timers.cancel_owner(7), 0)
        }),
        ("clear label", |timers, _| {
            assert_eq!(timers.cancel_label("own"), 0)
        }),
        ("close", |timers, _| assert_eq!(timers.close(), 0)),
        ("next wait", |timers, _| ignore(timers.next_wait())),
        ("run due", |timers, _| {
            ignore(timers.run_due(timers.clock().now()))
        }),
        ("on earlier", |timers, _| {
            ignore(timers.on_earlier_deadline(|| ()))
        }),
        ("stats", |timers, _| ignore(timers.stats())),
        ("driver", |timers, _| {
            assert!(timers.spawn_driver().is_err())
        }),
        ("panic", |_, _| panic!("on purpose")),
    ];
    for &(name, call) in calls {
        for periodic in [false, true] {
            watched(name, || call_inside(call, periodic));
        }
    }
}

fn call_inside(call: fn(&Timers, &TimerHandle), periodic: bool) {
    let (timers, hand) = (one_shard(), Hand::default());
    let own = Arc::new(Mutex::new(None));
    let (inner, known) = (timers.clone(), Arc::clone(&own));
    let callback = move || call(&inner, &known.lock().unwrap().expect("added"));
    let timer = timers.timer().owner(7).label("own").on(&hand);
    let timer = match periodic {
        true => timer.run_every(Duration::from_secs(1), callback),
        false => timer.after(Duration::from_secs(1)).run(callback),
    };
    *own.lock().unwrap() = Some(timer.expect("room"));
    assert_eq!(pass(&timers, 1), 1);
    hand.run_all();
    let _outcome = timers.cancel_and_wait(&timer.expect("room"));
    assert_eq!(timers.stats().pending_count, 0);
    if timers.try_sleep(Duration::ZERO).is_ok() {
        assert_works(&timers);
    }
}
