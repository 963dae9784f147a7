//! The effect of each option of a pool, seen from outside.

use busyhour::pool::{Selector, TaskPool, ThreadPool, ThreadPoolOptions};
use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

/// A task that blocks its worker until it is released, and reports which worker
/// that is.
struct Held {
    worker: String,
    release: mpsc::Sender<Box<dyn FnOnce() + Send>>,
}

impl Held {
    fn push(pool: &TaskPool) -> Self {
        let (release, commands) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (names, name) = mpsc::channel();
        pool.push(move || {
            names.send(own_name()).expect("the test waits");
            commands.iter().for_each(|command| command());
        })
        .expect("room");
        let worker = name.recv().expect("it begins");
        Self { worker, release }
    }

    /// Runs `command` inside the task.
    fn run(&self, command: impl FnOnce() + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        let command = move || {
            command();
            done.send(()).expect("the test waits");
        };
        self.release.send(Box::new(command)).expect("it is held");
        is_done.recv().expect("the command ends");
    }
}

fn own_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// The numbers of tasks in the order in which they ran.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<usize>>>);

impl Order {
    fn push(&self, pool: &TaskPool, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let order = self.clone();
            pool.push(move || order.0.lock().expect("no panic").push(number))
                .expect("room");
        }
    }

    fn first(&self, count: usize) -> Vec<usize> {
        self.first_below(usize::MAX, count)
    }

    /// The first ones of those that are less than `limit`.
    fn first_below(&self, limit: usize, count: usize) -> Vec<usize> {
        loop {
            let order = self.0.lock().expect("no panic").clone();
            let order: Vec<_> = order.into_iter().filter(|number| *number < limit).collect();
            if order.len() >= count {
                return order[..count].to_vec();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn two_workers(selector: Selector) -> (TaskPool, Held, Held) {
    let pool = TaskPool::builder().workers(2).selector(selector);
    let pool = pool.build().expect("a pool");
    let (one, other) = (Held::push(&pool), Held::push(&pool));
    assert_ne!(one.worker, other.worker);
    (pool, one, other)
}

/// Both workers are blocked, so tasks wait where the selector put them. The
/// released worker runs its own tasks before it takes the other's.
#[test]
fn sequential_chooses_one_worker_after_the_other() {
    let (pool, one, _other) = two_workers(Selector::Sequential);
    let order = Order::default();
    order.push(&pool, 0..10);
    drop(one);
    let mut own = order.first(5);
    own.sort_unstable();
    let evens_or_odds = own.iter().all(|number| number % 2 == own[0] % 2);
    assert!(evens_or_odds, "{own:?}");
}

/// One worker has five tasks waiting, so the other one gets the first five.
/// After that they get tasks in turn, beginning with the first worker.
#[test]
fn least_full_chooses_the_worker_with_the_fewest_waiting_tasks() {
    let cases: [(_, &[usize]); 2] = [
        ("busyhour-1", &[0, 1, 2, 3, 4, 5, 7, 9]),
        ("busyhour-0", &[0, 1, 2, 3, 4, 6, 8]),
    ];
    for (full, own) in cases {
        let (pool, one, other) = two_workers(Selector::LeastFull);
        let (full, empty) = match one.worker == full {
            true => (one, other),
            false => (other, one),
        };
        let order = Order::default();
        let (inner, waiting) = (pool.clone(), order.clone());
        full.run(move || waiting.push(&inner, 100..105));
        order.push(&pool, 0..10);
        drop(empty);
        // The worker that ends its task takes what waits for it at once, and so it runs in one
        // piece. What it steals from the other one runs behind that, or before it if the other
        // one was stuck for long.
        let ran = order.first_below(100, 10);
        assert!(ran.windows(own.len()).any(|some| some == own), "{ran:?}");
    }
}

fn workers(pool: &TaskPool) -> u64 {
    pool.stats().worker_count
}

/// Waits until the worker has started and found nothing: until then a push may let the
/// pool grow.
fn until_idle(pool: &TaskPool) {
    while pool.stats().idle_worker_count == 0 {
        thread::yield_now();
    }
}

#[test]
fn a_pool_grows_by_its_increment() {
    let pool = TaskPool::builder()
        .workers(1)
        .maximum(6)
        .growth_threshold(0);
    let pool = pool.auto_increment(3).build().expect("a pool");
    until_idle(&pool);
    let _held = Held::push(&pool);
    assert_eq!(workers(&pool), 1);
    pool.push(|| ()).expect("room");
    assert_eq!(workers(&pool), 4);
}

#[test]
fn a_thread_pool_grows_by_its_increment() {
    let options = ThreadPoolOptions {
        initial_size: 1,
        auto_increment: 4,
        max_size: 10,
        idle_timeout_secs: 0,
    };
    let pool = ThreadPool::new("old", options).expect("a pool");
    until_idle(&pool);
    let _held = Held::push(&pool);
    pool.push(|| ()).expect("room");
    assert_eq!(workers(&pool), 5);
}

#[test]
fn a_pool_grows_only_above_its_threshold() {
    let pool = TaskPool::builder()
        .workers(1)
        .maximum(2)
        .growth_threshold(5);
    let pool = pool.build().expect("a pool");
    let _held = Held::push(&pool);
    (0..5).for_each(|_| pool.push(|| ()).expect("room"));
    assert_eq!(workers(&pool), 1);
    pool.push(|| ()).expect("room");
    assert_eq!(workers(&pool), 2);
}

#[test]
fn tasks_that_wait_for_any_worker_count_for_the_threshold() {
    for selector in [Selector::Sequential, Selector::LeastFull] {
        let pool = TaskPool::builder().workers(4).maximum(8);
        let pool = pool.selector(selector).build().expect("a pool");
        let _held: Vec<_> = (0..4).map(|_| Held::push(&pool)).collect();
        (0..200).for_each(|_| pool.push(|| ()).expect("room"));
        assert_eq!(workers(&pool), 4, "{selector:?}");
        (0..8).for_each(|_| pool.push(|| ()).expect("room"));
        assert!(workers(&pool) > 4, "{selector:?}");
    }
}

/// The processors on which the system allows this thread to run.
#[cfg(target_os = "linux")]
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("a line of that name").trim().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn workers_are_kept_on_their_processors() {
    let all = allowed();
    let bounds: Vec<usize> = all
        .split(['-', ','])
        .filter_map(|part| part.parse().ok())
        .collect();
    let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
    let pool = TaskPool::builder().workers(2).affinity(&[last, first]);
    let pool = pool.build().expect("processors of this process");
    let held = [Held::push(&pool), Held::push(&pool)];
    for task in held {
        let (sender, receiver) = mpsc::channel();
        task.run(move || sender.send(allowed()).expect("the test waits"));
        let expected = match &*task.worker {
            "busyhour-0" => last,
            _ => first,
        };
        assert_eq!(receiver.recv(), Ok(expected.to_string()));
    }
}
