//! Picking and putting back, and whole switches between futures that yield.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use busyhour::{
    pool::{JoinHandle, TaskPool, yield_now},
    run_queue::{Class, QueueEnd, RunQueue, SchedState, WorkerId},
};
use kit::{
    Args,
    run_queue::{Switches, Turns, spent_since, time_picks},
    spin::Spin,
};

pub fn run(args: &Args) {
    let pick_ns = pick_ns(args);
    switch(args.number("rq"), args.number("ms")).report(pick_ns);
}

fn pick_ns(args: &Args) -> Option<f64> {
    let rq = args.number("rq");
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut sched_states: Vec<SchedState> =
        (0..rq).map(|_| SchedState::new(Class::default())).collect();
    for (index, sched_state) in sched_states.iter_mut().enumerate() {
        queue.wake(index as u32, sched_state, QueueEnd::Back);
    }
    let mut running = queue.pick().expect("all are runnable");
    time_picks(args, || {
        running = queue.switch(running, &mut sched_states[running as usize], TICK);
        running as usize
    })
}

pub fn run_busy(args: &Args) {
    let work = Spin::calibrated(Duration::from_micros(args.number("work_us")));
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let (switches, cpu, choosing_ns) = turns(rq, ms, Some(work));
    let turns = Turns {
        counts: switches.counts,
        spent: cpu,
        choosing_ns,
    };
    turns.report();
}

fn switch(rq: u64, ms: u64) -> Switches {
    turns(rq, ms, None).0
}

/// Futures on one worker, each an entity of its own that works, if it is to, and yields in
/// a loop. They begin when all are there, and stop when the time is over, there were two
/// turns for each, and each had one. Also the processor time, and the time of a choice, as
/// the worker's own statistics have it.
fn turns(rq: u64, ms: u64, work: Option<Spin>) -> (Switches, Duration, f64) {
    let pool = TaskPool::builder().workers(1).build().expect("one worker");
    let stop = Arc::new(AtomicBool::new(false));
    let total = Arc::new(AtomicU64::new(0));
    let begun = Arc::new(AtomicU64::new(0));
    let (open, gate) = std::sync::mpsc::channel::<()>();
    pool.push(move || gate.recv().unwrap_or(()))
        .expect("room in the pool");
    let yielders: Vec<JoinHandle<u64>> = (0..rq)
        .map(|_| {
            pool.spawn_as(
                Class::default(),
                count(Arc::clone(&stop), [&total, &begun].map(Arc::clone), work),
            )
        })
        .collect();
    let (begin, used) = (Instant::now(), kit::cpu::used());
    drop(open);
    let is_over = || {
        begin.elapsed() >= Duration::from_millis(ms)
            && total.load(Ordering::Relaxed) >= 2 * rq
            && begun.load(Ordering::Relaxed) == rq
    };
    while !is_over() {
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, Ordering::Relaxed);
    let counts = yielders
        .into_iter()
        .map(|yielder| yielder.wait().expect("it ends when it is told to"));
    let counts: Vec<u64> = counts.collect();
    let (spent, cpu) = (begin.elapsed(), spent_since(begin, used));
    let worker = pool.worker_stats().swap_remove(0);
    let choosing_ns = worker.choosing_ns as f64 / worker.switches.max(1) as f64;
    (Switches { counts, spent }, cpu, choosing_ns)
}

/// Counts how often the future was switched to.
async fn count(stop: Arc<AtomicBool>, sums: [Arc<AtomicU64>; 2], work: Option<Spin>) -> u64 {
    let [total, begun] = sums;
    // Only one worker writes them.
    begun.store(begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let mut own_count = 0;
    while !stop.load(Ordering::Relaxed) {
        own_count += 1;
        if let Some(work) = work {
            work.run();
        }
        total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        yield_now().await;
    }
    own_count
}

const TICK: Duration = Duration::from_micros(50);
