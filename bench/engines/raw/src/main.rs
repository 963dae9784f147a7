//! The limits of the machine: loads at random addresses, additions to one counter
//! that threads share, threads that share nothing, and turns one after the other.

use kit::{Args, args::refuse, tasks};

mod only_compute;
mod random_access;
mod ring;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "random-access" => random_access::run(&args),
        "only-compute" => only_compute::run(&args),
        "run-queue-busy" => ring::run(&args),
        "pool-requeue" => tasks::ceiling(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}
