//! The five structures that the seeds introduced, each written from the seed's
//! description, as simply as it was.

use kit::{Args, args::refuse, buffers, bus, serial::Serializer, tasks, timers};

mod cache;
mod heap;
mod pdu_tree;
mod run_buckets;
mod task_pool;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("unordered", "serializer-pingpong") => unordered_pingpong(&args),
        (_, scenario) => run(scenario, &args),
    }
}

fn run(scenario: &str, args: &Args) {
    match scenario {
        "timers" => timers::run(args, heap::Scheduler::default),
        "timers-shared" => timers::run_shared(args, &timers::Locked::<heap::Scheduler>::default()),
        "pool-requeue" => tasks::requeue(args, task_pool::Pool::start(args.number("workers"))),
        "pool-external" => tasks::external(args, task_pool::Pool::start(args.number("workers"))),
        "serializer-pingpong" => pingpong(args),
        "run-queue" => run_buckets::run(args),
        "run-queue-busy" => run_buckets::run_busy(args),
        "bus-cache" => bus::run(args, cache::HashedCache::start),
        "buffers" => buffers::run(args, &pdu_tree::PduTree::default(), None),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn pingpong(args: &Args) {
    let pool: &'static _ = Box::leak(Box::new(task_pool::Pool::start(args.number("workers"))));
    tasks::pingpong(args, |_| Serializer::new(pool));
}

fn unordered_pingpong(args: &Args) {
    let pool: &'static _ = Box::leak(Box::new(task_pool::Pool::start(args.number("workers"))));
    tasks::pingpong(args, |_| tasks::Unordered(pool));
}
