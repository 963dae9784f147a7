//! Suspensions that are nested, leaked, or held by a task that waits for their
//! end.

use crate::{
    bombs::{OnDrop, pool, until, works},
    watchdog::watched,
};
use busyhour::{
    pool::{PushError, TaskPool, WaitError},
    serializer::{Serializer, ShutdownGroup},
};
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

const LONG: Duration = Duration::from_secs(60);

/// Runs the case for a serializer with a name, for a member of a group, and for
/// one without a name.
fn each_kind(name: &str, case: impl Fn(&TaskPool, &Serializer, &ShutdownGroup)) {
    for has_name in [true, false] {
        watched(format!("{name}, has a name: {has_name}"), || {
            let (pool, group) = (pool(2), ShutdownGroup::new());
            let calls = match has_name {
                true => pool
                    .serializer("calls")
                    .group(&group)
                    .build()
                    .expect("a serializer"),
                false => pool.ephemeral(),
            };
            case(&pool, &calls, &group);
        });
    }
}

#[test]
fn guards_may_be_dropped_anywhere_and_the_last_one_resumes() {
    each_kind(
        "guards dropped in tasks, threads and panics",
        |pool, calls, _| {
            let ran = Arc::new(AtomicU64::new(0));
            let guards: Vec<_> = (0..4).map(|_| calls.suspend()).collect();
            let count = Arc::clone(&ran);
            calls
                .push(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                })
                .expect("room");
            let mut guards = guards.into_iter();
            let mut next = || guards.next().expect("one more");
            let (one, two, three, four) = (next(), next(), next(), next());
            pool.push_wait(move || drop(one)).expect("it runs");
            let panics = AssertUnwindSafe(move || {
                let _two = two;
                panic!("on purpose");
            });
            assert!(catch_unwind(panics).is_err());
            pool.ephemeral()
                .push_wait(move || three.resume())
                .expect("it runs");
            assert_eq!((ran.load(Ordering::SeqCst), calls.len()), (0, 1));
            thread::spawn(move || drop(four)).join().expect("no panic");
            until(|| ran.load(Ordering::SeqCst) == 1);
            // Suspends within a task of the serializer: that task ends, and the
            // next one waits.
            let inner = calls.clone();
            let guard = calls.push_wait(move || (inner.suspend(), inner.suspend()));
            calls.push(|| ()).expect("room");
            assert_eq!(calls.len(), 1);
            drop(guard);
            until(|| calls.is_idle());
            works(pool, 2);
        },
    );
}

/// Only dropping the task ends the suspension, and only the shutdown drops the
/// task.
#[test]
fn a_guard_held_by_a_task_that_it_suspends_ends_with_the_pool() {
    each_kind("a task holds its own serializer up", |pool, calls, _| {
        let (one, two) = (calls.suspend(), calls.suspend());
        let dropped = Arc::new(AtomicU64::new(0));
        let (inner, count) = (calls.clone(), Arc::clone(&dropped));
        let held = OnDrop(move || {
            assert_eq!(inner.push(|| ()), Err(PushError::ShutDown));
            drop(inner.suspend());
            count.fetch_add(1, Ordering::SeqCst);
        });
        calls.push(move || drop((one, held))).expect("room");
        drop(two);
        thread::scope(|scope| {
            let waits = scope.spawn(|| calls.push_wait(|| ()));
            until(|| calls.len() == 2);
            let report = pool.shutdown(Duration::ZERO);
            assert_eq!((report.not_run, report.unfinished_workers), (2, 0));
            assert_eq!(waits.join().expect("no panic"), Err(WaitError::Dropped));
        });
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_leaked_guard_delays_no_shutdown() {
    each_kind("guards that are never dropped", |pool, calls, group| {
        mem::forget((calls.suspend(), calls.suspend()));
        (0..3).for_each(|_| calls.push(|| ()).expect("room"));
        let of_group = group.shutdown(Duration::from_millis(1)).not_run;
        let of_pool = pool.shutdown(Duration::from_millis(1)).not_run;
        assert_eq!(of_group + of_pool, 3);
        assert_eq!(of_group, if group.is_empty() { 0 } else { 3 });
        assert!(pool.shutdown(LONG).is_clean());
    });
}

/// A group waits for a member whose tasks wait for a guard, until the guard is
/// dropped.
#[test]
fn a_group_waits_for_guards_that_its_other_members_hold() {
    watched("one member holds another one up", || {
        let (pool, group) = (pool(2), ShutdownGroup::new());
        let member = |name| {
            pool.serializer(name)
                .group(&group)
                .build()
                .expect("a serializer")
        };
        let (one, two) = (member("one"), member("two"));
        let ran = Arc::new(AtomicU64::new(0));
        let (outer, inner) = (one.suspend(), one.suspend());
        let count = Arc::clone(&ran);
        one.push(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .expect("room");
        two.push(move || drop((outer, inner))).expect("room");
        assert!(group.shutdown(LONG).is_clean());
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        works(&pool, 2);
    });
}
