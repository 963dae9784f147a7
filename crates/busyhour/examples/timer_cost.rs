//! Repeats one use of the timer service as often as given, and nothing else,
//! for `scripts/count.sh timer`, which counts instructions.
//!
//!     timer_cost WAY COUNT

use busyhour::{
    clock::{Clock, UnixTime},
    task::{Executor, Rejected, Task},
    timer::Timers,
};
use std::{
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
        other => refuse(&format!("no such way: {other:?}")),
    };
    let bench = Bench::new();
    if way == "run-again" {
        let timer = bench.timers.timer().on_shared(Arc::clone(&bench.inline));
        let _added = timer.run_every(STEP, || ());
    }
    (0..count).for_each(|_| one(black_box(&bench)));
}

struct Bench {
    clock: Clock,
    timers: Timers,
    inline: Arc<dyn Executor>,
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
