//! tokio and tokio-util.

use kit::{Args, args::refuse, bus, tasks};

mod channel;
mod delay_queue;
mod spawn;
mod yielding;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("spawn", "pool-requeue") => {
            tasks::requeue(&args, spawn::Runtime::new(args.number("workers")))
        }
        ("spawn", "pool-external") => {
            tasks::external(&args, spawn::Runtime::new(args.number("workers")))
        }
        ("spawn", "serializer-pingpong") => spawn::pingpong(&args),
        ("yield", "pool-requeue") => yielding::requeue(&args),
        ("yield", "run-queue") => yielding::run_queue(&args),
        ("delay-queue", "timers") => delay_queue::run(&args),
        ("mpsc", "bus-cache") => bus::run(&args, channel::Channel::start),
        (variant, scenario) => refuse(&format!("{variant} does not do {scenario}")),
    }
}
