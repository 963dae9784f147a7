//! Schedules of a whole pool with a serializer: every accepted task runs once,
//! one at a time and in order, or is reported as lost.

use super::Serializer;
use crate::{
    pool::{JoinError, JoinHandle, ShutdownReport, TaskPool, WaitError},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        lock,
        scheduled::explore,
        thread,
    },
};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

/// What the tasks of one serializer record.
#[derive(Default)]
struct Trace {
    is_inside: AtomicBool,
    /// One more than the number of the last task that ran, for each pusher.
    next: [AtomicU64; 2],
    ran: AtomicU64,
}

impl Trace {
    fn run(&self, pusher: usize, number: u64) {
        assert!(!self.is_inside.swap(true, Ordering::SeqCst), "two at once");
        let next = self.next[pusher].load(Ordering::SeqCst);
        assert!(number >= next, "task {number} after {next}");
        self.next[pusher].store(number + 1, Ordering::SeqCst);
        self.ran.fetch_add(1, Ordering::SeqCst);
        self.is_inside.store(false, Ordering::SeqCst);
    }
}

/// Pushes `count` tasks; returns how many were accepted.
fn push(serializer: &Serializer, trace: &Arc<Trace>, pusher: usize, count: u64) -> u64 {
    let accepted = (0..count).filter(|&number| {
        let trace = Arc::clone(trace);
        serializer.push(move || trace.run(pusher, number)).is_ok()
    });
    accepted.count() as u64
}

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

/// Every one of `accepted` tasks has run, or the report counts it.
fn assert_none_vanished(accepted: u64, trace: &Trace, report: &ShutdownReport) {
    let ran = trace.ran.load(Ordering::SeqCst);
    assert_eq!(accepted, ran + report.not_run, "{report:?}");
}

/// Two threads push while two workers run tasks; then the pool is shut down.
#[test]
fn shuttle_tasks_of_a_serializer_run_in_order_and_one_at_a_time() {
    explore(2_000, || {
        let pool = pool(2);
        let serializer = pool.serializer("model").build().unwrap();
        let trace = Arc::new(Trace::default());
        let other = {
            let (serializer, trace) = (serializer.clone(), Arc::clone(&trace));
            thread::spawn(move || push(&serializer, &trace, 1, 2))
        };
        let accepted = push(&serializer, &trace, 0, 2) + other.join().unwrap();
        assert_eq!(accepted, 4);
        let report = pool.shutdown(Duration::MAX);
        assert_none_vanished(accepted, &trace, &report);
        assert!(report.is_clean(), "{report:?}");
    });
}

/// The result of a push during a shutdown is right: the task runs, or is
/// counted as not run.
#[test]
fn shuttle_a_push_meets_a_shutdown() {
    explore(2_000, || {
        let pool = pool(2);
        let serializer = pool.serializer("model").build().unwrap();
        let trace = Arc::new(Trace::default());
        let pusher = {
            let (serializer, trace) = (serializer.clone(), Arc::clone(&trace));
            thread::spawn(move || push(&serializer, &trace, 1, 3))
        };
        let early = push(&serializer, &trace, 0, 1);
        let report = pool.shutdown(Duration::MAX);
        let ran_by_then = trace.ran.load(Ordering::SeqCst);
        let accepted = early + pusher.join().unwrap();
        let ran = trace.ran.load(Ordering::SeqCst);
        assert_eq!(ran, ran_by_then, "a task ran after the shutdown");
        assert_none_vanished(accepted, &trace, &report);
    });
}

/// A task that pushes to another serializer, and a plain task beside it, end
/// before the pool does.
#[test]
fn shuttle_a_shutdown_waits_for_what_tasks_push() {
    explore(2_000, || {
        let pool = pool(2);
        let [first, second] =
            ["first", "second"].map(|name| pool.serializer(name).build().unwrap());
        let (trace, beside) = (Arc::new(Trace::default()), Arc::new(Trace::default()));
        let (inner, plain) = (Arc::clone(&trace), Arc::clone(&beside));
        let target = second.clone();
        let hands_on = move || {
            assert_eq!(push(&target, &inner, 0, 2), 2, "refused in a turn");
        };
        first.push(hands_on).unwrap();
        pool.push(move || plain.run(1, 0)).unwrap();
        let report = pool.shutdown(Duration::MAX);
        assert!(report.is_clean(), "{report:?}");
        let [inner, plain] = [trace, beside].map(|trace| trace.ran.load(Ordering::SeqCst));
        assert_eq!((inner, plain), (2, 1));
    });
}

/// Here the last handle is dropped instead: accepted tasks run, and the workers
/// end, or this test would never end.
#[test]
fn shuttle_workers_end_after_the_last_handle() {
    explore(2_000, || {
        let trace = Arc::new(Trace::default());
        let pool = pool(2);
        let serializer = pool.serializer("model").build().unwrap();
        assert_eq!(push(&serializer, &trace, 0, 2), 2);
        let held = Held(Arc::clone(&trace));
        pool.push(move || drop(held)).unwrap();
        drop((serializer, pool));
        while Arc::strong_count(&trace) > 1 {
            thread::yield_now();
        }
        assert_eq!(trace.ran.load(Ordering::SeqCst), 2);
    });
}

/// Captured by a task, to detect when it is dropped.
struct Held(#[expect(dead_code, reason = "held for its drop")] Arc<Trace>);

/// A thread that waits for the result of a task is woken by its end, or by the
/// end of the pool that dropped it.
#[test]
fn shuttle_a_thread_that_waits_for_a_task_is_woken() {
    explore(2_000, || {
        let pool = pool(1);
        let serializer = pool.serializer("model").build().unwrap();
        let waiter = {
            let serializer = serializer.clone();
            thread::spawn(move || serializer.push_wait(|| 7))
        };
        let report = pool.shutdown(Duration::MAX);
        match waiter.join().unwrap() {
            Ok(seven) => assert_eq!(seven, 7),
            Err(WaitError::Push(_)) => assert!(report.is_clean(), "{report:?}"),
            Err(WaitError::Dropped) => assert_eq!(report.not_run, 1, "{report:?}"),
            Err(other) => panic!("{other:?}"),
        }
    });
}

/// A future that is ready once it was released, by any thread.
#[derive(Default)]
struct Gate(Mutex<(bool, Option<Waker>)>);

impl Gate {
    fn release(&self) {
        let waker = {
            let mut gate = lock(&self.0);
            gate.0 = true;
            gate.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn released(self: Arc<Self>) {
        let released = poll_fn(|context| {
            let mut gate = lock(&self.0);
            gate.1 = Some(context.waker().clone());
            match gate.0 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        released.await;
    }
}

/// A section that waits for its gate, and records that it runs meanwhile.
fn section(serializer: &Serializer, trace: &Arc<Trace>, gate: &Arc<Gate>) -> JoinHandle<()> {
    let (trace, gate) = (Arc::clone(trace), Arc::clone(gate));
    let section = serializer.spawn_exclusive(async move {
        let _inside = Inside::begin(&trace);
        gate.released().await;
    });
    section.unwrap()
}

/// While this lives, no task of the trace may run.
struct Inside<'a>(&'a Trace);

impl<'a> Inside<'a> {
    fn begin(trace: &'a Trace) -> Self {
        assert!(!trace.is_inside.swap(true, Ordering::SeqCst), "two at once");
        Self(trace)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_inside.store(false, Ordering::SeqCst);
    }
}

/// A section's wake meets pushes behind it: they run after its end, all of them.
#[test]
fn shuttle_a_wake_of_a_section_meets_pushes() {
    explore(4_000, || {
        let pool = pool(2);
        let serializer = pool.ephemeral();
        let (trace, gate) = (Arc::new(Trace::default()), Arc::new(Gate::default()));
        let handle = section(&serializer, &trace, &gate);
        let waker = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.release())
        };
        assert_eq!(push(&serializer, &trace, 0, 2), 2);
        waker.join().unwrap();
        assert_eq!(handle.wait(), Ok(()));
        let report = pool.shutdown(Duration::MAX);
        assert_none_vanished(2, &trace, &report);
        assert!(report.is_clean(), "{report:?}");
    });
}

/// An abort meets the wake of the section: what waits behind it runs.
#[test]
fn shuttle_an_abort_of_a_section_meets_its_wake() {
    explore(4_000, || {
        let pool = pool(2);
        let serializer = pool.ephemeral();
        let (trace, gate) = (Arc::new(Trace::default()), Arc::new(Gate::default()));
        let handle = section(&serializer, &trace, &gate);
        assert_eq!(push(&serializer, &trace, 0, 1), 1);
        let waker = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.release())
        };
        handle.abort();
        waker.join().unwrap();
        let result = handle.wait();
        assert!(
            matches!(result, Ok(()) | Err(JoinError::Aborted)),
            "{result:?}"
        );
        assert_eq!(serializer.push_wait(|| 7), Ok(7));
        assert!(pool.shutdown(Duration::MAX).is_clean());
        assert_eq!(trace.ran.load(Ordering::SeqCst), 1);
    });
}

/// A shutdown without a deadline waits for the section's wake; each accepted
/// task runs.
#[test]
fn shuttle_a_shutdown_meets_the_wake_of_a_section() {
    explore(2_000, || {
        let pool = pool(1);
        let serializer = pool.ephemeral();
        let (trace, gate) = (Arc::new(Trace::default()), Arc::new(Gate::default()));
        let handle = section(&serializer, &trace, &gate);
        assert_eq!(push(&serializer, &trace, 0, 1), 1);
        let waker = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.release())
        };
        let report = pool.shutdown(Duration::MAX);
        assert!(report.is_clean(), "{report:?}");
        waker.join().unwrap();
        assert_eq!(handle.wait(), Ok(()));
        assert_none_vanished(1, &trace, &report);
    });
}

/// A shutdown whose deadline has passed meets the wake of a section: it ends the
/// future, and what waits is run or reported.
#[test]
fn shuttle_a_sealed_pool_ends_a_section() {
    explore(2_000, || {
        let pool = pool(1);
        let serializer = pool.ephemeral();
        let (trace, gate) = (Arc::new(Trace::default()), Arc::new(Gate::default()));
        let handle = section(&serializer, &trace, &gate);
        assert_eq!(push(&serializer, &trace, 0, 1), 1);
        let waker = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.release())
        };
        let report = pool.shutdown(Duration::ZERO);
        waker.join().unwrap();
        let result = handle.wait();
        assert!(
            matches!(result, Ok(()) | Err(JoinError::Dropped)),
            "{result:?}"
        );
        // The task behind it has run, runs now, or is reported.
        let ran = trace.ran.load(Ordering::SeqCst);
        let known = ran + report.not_run + report.unfinished_workers;
        assert!(known >= 1, "{ran} and {report:?}");
    });
}

/// Two futures push through one place, and a third one gives up: nobody waits
/// for ever, and no place is lost.
#[test]
fn shuttle_futures_that_wait_for_room_get_it_in_turn() {
    explore(4_000, || {
        let pool = pool(2);
        let serializer = pool.serializer("model").capacity(1).build().unwrap();
        let trace = Arc::new(Trace::default());
        let pushers = [0, 1].map(|pusher| {
            let (serializer, trace) = (serializer.clone(), Arc::clone(&trace));
            pool.spawn(async move {
                for number in 0..2 {
                    let trace = Arc::clone(&trace);
                    let task = move || trace.run(pusher, number);
                    serializer.push_async(task).await.unwrap();
                }
            })
        });
        let gives_up = {
            let serializer = serializer.clone();
            pool.spawn(async move { drop(serializer.reserve().await) })
        };
        gives_up.abort();
        for pusher in pushers {
            assert_eq!(pusher.wait(), Ok(()));
        }
        assert!(pool.shutdown(Duration::MAX).is_clean());
        assert_eq!(trace.ran.load(Ordering::SeqCst), 4);
        assert!(serializer.stats().queued_high_water <= 1);
    });
}
