//! Busyhour's components, each behind the same small trait as its peers.

use kit::{
    Args,
    args::refuse,
    bus, lookup, tasks,
    timers::{self, Locked},
};

mod buffers;
mod calls;
mod run_queue;
mod shared_timers;
mod task_pool;
mod timer_queue;
mod topic;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("unordered", "serializer-pingpong") => task_pool::unordered_pingpong(&args),
        ("locked-queue", "timers-shared") => {
            timers::run_shared(&args, &Locked::<timer_queue::Timers>::default());
        }
        ("calls-only", scenario) => calls::run::<false>(scenario, &args),
        ("pointers-only", scenario) => calls::run::<true>(scenario, &args),
        (_, scenario) => run(scenario, &args),
    }
    // The pool's threads still run, but the figures have been printed.
    std::process::exit(0);
}

fn run(scenario: &str, args: &Args) {
    match scenario {
        "timers" => timers::run(args, timer_queue::Timers::default),
        "timers-shared" => shared_timers::run(args),
        "pool-requeue" => tasks::requeue(args, task_pool::Pool::start(args)),
        "pool-external" => tasks::external(args, task_pool::Pool::start(args)),
        "serializer-pingpong" => task_pool::pingpong(args),
        "run-queue" => run_queue::run(args),
        "run-queue-busy" => run_queue::run_busy(args),
        "bus-cache" => bus::run(args, topic::Cached::start),
        "bus-lookup" => lookup::run(args, &topic::Lookup::new()),
        "bus-fanout" => bus::run_fanout(args, topic::Fanout::start),
        "buffers" => buffers::run(args),
        other => refuse(&format!("no scenario {other}")),
    }
}
