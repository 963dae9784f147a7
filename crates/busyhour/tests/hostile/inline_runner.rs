//! An inline runner whose collected tasks, and the tasks that it runs, are
//! hostile.

use crate::{
    bombs::{pool, until, works},
    pool::DEEDS,
    watchdog::watched,
};
use busyhour::{pool::PushError, serializer::ShutdownGroup};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[test]
fn what_an_inline_runner_collects_or_runs_may_do_anything() {
    for in_a_task in [false, true] {
        for (deed, act) in DEEDS {
            watched(
                format!("an inline runner {deed}, in a task: {in_a_task}"),
                || {
                    let pool = pool(2);
                    let (calls, called) = (pool.ephemeral(), Arc::new(AtomicU64::new(0)));
                    until(|| pool.stats().idle_worker_count == 2);
                    let mut runner = pool.inline_runner();
                    let (inner, count) = (pool.clone(), Arc::clone(&called));
                    let act = move || {
                        count.fetch_add(1, Ordering::SeqCst);
                        act(&inner);
                    };
                    let collect = || match in_a_task {
                        true => calls.push(act).expect("room"),
                        false => act(),
                    };
                    let visit = catch_unwind(AssertUnwindSafe(|| runner.run(collect)));
                    let panics_here = deed == "panics" && !in_a_task;
                    assert_eq!(visit.is_err(), panics_here);
                    until(|| called.load(Ordering::SeqCst) == 1);
                    if deed == "shuts down" {
                        until(|| pool.push(|| ()) == Err(PushError::ShutDown));
                    } else {
                        works(&pool, 2);
                        let panicked = u64::from(deed == "panics" && in_a_task);
                        until(|| pool.stats().panicked == panicked);
                        // The thread may use the inline runner again.
                        runner.run(|| calls.push(|| ()).expect("room"));
                        until(|| calls.is_idle());
                    }
                    drop(runner);
                    assert_eq!(pool.shutdown(Duration::from_secs(60)).unfinished_workers, 0);
                },
            );
        }
    }
}

/// An inline runner keeps its tasks for itself until its run ends; a suspension delays
/// them further.
#[test]
fn what_an_inline_runner_collects_for_a_suspended_serializer_waits_for_the_last_guard() {
    watched("an inline runner suspends what it pushes to", || {
        let pool = pool(1);
        let calls = pool.serializer("calls").build().expect("a serializer");
        until(|| pool.stats().idle_worker_count == 1);
        let (mut runner, ran) = (pool.inline_runner(), Arc::new(AtomicU64::new(0)));
        let (count, mut guards) = (Arc::clone(&ran), Vec::new());
        runner.run(|| {
            guards.extend([calls.suspend(), calls.suspend()]);
            let counts = move || {
                count.fetch_add(1, Ordering::SeqCst);
            };
            calls.push(counts).expect("room");
        });
        drop(guards.pop());
        pool.push_wait(|| ()).expect("it runs");
        assert_eq!((ran.load(Ordering::SeqCst), calls.len()), (0, 1));
        runner.run(|| drop(guards.pop()));
        until(|| ran.load(Ordering::SeqCst) == 1);
        works(&pool, 1);
    });
}

#[test]
fn a_group_ends_while_an_inline_runner_pushes_to_its_members() {
    watched("an inline runner and a shutdown group", || {
        let (pool, group) = (pool(1), ShutdownGroup::new());
        let calls = pool.serializer("calls").group(&group);
        let calls = calls.build().expect("a serializer");
        until(|| pool.stats().idle_worker_count == 1);
        let mut runner = pool.inline_runner();
        runner.run(|| {
            calls.push(|| ()).expect("room");
            assert!(group.shutdown(Duration::from_secs(60)).is_clean());
            assert_eq!(calls.push(|| ()), Err(PushError::ShutDown));
        });
        works(&pool, 1);
    });
}
