//! Repeats one use of the timer service, or of the timer queue, as often as given, and nothing else,
//! for `scripts/count.sh timer`, which counts instructions.
//!
//!     timer_cost WAY COUNT

use busyhour::{
    clock::{Clock, Instant, UnixTime},
    task::{Executor, Rejected, Task},
    timer::{QueueHandle, TimerQueue, Timers},
};
use std::{
    cell::RefCell,
    env,
    future::Future,
    hint::black_box,
    pin::Pin,
    process::exit,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

fn main() {
    let mut words = env::args().skip(1);
    let way = words.next().unwrap_or_default();
    let count = words.next().and_then(|word| word.parse::<u64>().ok());
    let count = count.unwrap_or_else(|| refuse("COUNT is a number"));
    let one = match way.as_str() {
        "nothing" => nothing,
        "add-cancel" => add_cancel,
        "add-run" => add_run,
        "run-again" => run_again,
        "sleep-wake" => sleep_wake,
        "queue-add-cancel" => queue_add_cancel,
        "queue-among-1000" => queue_among_1000,
        other => refuse(&format!("no such way: {other:?}")),
    };
    let bench = Bench::new();
    if way == "queue-among-1000" {
        bench.queue.borrow_mut().fill();
    }
    if way == "run-again" {
        let timer = bench.timers.timer().on_shared(Arc::clone(&bench.inline));
        let _added = timer.run_every(STEP, || ());
    }
    (0..count).for_each(|_| one(black_box(&bench)));
}

/// A timer queue without the service, and the handles of the timers in it.
#[derive(Default)]
struct QueueBench {
    timers: TimerQueue<usize>,
    handles: Vec<QueueHandle>,
    turn: u64,
}

impl QueueBench {
    fn fill(&mut self) {
        for _ in 0..1000 {
            let handle = self.timers.add(self.scattered(), 0);
            self.handles.push(handle);
            self.turn += 1;
        }
    }

    /// A deadline within a minute.
    fn scattered(&self) -> Instant {
        Instant::from_nanos(self.turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 28)
    }
}

struct Bench {
    clock: Clock,
    timers: Timers,
    inline: Arc<dyn Executor>,
    queue: RefCell<QueueBench>,
}

/// Runs everything at once.
struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::simulated(UnixTime::default());
        Self {
            timers: Timers::builder().clock(clock.clone()).shards(1).build(),
            clock,
            inline: Arc::new(Inline),
            queue: RefCell::default(),
        }
    }

    fn pass(&self) {
        if let Some(clock) = self.clock.as_virtual() {
            clock.advance(STEP);
        }
        self.timers.run_due(self.clock.now());
    }
}

fn nothing(_: &Bench) {}

fn add_cancel(bench: &Bench) {
    let timer = bench.timers.timer().after(STEP);
    let timer = timer.on_shared(Arc::clone(&bench.inline)).run(|| ());
    let _cancelled = black_box(timer).map(|timer| bench.timers.cancel(&timer));
}

fn queue_add_cancel(bench: &Bench) {
    let queue = &mut *bench.queue.borrow_mut();
    let handle = black_box(queue.timers.add(queue.scattered(), 0));
    black_box(queue.timers.cancel(handle));
    queue.turn += 1;
}

/// Among 1,000 others, in whose order it has a random place.
fn queue_among_1000(bench: &Bench) {
    let queue = &mut *bench.queue.borrow_mut();
    let index = queue.turn as usize % 1000;
    black_box(queue.timers.cancel(queue.handles[index]));
    queue.handles[index] = queue.timers.add(queue.scattered(), 0);
    queue.turn += 1;
}

/// Sixty-four at a time.
fn add_run(bench: &Bench) {
    for _ in 0..64 {
        let timer = bench.timers.timer().after(STEP);
        let _added = black_box(timer.on_shared(Arc::clone(&bench.inline)).run(|| ()));
    }
    bench.pass();
}

fn run_again(bench: &Bench) {
    bench.pass();
}

fn sleep_wake(bench: &Bench) {
    let mut sleep = bench.timers.sleep(STEP);
    let mut context = Context::from_waker(Waker::noop());
    let _pending = Pin::new(&mut sleep).poll(&mut context);
    bench.pass();
    let _ready = Pin::new(&mut sleep).poll(&mut context);
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}; usage: timer_cost WAY COUNT");
    exit(2)
}

const STEP: Duration = Duration::from_secs(1);
