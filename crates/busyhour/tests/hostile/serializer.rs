use crate::{
    bombs::{OnDrop, bomb, pool, receive, until, works},
    watchdog::watched,
};
use busyhour::{
    clock::{Clock, UnixTime},
    pool::{JoinError, PushError, ShutdownReport, TaskPool, WaitError},
    serializer::Serializer,
    task::Overflow,
};
use std::{
    fs,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

fn names(outcome: Result<(), WaitError>) -> Vec<String> {
    match outcome {
        Err(WaitError::Deadlock(cycle)) => cycle.names().to_vec(),
        other => panic!("no deadlock: {other:?}"),
    }
}

#[test]
fn a_cycle_through_a_plain_task_is_refused() {
    watched("s waits for a plain task that waits for s", || {
        let pool = pool(2);
        let s = pool.serializer("s").build().expect("a serializer");
        let (inner_pool, inner_s) = (pool.clone(), s.clone());
        let outcome = s.push_wait(move || inner_pool.push_wait(move || inner_s.push_wait(|| ())));
        let innermost = outcome.expect("s ran").expect("the plain task has run");
        assert_eq!(names(innermost), ["s"]);
        works(&pool, 2);
    });
}

#[test]
fn a_cycle_through_two_pools_is_refused() {
    watched(
        "a of one pool waits for b of another, which waits for a",
        || {
            let (one, other) = (pool(1), pool(1));
            let a = one.serializer("a").build().expect("a serializer");
            let b = other.serializer("b").build().expect("a serializer");
            let inner_a = a.clone();
            let outcome = a.push_wait(move || b.push_wait(move || inner_a.push_wait(|| ())));
            let innermost = outcome.expect("a ran").expect("b ran");
            assert_eq!(names(innermost), ["b", "a"]);
            works(&one, 1);
            works(&other, 1);
        },
    );
}

#[test]
fn a_wait_for_another_pool_leaves_no_pool_without_a_worker() {
    watched(
        "a task waits for a pool whose task waits for the first pool",
        || {
            let (one, other) = (pool(1), pool(1));
            let (inner_one, inner_other) = (one.clone(), other.clone());
            let outcome =
                one.push_wait(move || inner_other.push_wait(move || inner_one.push_wait(|| 7)));
            assert_eq!(outcome, Ok(Ok(Ok(7))));
            works(&one, 1);
            works(&other, 1);
        },
    );
}

/// How long a thread of this process has used a processor, if it sleeps now.
fn processor_time_of_sleeper(thread: &str) -> Option<String> {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{thread}/{file}"));
    let status = read("status").expect("Linux");
    let sleeps = status.lines().any(|line| line.starts_with("State:\tS"));
    let schedule = read("schedstat").expect("Linux");
    sleeps.then(|| schedule.split_whitespace().next().map(str::to_owned))?
}

/// Whether the thread is asleep in a thousand checks and uses no processor between
/// them.
fn stays_asleep(thread: &str) -> bool {
    let first = processor_time_of_sleeper(thread);
    first.is_some() && (0..1_000).all(|_| processor_time_of_sleeper(thread) == first)
}

#[test]
#[cfg(target_os = "linux")]
fn a_producer_that_waits_for_room_sleeps() {
    watched("a producer outside of the pool waits for room", || {
        let pool = pool(1);
        let (release, held) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        pool.push(move || {
            begun.send(()).expect("the test waits");
            let _ = held.recv();
        })
        .expect("room");
        begins.recv().expect("it begins");
        let full = pool
            .serializer("full")
            .capacity(1)
            .overflow(Overflow::Block);
        let full = full.build().expect("a serializer");
        full.push(|| ()).expect("room");
        let (tells, told) = mpsc::channel();
        let producer = thread::spawn(move || {
            let own = fs::read_link("/proc/thread-self").expect("Linux");
            let number = own.file_name().expect("its number").to_owned();
            tells.send(number).expect("the test waits");
            full.push(|| ()).expect("there is room in the end");
        });
        let number = told.recv().expect("its number");
        let number = number.to_str().expect("digits");
        until(|| stays_asleep(number));
        drop(release);
        producer.join().expect("the producer");
        works(&pool, 1);
    });
}

#[test]
fn a_watermark_hook_may_panic_when_it_is_dropped() {
    watched("a task holds the last reference to its serializer", || {
        let pool = pool(1);
        let bomb = bomb();
        let marked = pool.serializer("marked").on_alert(0, 2, move |_| {
            let _held = &bomb;
        });
        let marked = marked.build().expect("a serializer");
        let (release, held) = mpsc::channel::<()>();
        marked
            .push(move || {
                held.recv().ok();
            })
            .expect("room");
        drop(marked);
        drop(release);
        until(|| pool.stats().panicked == 1);
        works(&pool, 1);
    });
}

#[test]
fn a_watermark_hook_may_do_anything() {
    watched("hooks push to their serializer, drop it and panic", || {
        let pool = pool(1);
        let place: Arc<OnceLock<Serializer>> = Arc::default();
        let (own, told) = (Arc::clone(&place), Arc::new(AtomicU64::new(0)));
        let counts = Arc::clone(&told);
        let marked = pool.serializer("marked").on_alert(0, 2, move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            own.wait().push(|| ()).expect("room");
            panic!("on purpose, in a hook");
        });
        let marked = marked.build().expect("a serializer");
        place.set(marked.clone()).expect("set once");
        let suspension = marked.suspend();
        (0..2).for_each(|_| marked.push(|| ()).expect("room"));
        drop(suspension);
        until(|| pool.stats().panicked >= 2 && told.load(Ordering::SeqCst) >= 2);
        works(&pool, 1);
        pool.shutdown(Duration::from_secs(60));
    });
}

#[test]
fn tasks_that_a_full_serializer_drops_may_do_anything() {
    for overflow in [Overflow::DropOldest, Overflow::Conflate] {
        watched(
            "a displaced task panics, pushes and waits in its drop",
            || {
                let pool = pool(1);
                let lossy = pool.serializer("lossy").capacity(1).overflow(overflow);
                let lossy = lossy.build().expect("a serializer");
                let suspension = lossy.suspend();
                let (inner, inner_pool) = (lossy.clone(), pool.clone());
                let capture = OnDrop(move || {
                    assert_eq!(inner_pool.push_wait(|| 7), Ok(7));
                    assert_eq!(inner.len(), 1);
                    panic!("on purpose, in a drop");
                });
                lossy.push_keyed(1, move || drop(capture)).expect("room");
                lossy
                    .push_keyed(1, || ())
                    .expect("the panic does not reach this thread");
                assert_eq!(pool.stats().panicked, 1);
                drop(suspension);
                until(|| lossy.is_idle());
                works(&pool, 1);
            },
        );
    }
}

/// A task of a serializer shuts the pool down, which waits for a task that waits for
/// that serializer.
#[test]
fn a_wait_for_a_task_that_shuts_the_pool_down_is_refused() {
    type Wait = fn(&Serializer) -> Vec<String>;
    let waits: [(&str, Wait); 3] = [
        ("push_wait", |s| names(s.push_wait(|| ()))),
        ("a future", |s| match s.spawn(async {}).wait() {
            Err(JoinError::Deadlock(cycle)) => cycle.names().to_vec(),
            other => panic!("no deadlock: {other:?}"),
        }),
        ("room", |s| {
            assert_eq!(s.push(|| ()), Ok(()));
            assert_eq!(s.push(|| ()), Err(PushError::Full));
            vec!["t".to_owned(), "s".to_owned()]
        }),
    ];
    for (name, wait) in waits {
        watched(format!("{name}, begun while the pool shuts down"), || {
            let (pool, s, t) = shut_down_by_s();
            let (outcomes, outcome) = mpsc::channel();
            let (inner, outside) = (s.clone(), pool.clone());
            let (begins, begun) = mpsc::channel();
            t.push(move || {
                begins.send(()).expect("the test waits");
                // The pool still accepts pushes of its own tasks.
                until(|| {
                    thread::scope(|scope| {
                        scope
                            .spawn(|| outside.push(|| ()))
                            .join()
                            .expect("no panic")
                    })
                    .is_err()
                });
                outcomes.send(wait(&inner)).expect("the test waits");
            })
            .expect("room");
            receive(&begun);
            let report = shut_down(&pool, &s, || true);
            assert_eq!(receive(&outcome), ["t", "s"]);
            let report = receive(&report);
            assert_eq!(report.unfinished_workers, 0);
        });
    }
    watched("push_wait, begun before the pool shuts down", || {
        let (pool, s, t) = shut_down_by_s();
        let (outcomes, outcome) = mpsc::channel();
        let inner = s.clone();
        let waited = s.clone();
        let report = shut_down(&pool, &s, move || waited.len() == 1);
        t.push(move || {
            outcomes
                .send(names(inner.push_wait(|| ())))
                .expect("the test waits")
        })
        .expect("room");
        assert_eq!(receive(&outcome), ["t", "s"]);
        let report = receive(&report);
        assert_eq!((report.unfinished_workers, report.not_run), (0, 1));
    });
}

/// The call that is waited for shuts the pool down: the caller has its result
/// after the shutdown, which does not wait for it.
#[test]
fn a_call_that_shuts_the_pool_down_is_waited_for() {
    watched("push_wait of a shutdown", || {
        let (pool, s, t) = shut_down_by_s();
        let (outcomes, outcome) = mpsc::channel();
        let (inner, closing) = (s.clone(), pool.clone());
        let suspension = s.suspend();
        t.push(move || {
            let shutdown = move || closing.shutdown(Duration::MAX).not_run;
            outcomes
                .send(inner.push_wait(shutdown))
                .expect("the test waits");
        })
        .expect("room");
        until(|| s.len() == 1);
        drop(suspension);
        assert_eq!(receive(&outcome), Ok(0));
    });
}

/// What an error says did not run never does, and is gone when the call returns.
#[test]
fn a_call_that_nothing_can_run_is_taken_back() {
    watched(
        "push_wait of a suspended serializer in a simulation",
        || {
            let pool = TaskPool::simulated(7, Clock::simulated(UnixTime::from_secs(0)));
            let s = pool.serializer("s").build().expect("a serializer");
            let suspension = s.suspend();
            let (ran, outer) = (Arc::new(AtomicU64::new(0)), pool.clone());
            let (captured, waits) = (Arc::clone(&ran), s.clone());
            let add = move || captured.fetch_add(1, Ordering::SeqCst);
            assert_eq!(s.push_wait(add.clone()), Err(WaitError::Stalled));
            // From inside of a task, too.
            let outcome = outer.push_wait(move || waits.push_wait(add));
            assert_eq!(outcome, Ok(Err(WaitError::Stalled)));
            assert_eq!(Arc::strong_count(&ran), 1);
            drop(suspension);
            while pool.step() {}
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            assert_eq!(s.push_wait(|| 7), Ok(7));
        },
    );
}

fn shut_down_by_s() -> (TaskPool, Serializer, Serializer) {
    let pool = pool(2);
    let s = pool.serializer("s").capacity(1).overflow(Overflow::Block);
    let s = s.build().expect("a serializer");
    let t = pool.serializer("t").build().expect("a serializer");
    (pool, s, t)
}

/// Makes a task of `s` shut the pool down, without a deadline, when it is `time`
/// to.
fn shut_down(
    pool: &TaskPool,
    s: &Serializer,
    time: impl Fn() -> bool + Send + 'static,
) -> mpsc::Receiver<ShutdownReport> {
    let (reports, report) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let inner = pool.clone();
    s.push(move || {
        begins.send(()).expect("the test waits");
        until(time);
        reports
            .send(inner.shutdown(Duration::MAX))
            .expect("the test waits");
    })
    .expect("room");
    receive(&begun);
    report
}
