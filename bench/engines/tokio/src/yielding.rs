//! Tasks that yield in a loop, so that none has to be spawned again.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kit::{Args, Output, run_queue::Switches};
use tokio::{
    runtime::Builder,
    task::{LocalSet, yield_now},
};

pub fn requeue(args: &Args) {
    let workers = args.number("workers") as usize;
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .build()
        .expect("a runtime");
    let counter = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (counter, stop) = (Arc::clone(&counter), Arc::clone(&stop));
            runtime.spawn(async move {
                let mut own_count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    counter.fetch_add(1, Ordering::Relaxed);
                    own_count += 1;
                    yield_now().await;
                }
                own_count
            })
        })
        .collect();
    let (begin, before) = (Instant::now(), counter.load(Ordering::Acquire));
    std::thread::sleep(Duration::from_millis(args.number("ms")));
    let rate = (counter.load(Ordering::Acquire) - before) as f64 / begin.elapsed().as_secs_f64();
    stop.store(true, Ordering::Release);
    let own: u64 = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).expect("a task"))
        .sum();
    let mut output = Output::default();
    output.figure("tasks_per_s", rate);
    output.check("counter", counter.load(Ordering::Acquire));
    output.check("tasks", own);
    output.finish();
}

pub fn run_queue(args: &Args) {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let stop = Rc::new(Cell::new(false));
    let local = LocalSet::new();
    let tasks: Vec<_> = (0..rq)
        .map(|index| {
            let stop = Rc::clone(&stop);
            local.spawn_local(async move {
                let begin = Instant::now();
                let mut count = 0u64;
                while !stop.get() {
                    count += 1;
                    // One task reads the clock, so that a switch does not include the
                    // cost of that.
                    if index == 0
                        && count.is_multiple_of(64)
                        && begin.elapsed() >= Duration::from_millis(ms)
                    {
                        stop.set(true);
                    }
                    yield_now().await;
                }
                count
            })
        })
        .collect();
    let begin = Instant::now();
    let counts = local.block_on(&runtime, async {
        let mut counts = Vec::new();
        for task in tasks {
            counts.push(task.await.expect("a task"));
        }
        counts
    });
    Switches {
        counts,
        spent: begin.elapsed(),
    }
    .report(None);
}
