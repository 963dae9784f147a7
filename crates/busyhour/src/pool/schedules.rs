//! Schedules of a pool with one inline runner.

use super::TaskPool;
use crate::{
    clock::{Clock, UnixTime},
    sync::{Mutex, lock, scheduled::explore, thread},
};
use std::{sync::Arc, time::Duration};

/// The forbidden outcome: the statistics said that the worker is idle, and then
/// it took a task that was pushed afterwards to another queue.
#[test]
fn shuttle_an_idle_worker_takes_nothing_before_it_is_woken() {
    explore(2_000, || {
        // The clock stands still, so that an inline run is a short one.
        let clock = Clock::simulated(UnixTime::from_secs(0));
        let pool = TaskPool::builder().workers(1).clock(clock);
        let pool = pool.build().unwrap();
        let mut runner = pool.inline_runner();
        while pool.stats().idle_worker_count < 1 {
            thread::yield_now();
        }
        let ran_on = Arc::new(Mutex::new(None));
        let notes = Arc::clone(&ran_on);
        runner.run(|| {
            let task = move || *lock(&notes) = Some(thread::current().id());
            pool.push(task).unwrap();
            // Long enough for a worker that still searches.
            (0..100).for_each(|_| thread::yield_now());
        });
        assert_eq!(*lock(&ran_on), Some(thread::current().id()));
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}
