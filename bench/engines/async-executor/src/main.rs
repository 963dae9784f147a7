//! async-executor, with threads that run it.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use async_executor::{Executor, LocalExecutor};
use futures_lite::future::{block_on, pending, yield_now};
use kit::{
    Args,
    args::refuse,
    run_queue::Switches,
    tasks::{self, Pool},
};

struct Smol(&'static Executor<'static>);

impl Smol {
    fn start(args: &Args) -> Self {
        let executor: &'static Executor = Box::leak(Box::new(Executor::new()));
        for _ in 0..args.number("workers") {
            std::thread::spawn(|| block_on(executor.run(pending::<()>())));
        }
        Self(executor)
    }
}

impl Pool for Smol {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { task() }).detach();
    }
}

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "pool-requeue" => tasks::requeue(&args, Smol::start(&args)),
        "pool-external" => tasks::external(&args, Smol::start(&args)),
        "run-queue" => run_queue(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn run_queue(args: &Args) {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let executor = LocalExecutor::new();
    let stop = Rc::new(Cell::new(false));
    let tasks: Vec<_> = (0..rq)
        .map(|index| executor.spawn(entity(index, ms, Rc::clone(&stop))))
        .collect();
    let begin = Instant::now();
    let counts = block_on(executor.run(async {
        let mut counts = Vec::new();
        for task in tasks {
            counts.push(task.await);
        }
        counts
    }));
    Switches {
        counts,
        spent: begin.elapsed(),
    }
    .report(None);
}

async fn entity(index: u64, ms: u64, stop: Rc<Cell<bool>>) -> u64 {
    let (begin, mut count) = (Instant::now(), 0u64);
    while !stop.get() {
        count += 1;
        // One task reads the clock, so that a switch does not include the cost of
        // that.
        if index == 0 && count.is_multiple_of(64) && begin.elapsed() >= Duration::from_millis(ms) {
            stop.set(true);
        }
        yield_now().await;
    }
    count
}
