//! Schedules of whole pools.

use super::{PoolAlert, TaskPool};
use crate::{
    clock::{Clock, UnixTime},
    sync::{Condvar, Mutex, lock, scheduled::explore, thread},
    task::Watermark,
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

/// The forbidden outcome: a second alert for one burst, because what a worker
/// carries from another's queue to its own is counted in neither.
#[test]
fn shuttle_one_burst_raises_one_alert() {
    explore(2_000, || {
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let tell = move |alert: &PoolAlert| lock(&telling).push(alert.mark);
        let pool = TaskPool::builder().workers(2).on_alert(1, 4, tell);
        let pool = pool.build().unwrap();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for _ in 0..8 {
            let gate = Arc::clone(&gate);
            let wait = move || {
                let mut is_open = lock(&gate.0);
                while !*is_open {
                    is_open = gate.1.wait(is_open).unwrap();
                }
            };
            pool.push(wait).unwrap();
        }
        *lock(&gate.0) = true;
        gate.1.notify_all();
        assert!(pool.shutdown(Duration::MAX).is_clean());
        assert_eq!(*lock(&told), [Watermark::High, Watermark::Low]);
    });
}

/// The forbidden outcome: a push meets the last worker as it leaves, and nobody
/// runs it.
#[test]
fn shuttle_a_push_to_a_pool_without_workers_runs() {
    explore(2_000, || {
        let pool = TaskPool::builder().workers(0).minimum(0).maximum(1);
        let pool = pool.idle_timeout(Duration::ZERO).build().unwrap();
        let here = Arc::new((Mutex::new(0), Condvar::new()));
        let count = |here: Arc<(Mutex<usize>, Condvar)>| {
            move || {
                *lock(&here.0) += 1;
                here.1.notify_all();
            }
        };
        let serializer = pool.ephemeral();
        let other = {
            let (serializer, task) = (serializer.clone(), count(Arc::clone(&here)));
            thread::spawn(move || serializer.push(task).unwrap())
        };
        for _ in 0..2 {
            pool.push(count(Arc::clone(&here))).unwrap();
            thread::yield_now();
        }
        let mut ran = lock(&here.0);
        while *ran < 3 {
            ran = here.1.wait(ran).unwrap();
        }
        drop(ran);
        other.join().unwrap();
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}

/// The forbidden outcome: a burst meets workers that are just waking, so that
/// no push adds one, and what waits stays behind tasks that wait for it.
#[test]
fn shuttle_a_burst_at_sleeping_workers_makes_the_pool_grow() {
    const TASKS: usize = 4;
    explore(2_000, || {
        let pool = TaskPool::builder().workers(2).maximum(TASKS);
        let pool = pool.growth_threshold(0).build().unwrap();
        while pool.stats().idle_worker_count < 2 {
            thread::yield_now();
        }
        let meeting = Arc::new((Mutex::new(0), Condvar::new()));
        let wait = |meeting: &(Mutex<usize>, Condvar)| {
            let mut here = lock(&meeting.0);
            while *here < TASKS {
                here = meeting.1.wait(here).unwrap();
            }
        };
        for _ in 0..TASKS {
            let meeting = Arc::clone(&meeting);
            let meet = move || {
                *lock(&meeting.0) += 1;
                meeting.1.notify_all();
                wait(&meeting);
            };
            pool.push(meet).unwrap();
        }
        wait(&meeting);
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}
