//! Jobs that run on several threads, and results that are joined in the order
//! of the jobs.

use busyhour::pool::TaskPool;
use busyhour_pcp::{Error, in_order};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

/// The number of results that exist now, and its highest value so far.
#[derive(Default)]
struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

struct HeldResult(usize, Arc<Held>);

impl HeldResult {
    fn new(number: usize, held: &Arc<Held>) -> Self {
        let now = held.now.fetch_add(1, SeqCst) + 1;
        held.most.fetch_max(now, SeqCst);
        Self(number, held.clone())
    }
}

impl Drop for HeldResult {
    fn drop(&mut self) {
        self.1.now.fetch_sub(1, SeqCst);
    }
}

#[test]
fn results_come_in_order_and_few_wait_behind_a_slow_job() {
    let pool = pool(2);
    for round in 0..20 {
        let held = Arc::new(Held::default());
        let of_jobs = held.clone();
        let numbers = in_order(
            (0..500).collect(),
            8,
            Some(&pool),
            Vec::new(),
            move |number: usize| {
                if number % 50 == round {
                    // The other jobs could run far ahead of this one.
                    (0..200).for_each(|_| thread::yield_now());
                }
                HeldResult::new(number, &of_jobs)
            },
            |numbers, result| {
                numbers.push(result.0);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(numbers.unwrap(), (0..500).collect::<Vec<_>>());
        assert_eq!(held.now.load(SeqCst), 0);
        let most = held.most.load(SeqCst);
        let threads_max = thread::available_parallelism().unwrap().get().min(8);
        assert!(most <= 2 * threads_max, "{most} results at once");
    }
}

#[test]
fn two_threads_work_at_the_same_time() {
    if thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let pool = pool(2);
    let both = Arc::new(Barrier::new(2));
    let work = {
        let both = both.clone();
        // If only one thread worked, it would wait here for ever.
        move |_| both.wait().is_leader()
    };
    let join = |leaders: &mut usize, is_leader| {
        *leaders += usize::from(is_leader);
        ControlFlow::Continue(())
    };
    let leaders = in_order(vec![(); 10], 2, Some(&pool), 0, work, join);
    assert_eq!(leaders, Ok(5));
}

#[test]
fn after_a_break_no_job_begins_and_no_result_is_joined() {
    let pool = pool(2);
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let joined = in_order(
        (0..10_000).collect(),
        2,
        Some(&pool),
        Vec::new(),
        move |number: usize| {
            counted.fetch_add(1, SeqCst);
            number
        },
        |all, number| {
            all.push(number);
            if number == 20 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        },
    );
    assert_eq!(joined.unwrap(), (0..=20).collect::<Vec<_>>());
    assert!(begun.load(SeqCst) < 100);
}

#[test]
fn a_job_that_panics_on_a_worker_leaves_no_thread_waiting() {
    let pool = pool(2);
    let caller = thread::current().id();
    let both = Arc::new(Barrier::new(2));
    if thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let lost = in_order(
        vec![(); 2],
        2,
        Some(&pool),
        (),
        move |()| {
            both.wait();
            assert!(thread::current().id() == caller, "on purpose");
        },
        |(), ()| ControlFlow::Continue(()),
    );
    assert_eq!(lost, Err(Error::Lost));
}

#[test]
fn without_a_pool_or_with_few_jobs_the_caller_runs_them() {
    let count = |jobs: Vec<u32>, pool: Option<&TaskPool>| {
        let join = |sum: &mut u32, number| {
            *sum += number;
            ControlFlow::Continue(())
        };
        in_order(jobs, 0, pool, 0, |number| number, join)
    };
    assert_eq!(count(vec![], Some(&pool(1))), Ok(0));
    assert_eq!(count(vec![1, 2, 3], None), Ok(6));
    assert_eq!(count(vec![1, 2, 3], Some(&pool(1))), Ok(6));
}

/// A worker that helps with a job lets the pool do other work.
#[test]
fn other_tasks_of_the_pool_get_their_turn_while_jobs_run() {
    let pool = pool(1);
    let other = pool.clone();
    let work = move |()| {
        let (sender, receiver) = std::sync::mpsc::channel();
        other.push(move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(std::time::Duration::from_secs(20))
    };
    let join = |turns: &mut usize, turn: Result<(), _>| {
        *turns += usize::from(turn.is_ok());
        ControlFlow::Continue(())
    };
    let turns = in_order(vec![(); 8], 2, Some(&pool), 0, work, join);
    assert_eq!(turns, Ok(8));
}
