//! Redis and NATS as a bus with a last-value cache, over loopback.

use kit::{Args, args::refuse, bus};

mod nats;
mod redis;
mod server;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("redis", "bus-cache") => bus::run(&args, redis::Redis::start),
        ("nats", "bus-cache") => bus::run(&args, nats::Nats::start),
        (variant, scenario) => refuse(&format!("{variant} does not do {scenario}")),
    }
}
