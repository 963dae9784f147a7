//! The `bus-cache` and `bus-fanout` scenarios.

use std::time::Instant;

use crate::{Args, Output, Random};

/// What the subscriber has counted.
#[derive(Debug, Default, Clone, Copy)]
pub struct Received {
    pub count: u64,
    pub sum: u64,
}

/// A last-value cache with one asynchronous subscriber.
pub trait Bus: Sized {
    fn publish(&mut self, key: u64, value: u64);

    /// Waits until the subscriber has received everything; returns what it counted, and
    /// the sum of the cached values.
    fn drain(self, updates: u64) -> (Received, u64);
}

/// Runs `bus-cache`.
pub fn run<B: Bus>(args: &Args, make: impl FnOnce(u64) -> B) {
    let (keys, updates) = (args.number("keys"), args.number("updates"));
    let mut random = Random::new(args.number("seed"));
    let targets: Vec<u32> = (0..updates)
        .map(|_| (random.next() % keys) as u32)
        .collect();
    let mut bus = make(keys);
    let begin = Instant::now();
    for (index, key) in targets.iter().enumerate() {
        bus.publish(u64::from(*key), index as u64 + 1);
    }
    let (received, cache_sum) = bus.drain(updates);
    let spent = begin.elapsed();
    let mut output = Output::default();
    output.figure("messages_per_s", updates as f64 / spent.as_secs_f64());
    output.check("received", received.count);
    output.check("received_sum", received.sum);
    output.check("cache_sum", cache_sum);
    output.finish();
}

/// Subscriptions by key.
pub trait Fanout: Sized {
    fn publish(&mut self, key: u64, value: u64);

    /// Waits for the last delivery; returns how many events the subscriber of key 0
    /// received, and how many all others together.
    fn drain(self, updates: u64) -> (u64, u64);
}

/// Runs `bus-fanout`.
pub fn run_fanout<F: Fanout>(args: &Args, make: impl FnOnce(u64) -> F) {
    let (subscribers, updates) = (args.number("subscribers"), args.number("updates"));
    let mut fanout = make(subscribers);
    let begin = Instant::now();
    (1..=updates).for_each(|value| fanout.publish(0, value));
    let (matched, others) = fanout.drain(updates);
    let mut output = Output::default();
    output.figure(
        "publish_ns",
        begin.elapsed().as_nanos() as f64 / updates as f64,
    );
    output.check("matched", matched);
    output.check("others", others);
    output.finish();
}
