//! The scenarios of tasks: `pool-requeue`, `pool-external`, `serializer-pingpong`.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{Args, Output};

/// A pool of workers, which exists until the process ends.
pub trait Pool: Sync + 'static {
    fn push(&'static self, task: impl FnOnce() + Send + 'static);
}

/// Ordered tasks: one at a time, first in, first out.
pub trait Serial: Sync + 'static {
    fn push(&'static self, task: impl FnOnce() + Send + 'static);
}

/// A pool in the place of a serializer: the same tasks without the order, to see what the
/// order costs.
pub struct Unordered<P: Pool>(pub &'static P);

impl<P: Pool> Serial for Unordered<P> {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.push(task);
    }
}

/// Runs `pool-requeue`.
pub fn requeue<P: Pool>(args: &Args, pool: P) {
    let pool: &'static P = Box::leak(Box::new(pool));
    let load: &'static Load = Box::leak(Box::default());
    (0..INITIAL_TASKS).for_each(|_| pool.push(move || again(pool, load, 1)));
    let rate = load.let_run(args.number("ms"));
    load.wait_for(INITIAL_TASKS);
    load.report(rate);
}

fn again<P: Pool>(pool: &'static P, load: &'static Load, own_count: u64) {
    if load.step() {
        pool.push(move || again(pool, load, own_count + 1));
    } else {
        load.end_chain(own_count);
    }
}

/// Runs `pool-external`.
pub fn external<P: Pool>(args: &Args, pool: P) {
    let pool: &'static P = Box::leak(Box::new(pool));
    let load: &'static Load = Box::leak(Box::default());
    let n = args.number("n");
    let begin = Instant::now();
    (0..n).for_each(|_| pool.push(move || load.add_one()));
    load.report_external(n, begin);
}

/// Runs `serializer-pingpong`; `serializer` makes one of each pair's two.
pub fn pingpong<S: Serial>(args: &Args, mut serializer: impl FnMut(u64) -> S) {
    let load: &'static Load = Box::leak(Box::default());
    let pairs = pair_count(args);
    let mut stations = Vec::new();
    for pair in 0..pairs {
        let [ping, pong] =
            [0, 1].map(|side| &*Box::leak(Box::new(Station::new(serializer(2 * pair + side)))));
        ping.serial.push(move || bounce(ping, pong, load));
        stations.extend([ping, pong]);
    }
    let rate = load.let_run(args.number("ms"));
    load.wait_for(pairs);
    stations
        .iter()
        .for_each(|station| load.add_tasks(station.count()));
    load.report(rate);
}

fn pair_count(args: &Args) -> u64 {
    args.optional("pairs").unwrap_or(PAIRS)
}

fn bounce<S: Serial>(here: &'static Station<S>, there: &'static Station<S>, load: &'static Load) {
    if here.enter(load) {
        there.serial.push(move || bounce(there, here, load));
    } else {
        load.end_chain(0);
    }
}

/// Measures the upper limit for `pool-requeue`: threads that only add.
pub fn ceiling(args: &Args) {
    let load: &'static Load = Box::leak(Box::default());
    for _ in 0..args.number("workers") {
        std::thread::spawn(move || {
            let mut own_count = 1;
            while load.step() {
                own_count += 1;
            }
            load.end_chain(own_count);
        });
    }
    let rate = load.let_run(args.number("ms"));
    load.wait_for(args.number("workers"));
    load.report(rate);
}

/// Measures a lower limit for a task of `serializer-pingpong`: two locks that nobody else wants,
/// that of the serializer which gets the task, and that of the one whose task begins, and the
/// scenario's counter, which all threads share. Each thread has pairs of its own, so nothing is
/// handed over, and no thread is woken; there are no more threads than pairs.
pub fn handed_turns(args: &Args) {
    let load: &'static Load = Box::leak(Box::default());
    let pairs = pair_count(args);
    let threads = args.number("workers").min(pairs);
    for thread in 0..threads {
        std::thread::spawn(move || run_pairs(pairs / threads, load, thread));
    }
    let rate = load.let_run(args.number("ms"));
    load.wait_for(threads);
    load.report(rate);
}

/// Measures what a task of `pool-external` costs that takes a cache line: a ring of slots of 64 bytes for
/// any number of threads that put tasks in and one that takes them out. The ring is bounded: who
/// finds it full waits. Nothing is chosen, counted or woken.
pub fn handed_over(args: &Args) {
    let load: &'static Load = Box::leak(Box::default());
    let n = args.number("n");
    let ring: &'static TaskRing = Box::leak(Box::new(TaskRing::new()));
    std::thread::spawn(move || {
        for place in 0..n {
            let task = ring.take(place);
            load.counter.0.fetch_add(task, Ordering::Relaxed);
        }
    });
    let begin = Instant::now();
    (0..n).for_each(|_| ring.put(1));
    load.report_external(n, begin);
}

/// What stands for a task is the number that it adds.
struct TaskRing {
    slots: Box<[RingSlot]>,
    tail: Padded<AtomicU64>,
}

/// The round of the ring in which it may be filled, and once more when it is: both in `turn`.
#[derive(Default)]
#[repr(align(64))]
struct RingSlot {
    turn: AtomicU64,
    task: AtomicU64,
}

impl TaskRing {
    fn new() -> Self {
        Self {
            slots: (0..RING_LEN).map(|_| RingSlot::default()).collect(),
            tail: Padded::default(),
        }
    }

    fn put(&self, task: u64) {
        let place = self.tail.0.fetch_add(1, Ordering::Relaxed);
        let slot = self.await_turn(place, 2 * (place / RING_LEN));
        slot.task.store(task, Ordering::Relaxed);
        (slot.turn).store(2 * (place / RING_LEN) + 1, Ordering::Release);
    }

    fn take(&self, place: u64) -> u64 {
        let slot = self.await_turn(place, 2 * (place / RING_LEN) + 1);
        let task = slot.task.load(Ordering::Relaxed);
        (slot.turn).store(2 * (place / RING_LEN) + 2, Ordering::Release);
        task
    }

    fn await_turn(&self, place: u64, turn: u64) -> &RingSlot {
        let slot = &self.slots[(place % RING_LEN) as usize];
        let mut looks = 0_u32;
        while slot.turn.load(Ordering::Acquire) != turn {
            looks += 1;
            match looks % 64 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        slot
    }
}

/// Runs the tasks of so many pairs in turns, until they shall end.
fn run_pairs(pairs: u64, load: &'static Load, thread: u64) {
    let stations: Vec<Station<Turns>> = (0..2 * pairs)
        .map(|_| Station::new(Turns::default()))
        .collect();
    let mut ready: VecDeque<usize> = (0..stations.len()).step_by(2).collect();
    ready
        .iter()
        .for_each(|first| stations[*first].serial.put(thread));
    while let Some(index) = ready.pop_front() {
        let (here, there) = (&stations[index], &stations[index ^ 1]);
        let task = here.serial.take();
        if !here.enter(load) {
            break;
        }
        there.serial.put(task);
        ready.push_back(index ^ 1);
    }
    stations
        .iter()
        .for_each(|station| load.add_tasks(station.count()));
    load.end_chain(0);
}

/// What waits at a serializer, behind a lock of one locked instruction.
#[derive(Default)]
struct Turns {
    is_locked: AtomicBool,
    task: AtomicU64,
}

impl Turns {
    fn put(&self, task: u64) {
        self.locked(|waiting| waiting.store(task, Ordering::Relaxed));
    }

    fn take(&self) -> u64 {
        self.locked(|waiting| waiting.load(Ordering::Relaxed))
    }

    fn locked<R>(&self, work: impl FnOnce(&AtomicU64) -> R) -> R {
        while self.is_locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let done = work(&self.task);
        self.is_locked.store(false, Ordering::Release);
        done
    }
}

const INITIAL_TASKS: u64 = 200;
const PAIRS: u64 = 200;
const RING_LEN: u64 = 1 << 12;

/// The shared counter, and the counts that tasks keep in places of their own.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    counter: Padded<AtomicU64>,
    tasks: Padded<AtomicU64>,
    overlaps: Padded<AtomicU64>,
    ended_chains: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl Load {
    fn add_one(&self) {
        self.counter.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The work of one task; returns whether the task should push itself again.
    #[inline]
    fn step(&self) -> bool {
        self.add_one();
        !self.stop.load(Ordering::Relaxed)
    }

    /// Adds tasks that were counted in another place (that of a chain or a serializer).
    fn add_tasks(&self, count: u64) {
        self.tasks.0.fetch_add(count, Ordering::Relaxed);
    }

    /// A chain of tasks that push themselves has ended; it ran `own_count` tasks.
    fn end_chain(&self, own_count: u64) {
        self.add_tasks(own_count);
        self.ended_chains.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until `chains` chains have ended.
    fn wait_for(&self, chains: u64) {
        while self.ended_chains.load(Ordering::Acquire) < chains {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn overlap(&self) {
        self.overlaps.0.fetch_add(1, Ordering::Relaxed);
    }

    fn counter(&self) -> u64 {
        self.counter.0.load(Ordering::Acquire)
    }

    /// Lets the tasks run for `ms`, then tells them to stop; returns the tasks per second
    /// in that time.
    fn let_run(&self, ms: u64) -> f64 {
        let (begin, before) = (Instant::now(), self.counter());
        std::thread::sleep(Duration::from_millis(ms));
        let (count, spent) = (self.counter() - before, begin.elapsed());
        self.stop.store(true, Ordering::Release);
        count as f64 / spent.as_secs_f64()
    }

    /// Prints the lines of `pool-requeue`; call it when all tasks have ended.
    fn report(&self, tasks_per_s: f64) {
        let mut output = Output::default();
        output.figure("tasks_per_s", tasks_per_s);
        output.check("counter", self.counter());
        output.check("tasks", self.tasks.0.load(Ordering::Acquire));
        output.check("overlaps", self.overlaps.0.load(Ordering::Acquire));
        output.finish();
    }

    /// Waits until `n` tasks have run, then prints the lines of `pool-external`.
    fn report_external(&self, n: u64, begin: Instant) {
        while self.counter() < n {
            std::thread::yield_now();
        }
        let mut output = Output::default();
        output.figure("tasks_per_s", n as f64 / begin.elapsed().as_secs_f64());
        output.check("counter", self.counter());
        output.finish();
    }
}

/// One of a pair: its serializer, and the counts of its tasks.
struct Station<S> {
    serial: S,
    busy: AtomicBool,
    count: AtomicU64,
}

impl<S> Station<S> {
    fn new(serial: S) -> Self {
        Self {
            serial,
            busy: AtomicBool::new(false),
            count: AtomicU64::new(0),
        }
    }

    /// Runs a task's work inside the serializer.
    #[inline]
    fn enter(&self, load: &Load) -> bool {
        // Plain loads and stores: only one task at a time may run this, and if two do, at
        // least one of them sees it.
        if self.busy.load(Ordering::Relaxed) {
            load.overlap();
        }
        self.busy.store(true, Ordering::Relaxed);
        self.count
            .store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let again = load.step();
        self.busy.store(false, Ordering::Relaxed);
        again
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}
