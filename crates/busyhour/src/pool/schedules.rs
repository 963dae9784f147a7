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
    explore(1_000, || {
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
    explore(1_000, || {
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
    explore(1_000, || {
        let pool = TaskPool::builder().workers(2).maximum(TASKS);
        let pool = pool.growth_threshold(0).build().unwrap();
        while pool.stats().idle_worker_count < 2 {
            thread::yield_now();
        }
        let meeting = Meeting::of(TASKS);
        for _ in 0..TASKS {
            pool.push(meeting.joins()).unwrap();
        }
        meeting.wait();
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}

/// The forbidden outcome: a worker takes two tasks out of its inject queue at
/// once, and begins the first, which waits for the second. The other worker has
/// looked while they were in neither queue, and sleeps.
#[test]
fn shuttle_a_task_that_is_taken_over_with_another_wakes_a_worker() {
    for are_ordered in [false, true] {
        explore(2_000, move || {
            let pool = TaskPool::builder().workers(2).build().unwrap();
            let meeting = Meeting::of(2);
            for _ in 0..2 {
                match are_ordered {
                    true => pool.ephemeral().push(meeting.joins()).unwrap(),
                    false => pool.push(meeting.joins()).unwrap(),
                }
            }
            meeting.wait();
            assert!(pool.shutdown(Duration::MAX).is_clean());
        });
    }
}

/// The forbidden outcome: pushes count what waits without two tasks that the
/// worker is just taking out of its inject queue, so that they add no worker,
/// and the first one waits for the second.
#[test]
fn shuttle_a_task_that_is_taken_over_counts_for_growth() {
    explore(1_000, || {
        let pool = TaskPool::builder().workers(1).maximum(2);
        let pool = pool.growth_threshold(2).build().unwrap();
        let meeting = Meeting::of(2);
        let pushes = [(), ()].map(|()| {
            let (pool, meeting) = (pool.clone(), meeting.clone());
            thread::spawn(move || {
                (0..2).for_each(|_| pool.push(meeting.joins()).unwrap());
            })
        });
        for pushed in pushes {
            pushed.join().unwrap();
        }
        meeting.wait();
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}

/// Tasks that wait for each other.
#[derive(Clone)]
struct Meeting(Arc<(Mutex<usize>, Condvar)>);

impl Meeting {
    fn of(len: usize) -> Self {
        Self(Arc::new((Mutex::new(len), Condvar::new())))
    }

    fn joins(&self) -> impl FnOnce() + Send + 'static {
        let meeting = self.clone();
        move || {
            let mut missing = lock(&meeting.0.0);
            *missing = missing.saturating_sub(1);
            drop(missing);
            meeting.0.1.notify_all();
            meeting.wait();
        }
    }

    fn wait(&self) {
        let mut missing = lock(&self.0.0);
        while *missing > 0 {
            missing = self.0.1.wait(missing).unwrap();
        }
    }
}
