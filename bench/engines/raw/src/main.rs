//! The limits of the machine: loads at random addresses, a cache line that goes from processor to processor, additions to one counter that
//! threads share, threads that share nothing, turns one after the other, polls in a ring, tasks
//! that two locks each order or a ring hands over, buffers in a list, and timers without an order, or whose order is made at the end.

use kit::{Args, args::refuse, tasks};

mod block_list;
mod hand_over;
mod key_list;
mod only_compute;
mod random_access;
mod poll_ring;
mod ring;
mod slot_list;
mod slot_service;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("keys-only", "timers") => key_list::run(&args),
        (_, scenario) => run(scenario, &args),
    }
}

fn run(scenario: &str, args: &Args) {
    match scenario {
        "random-access" => random_access::run(args),
        "hand-over" => hand_over::run(args),
        "only-compute" => only_compute::run(args),
        "run-queue" => poll_ring::run(args),
        "run-queue-busy" => ring::run(args),
        "pool-requeue" => tasks::ceiling(args),
        "pool-external" => tasks::handed_over(args),
        "serializer-pingpong" => tasks::handed_turns(args),
        "timers" => slot_list::run(args),
        "buffers" => block_list::run(args),
        "timers-shared" => slot_service::run(args),
        other => refuse(&format!("no scenario {other}")),
    }
}
