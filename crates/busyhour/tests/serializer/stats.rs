//! The statistics of a serializer while a task runs, in virtual time.

use busyhour::{
    clock::{Clock, UnixTime},
    pool::TaskPool,
    serializer::{Serializer, Watermark},
    task::{Executor, Overflow, Task},
};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

fn virtual_pool() -> (TaskPool, Clock) {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock.clone());
    (pool.build().expect("a pool"), clock)
}

/// Runs a labelled task that ends when the sender is dropped.
fn hold(calls: &Serializer) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let task = Task::labelled(&"call", move || {
        begun.send(()).expect("the test waits");
        held.recv().ok();
    });
    calls.execute(task).expect("room");
    begins.recv().expect("it begins");
    release
}

#[test]
fn the_stats_name_what_runs_and_waits_and_for_how_long() {
    let (pool, clock) = virtual_pool();
    let calls = pool.serializer("calls").build().expect("a serializer");
    let idle = calls.stats();
    assert_eq!(
        (idle.running, idle.running_for_ns, idle.oldest_waiting_ns),
        (None, 0, 0)
    );
    let release = hold(&calls);
    let advance = |ns| {
        clock
            .as_virtual()
            .expect("virtual")
            .advance(Duration::from_nanos(ns))
    };
    advance(500);
    calls.push(|| ()).expect("room");
    advance(300);
    calls.push(|| ()).expect("room");
    advance(40);
    let busy = calls.stats();
    assert_eq!(busy.running.as_deref(), Some("call"));
    assert_eq!((busy.running_for_ns, busy.oldest_waiting_ns), (840, 340));
    assert_eq!(pool.stats().oldest_waiting_ns, 340);
    drop(release);
    while !calls.is_idle() {
        std::thread::yield_now();
    }
    let idle = calls.stats();
    assert_eq!(
        (idle.running, idle.running_for_ns, idle.oldest_waiting_ns),
        (None, 0, 0)
    );
}

#[test]
fn the_stats_keep_the_longest_queue_and_count_what_was_done() {
    for overflow in [Overflow::Reject, Overflow::Conflate] {
        let clock = Clock::simulated(UnixTime::from_secs(0));
        let pool = TaskPool::simulated(1, clock);
        let calls = pool.serializer("calls").overflow(overflow).build();
        let calls = calls.expect("a serializer");
        let (all, still) = (|| calls.stats(), [calls.suspend(), calls.suspend()]);
        assert_eq!((all().suspend_count, all().queued_high_water), (2, 0));
        for count in 1..=5 {
            calls.push_keyed(count, || ()).expect("room");
            assert_eq!((all().queued_len, all().queued_high_water), (count, count));
        }
        drop(still);
        while pool.step() {}
        calls.push(|| ()).expect("room");
        assert_eq!((all().queued_len, all().queued_high_water), (1, 5));
        while pool.step() {}
        assert_eq!((all().processed, all().suspend_count), (6, 0));
    }
}

#[test]
fn the_pool_measures_how_long_a_serializer_waits_for_its_turn() {
    let (pool, clock) = virtual_pool();
    let clock = clock.as_virtual().expect("virtual");
    clock.advance(Duration::from_secs(10));
    let build = |name| pool.serializer(name).build().expect("a serializer");
    let (busy, calls) = (build("busy"), build("calls"));
    let release = hold(&busy);
    calls.push(|| ()).expect("room");
    clock.advance(Duration::from_micros(300));
    drop(release);
    while !calls.is_idle() || !busy.is_idle() {
        std::thread::yield_now();
    }
    let wait_ns = pool.stats().wait_ns;
    assert_eq!(wait_ns.count(), 2, "{wait_ns:?}");
    let longest = wait_ns.quantile_ns(1.0);
    assert!((300_000..=600_000).contains(&longest), "{wait_ns:?}");
}

#[test]
fn a_crossed_watermark_names_the_task_that_runs() {
    let (pool, clock) = virtual_pool();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let marked = pool.serializer("marked").on_alert(0, 2, move |water| {
        let entry = (water.mark, water.running, water.oldest_waiting_ns);
        tells.lock().expect("no panic").push(entry);
    });
    let marked = marked.build().expect("a serializer");
    let release = hold(&marked);
    marked.push(|| ()).expect("room");
    clock
        .as_virtual()
        .expect("virtual")
        .advance(Duration::from_nanos(70));
    marked.push(|| ()).expect("room");
    let first = told.lock().expect("no panic").first().copied();
    assert_eq!(first, Some((Watermark::High, Some("call"), 70)));
    drop(release);
    while !marked.is_idle() {
        std::thread::yield_now();
    }
    assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    let last = told.lock().expect("no panic").last().copied();
    assert_eq!(
        last.map(|(mark, running, _)| (mark, running)),
        Some((Watermark::Low, None))
    );
}
