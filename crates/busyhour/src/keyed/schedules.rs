//! Schedules of pushes that meet the eviction of their key.

use super::Keyed;
use crate::{
    clock::{Clock, UnixTime},
    pool::TaskPool,
    sync::{Mutex, lock, runtime::thread, scheduled::explore},
    task::Overflow,
    timer::Timers,
};
use std::{sync::Arc, time::Duration};

/// The forbidden outcomes: two tasks of a key at once, a task before an earlier
/// one, a state that begins again without what was saved.
#[test]
fn shuttle_a_push_meets_the_eviction_of_its_key() {
    const PUSHES: u32 = 2;
    explore(2_000, || {
        let clock = Clock::simulated(UnixTime::default());
        let pool = TaskPool::builder().workers(1).clock(clock.clone());
        let pool = pool.build().unwrap();
        let timers = Timers::builder().clock(clock).build();
        let template = pool.serializer("key").template().unwrap();
        let saved = Arc::new(Mutex::new(0));
        let (loading, saving) = (Arc::clone(&saved), Arc::clone(&saved));
        let keyed = Keyed::<u32>::builder(&template, &timers)
            .with_state(move |_| *lock(&loading))
            .on_evict(move |_, count| *lock(&saving) = count)
            .build();
        for number in 0..PUSHES {
            let step = move |count: &mut u32| {
                assert_eq!(*count, number, "the state before task {number}");
                *count += 1;
            };
            keyed.push(&1, step).unwrap();
            keyed.evict(&1);
        }
        assert_eq!(keyed.push_wait(&1, |count| *count), Ok(PUSHES));
        assert!(pool.shutdown(Duration::MAX).is_clean());
        assert_eq!(keyed.len(), usize::from(keyed.contains(&1)));
    });
}

/// The forbidden outcome: a key whose eviction was displaced by a push, and that
/// nobody evicts any more.
#[test]
fn shuttle_a_push_displaces_no_eviction() {
    explore(2_000, || {
        let clock = Clock::simulated(UnixTime::default());
        let pool = TaskPool::builder().workers(1).clock(clock.clone());
        let pool = pool.build().unwrap();
        let timers = Timers::builder().clock(clock).build();
        let template = pool.serializer("key").capacity(1);
        let template = template.overflow(Overflow::DropOldest).template().unwrap();
        let keyed = Keyed::<u32>::builder(&template, &timers)
            .max_keys(1)
            .build();
        keyed.push(&1, |()| ()).unwrap();
        // Both ask key 1 to leave, if it is idle by then.
        _ = keyed.push(&2, |()| ());
        keyed.push(&1, |()| ()).unwrap_or(());
        _ = keyed.push(&3, |()| ());
        // Nothing uses it from here on, so it leaves when it is asked again.
        while keyed.contains(&1) {
            _ = keyed.push(&4, |()| ());
            thread::yield_now();
        }
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}
