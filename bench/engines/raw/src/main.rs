//! The limits of the machine: loads at random addresses, additions to one counter that
//! threads share, threads that share nothing, turns one after the other, polls in a ring, tasks
//! that two locks each order, and timers without an order.

use kit::{Args, args::refuse, tasks};

mod only_compute;
mod random_access;
mod poll_ring;
mod ring;
mod slot_list;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "random-access" => random_access::run(&args),
        "only-compute" => only_compute::run(&args),
        "run-queue" => poll_ring::run(&args),
        "run-queue-busy" => ring::run(&args),
        "pool-requeue" => tasks::ceiling(&args),
        "serializer-pingpong" => tasks::handed_turns(&args),
        "timers" => slot_list::run(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}
