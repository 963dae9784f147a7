//! The limits of the machine: loads at random addresses, additions to one counter
//! that threads share, and threads that share nothing.

use kit::{Args, args::refuse, tasks};

mod only_compute;
mod random_access;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "random-access" => random_access::run(&args),
        "only-compute" => only_compute::run(&args),
        "pool-requeue" => tasks::ceiling(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}
