use crate::{
    bombs::{Sleep, bomb, pool, receive, until, waker_that_panics, works},
    watchdog::watched,
};
use busyhour::{
    clock::{Clock, UnixTime},
    pool::{JoinError, JoinHandle, TaskPool},
    run_queue::Class,
    serializer::Serializer,
};
use std::{
    future::{self, Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The three ways to run a future.
#[derive(Debug, Clone, Copy)]
enum Way {
    Plain,
    Class,
    Serializer,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Class, Way::Serializer];

fn spawn<F>(way: Way, pool: &TaskPool, serializer: &Serializer, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match way {
        Way::Plain => pool.spawn(future),
        Way::Class => pool.spawn_as(Class::default(), future),
        Way::Serializer => serializer.spawn(future),
    }
}

/// Runs `case` for each way, on one worker, which must survive it.
fn each_way(name: &'static str, panics: u64, case: impl Fn(Way, &TaskPool, &Serializer)) {
    for way in WAYS {
        watched(name, || {
            let pool = pool(1);
            let serializer = pool.serializer("s").build().expect("a serializer");
            case(way, &pool, &serializer);
            until(|| pool.stats().panicked >= panics);
            works(&pool, 1);
            assert_eq!(pool.stats().panicked, panics, "{name}, {way:?}");
        });
    }
}

#[test]
fn an_output_that_panics_when_it_is_dropped_ends_no_worker() {
    each_way(
        "the output of a dropped handle panics",
        1,
        |way, pool, serializer| {
            let (release, held) = mpsc::channel::<()>();
            let task = async move {
                let _ = held.recv();
                bomb()
            };
            drop(spawn(way, pool, serializer, task));
            drop(release);
        },
    );
}

#[test]
fn a_future_that_panics_in_poll_and_in_drop_aborts_nothing() {
    each_way(
        "a poll and then a drop panic",
        2,
        |way, pool, serializer| {
            let bomb = bomb();
            let panics = poll_fn(move |_| -> Poll<()> {
                let _held = &bomb;
                panic!("on purpose, in a poll")
            });
            let handle = spawn(way, pool, serializer, panics);
            assert!(handle.wait().unwrap_err().is_panic());
        },
    );
}

#[test]
fn a_future_without_a_waker_may_panic_in_its_drop() {
    each_way(
        "a future is dropped because nobody can wake it",
        1,
        |way, pool, serializer| {
            let bomb = bomb();
            let never = async move {
                let _held = bomb;
                future::pending::<()>().await;
            };
            let handle = spawn(way, pool, serializer, never);
            assert_eq!(handle.wait(), Err(JoinError::Dropped));
        },
    );
}

#[test]
fn an_aborted_future_may_panic_in_its_drop() {
    each_way(
        "an aborted future panics in its drop",
        1,
        |way, pool, serializer| {
            let (bomb, sleep) = (bomb(), Sleep::default());
            let inner = sleep.clone();
            let sleeps = async move {
                let _held = bomb;
                inner.sleep().await;
            };
            let handle = spawn(way, pool, serializer, sleeps);
            let _keeps_it = sleep.await_waker();
            handle.abort();
            assert_eq!(handle.wait(), Err(JoinError::Aborted));
        },
    );
}

#[test]
fn a_ready_future_may_panic_in_its_drop_and_still_has_its_output() {
    each_way(
        "a ready future panics in its drop",
        1,
        |way, pool, serializer| {
            let bomb = bomb();
            let ready = poll_fn(move |_| {
                let _held = &bomb;
                Poll::Ready(7)
            });
            assert_eq!(spawn(way, pool, serializer, ready).wait(), Ok(7));
        },
    );
}

#[test]
fn a_waker_that_waits_for_a_future_may_panic() {
    each_way(
        "the waker of a handle panics",
        1,
        |way, pool, serializer| {
            let (release, held) = mpsc::channel::<()>();
            let task = async move {
                let _ = held.recv();
            };
            let mut handle = spawn(way, pool, serializer, task);
            let waker = waker_that_panics();
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(release);
            until(|| handle.is_finished());
            assert_eq!(handle.wait(), Ok(()));
        },
    );
}

#[test]
fn an_output_is_returned_once() {
    each_way(
        "a handle is used after its end",
        0,
        |way, pool, serializer| {
            let mut handle = spawn(way, pool, serializer, async { 7 });
            until(|| handle.is_finished());
            let mut context = Context::from_waker(Waker::noop());
            assert_eq!(Pin::new(&mut handle).poll(&mut context), Poll::Ready(Ok(7)));
            let again = Pin::new(&mut handle).poll(&mut context);
            assert_eq!(again, Poll::Ready(Err(JoinError::Taken)));
            assert_eq!(handle.wait(), Err(JoinError::Taken));
        },
    );
}

#[test]
fn a_futures_captures_are_dropped_before_its_waiters_are_woken() {
    each_way(
        "captures outlive their future",
        0,
        |way, pool, serializer| {
            let (held, gone) = mpsc::channel::<()>();
            let ready = poll_fn(move |_| {
                let _held = &held;
                Poll::Ready(())
            });
            assert_eq!(spawn(way, pool, serializer, ready).wait(), Ok(()));
            assert_eq!(gone.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        },
    );
}

/// A future that sleeps, its handle, and its waker.
fn asleep(way: Way, pool: &TaskPool) -> (JoinHandle<()>, Waker) {
    let sleep = Sleep::default();
    let serializer = pool.ephemeral();
    let handle = spawn(way, pool, &serializer, sleep.clone().sleep());
    (handle, sleep.await_waker())
}

#[test]
fn a_sleeping_future_ends_with_its_pool_if_it_is_woken() {
    for way in [Way::Plain, Way::Class] {
        watched("a future is woken after the last handle is gone", || {
            let pool = pool(2);
            let (handle, waker) = asleep(way, &pool);
            drop(pool);
            waker.wake();
            assert_eq!(handle.wait(), Err(JoinError::Dropped), "{way:?}");
        });
    }
}

#[test]
fn a_sleeping_future_ends_with_its_pool_if_nothing_wakes_it() {
    for way in [Way::Plain, Way::Class] {
        watched(
            "a handle waits for a future that sleeps while its pool ends",
            || {
                let pool = pool(2);
                let (handle, _never_woken) = asleep(way, &pool);
                let waiting = std::thread::spawn(move || handle.wait());
                drop(pool);
                let outcome = waiting.join().expect("the thread that waits");
                assert_eq!(outcome, Err(JoinError::Dropped), "{way:?}");
            },
        );
    }
    for way in WAYS {
        watched(
            "a handle waits for a future that sleeps through a shutdown",
            || {
                let pool = pool(2);
                let (handle, _never_woken) = asleep(way, &pool);
                let (late, _never_woken) = asleep(way, &pool);
                let waiting = std::thread::spawn(move || handle.wait());
                let report = pool.shutdown(Duration::from_secs(60));
                assert!(report.is_clean(), "{report:?}");
                let outcome = waiting.join().expect("the thread that waits");
                assert_eq!(outcome, Err(JoinError::Dropped), "{way:?}");
                assert_eq!(late.wait(), Err(JoinError::Dropped), "{way:?}");
            },
        );
    }
}

#[test]
fn an_async_wait_ends_with_the_pool() {
    watched(
        "a future of one pool awaits one that sleeps in another",
        || {
            let (ending, going_on) = (pool(1), pool(1));
            let (handle, _never_woken) = asleep(Way::Class, &ending);
            let waiting = going_on.spawn(handle);
            drop(ending);
            assert_eq!(waiting.wait(), Ok(Err(JoinError::Dropped)));
        },
    );
}

#[test]
fn a_worker_that_waits_for_a_future_has_a_stand_in() {
    watched("the only worker waits for a future of its pool", || {
        let pool = pool(1);
        let inner = pool.clone();
        let outcome = pool.push_wait(move || inner.spawn(async { 7 }).wait());
        assert_eq!(outcome, Ok(Ok(7)));
    });
}

#[test]
fn a_wait_for_a_future_of_ones_own_serializer_is_refused() {
    watched("a serializer waits for its own future", || {
        let pool = pool(2);
        let s = pool.serializer("s").build().expect("a serializer");
        let inner = s.clone();
        let outcome = s.push_wait(move || inner.spawn(async {}).wait());
        match outcome {
            Ok(Err(JoinError::Deadlock(cycle))) => assert_eq!(cycle.names(), ["s"]),
            other => panic!("no deadlock: {other:?}"),
        }
        works(&pool, 2);
    });
}

#[test]
fn a_future_of_a_simulation_is_stepped_by_the_thread_that_waits() {
    watched("a handle waits in a simulation", || {
        let pool = TaskPool::simulated(7, Clock::simulated(UnixTime::from_secs(0)));
        assert_eq!(pool.spawn(async { 7 }).wait(), Ok(7));
        let sleep = Sleep::default();
        let handle = pool.spawn(sleep.clone().sleep());
        assert_eq!(handle.wait(), Err(JoinError::Stalled));
    });
}

#[test]
fn a_payload_that_panics_ends_no_worker() {
    each_way(
        "nobody takes a panic's payload",
        2,
        |way, pool, serializer| {
            let (release, held) = mpsc::channel::<()>();
            let panics = async move {
                let _ = held.recv();
                std::panic::panic_any(bomb())
            };
            drop::<JoinHandle<()>>(spawn(way, pool, serializer, panics));
            drop(release);
        },
    );
    each_way(
        "a handle is dropped with the payload in it",
        1,
        |way, pool, serializer| {
            let panics = async move { std::panic::panic_any(bomb()) };
            let handle: JoinHandle<()> = spawn(way, pool, serializer, panics);
            until(|| handle.is_finished());
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(handle)));
            assert!(dropped.is_err(), "the payload is dropped on this thread");
        },
    );
    each_way(
        "a panic's payload panics when it is dropped",
        1,
        |way, pool, serializer| {
            let (sent, received) = mpsc::channel();
            let panics = async move {
                sent.send(()).expect("the test waits");
                std::panic::panic_any(bomb());
            };
            let handle = spawn(way, pool, serializer, panics);
            receive(&received);
            let payload = handle.wait().unwrap_err().into_panic();
            std::mem::forget(payload);
        },
    );
}
