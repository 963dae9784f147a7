//! The five structures that the seeds replaced, each written from the seed's
//! description, as simply as it was.

use kit::{Args, args::refuse, buffers, bus, serial::Serializer, tasks, timers};

mod cache;
mod pdu_list;
mod run_list;
mod sorted_list;
mod thread_pool;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("unordered", "serializer-pingpong") => unordered_pingpong(&args),
        (_, scenario) => run(scenario, &args),
    }
}

fn run(scenario: &str, args: &Args) {
    match scenario {
        "timers" => timers::run(args, sorted_list::Scheduler::default),
        "pool-requeue" => tasks::requeue(args, thread_pool::Pool::start(args.number("workers"))),
        "pool-external" => tasks::external(args, thread_pool::Pool::start(args.number("workers"))),
        "serializer-pingpong" => pingpong(args),
        "run-queue" => run_list::run(args),
        "run-queue-busy" => run_list::run_busy(args),
        "bus-cache" => bus::run(args, cache::LinearCache::start),
        "buffers" => buffers::run(args, &pdu_list::PduList::default(), None),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn pingpong(args: &Args) {
    let pool: &'static _ = Box::leak(Box::new(thread_pool::Pool::start(args.number("workers"))));
    tasks::pingpong(args, |_| Serializer::new(pool));
}

fn unordered_pingpong(args: &Args) {
    let pool: &'static _ = Box::leak(Box::new(thread_pool::Pool::start(args.number("workers"))));
    tasks::pingpong(args, |_| tasks::Unordered(pool));
}
