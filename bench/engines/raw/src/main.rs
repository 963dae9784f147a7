//! The limits of the machine: loads at random addresses, and additions to one
//! counter that threads share.

use kit::{Args, args::refuse, tasks};

mod random_access;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "random-access" => random_access::run(&args),
        "pool-requeue" => tasks::ceiling(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}
