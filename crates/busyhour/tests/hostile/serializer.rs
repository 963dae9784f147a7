use crate::watchdog::watched;
use busyhour::{
    pool::{TaskPool, WaitError},
    task::Overflow,
};
use std::{
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

fn pool(workers: usize) -> TaskPool {
    let pool = TaskPool::builder().workers(workers);
    pool.build().expect("a pool")
}

/// What must still work after each case.
fn works(pool: &TaskPool) {
    assert_eq!(pool.push_wait(|| 6 * 7), Ok(42));
    assert_eq!(pool.ephemeral().push_wait(|| 6 * 7), Ok(42));
}

fn names(outcome: Result<(), WaitError>) -> Vec<String> {
    match outcome {
        Err(WaitError::Deadlock(cycle)) => cycle.names().to_vec(),
        other => panic!("no deadlock: {other:?}"),
    }
}

#[test]
fn a_cycle_through_a_plain_task_is_named() {
    watched("s waits for a plain task that waits for s", || {
        let pool = pool(2);
        let s = pool.serializer("s").build().expect("a serializer");
        let (inner_pool, inner_s) = (pool.clone(), s.clone());
        let outcome = s.push_wait(move || inner_pool.push_wait(move || inner_s.push_wait(|| ())));
        let innermost = outcome.expect("s ran").expect("the plain task ran");
        assert_eq!(names(innermost), ["s"]);
        works(&pool);
    });
}

#[test]
fn a_cycle_through_two_pools_is_named() {
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
            works(&one);
            works(&other);
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
            works(&one);
            works(&other);
        },
    );
}

/// Nanoseconds for which this thread had a processor.
fn processor_time() -> Duration {
    let schedule = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = schedule.split_whitespace().next().expect("a number");
    Duration::from_nanos(nanos.parse().expect("a number"))
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
        let producer = thread::spawn(move || {
            let (began, worked) = (Instant::now(), processor_time());
            full.push(|| ()).expect("room in the end");
            (began.elapsed(), processor_time() - worked)
        });
        thread::sleep(Duration::from_millis(400));
        drop(release);
        let (waited, worked) = producer.join().expect("the producer");
        assert!(worked < waited / 10, "it worked {worked:?} of {waited:?}");
        works(&pool);
    });
}
