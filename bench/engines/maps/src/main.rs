//! A concurrent map as the cache, and a channel to the subscriber.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Sender, unbounded};
use dashmap::DashMap;
use kit::{
    Args,
    args::refuse,
    bus::{self, Bus, Received},
    lookup::{self, Lookup},
};

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("dashmap", scenario) => run(&args, scenario, Dash::default()),
        ("papaya", scenario) => run(&args, scenario, Papaya::default()),
        ("mutex", scenario) => run(&args, scenario, Locked::default()),
        ("none", scenario) => run(
            &args,
            scenario,
            Array::new(args.optional("keys").unwrap_or(0)),
        ),
        (variant, scenario) => refuse(&format!("{variant} does not do {scenario}")),
    }
}

fn run<C: Cache>(args: &Args, scenario: &str, cache: C) {
    match scenario {
        "bus-cache" => bus::run(args, |_| Channel::start(cache)),
        "bus-lookup" => lookup::run(args, &cache),
        other => refuse(&format!("no scenario {other}")),
    }
}

trait Cache: Lookup {
    fn sum(&self) -> u64;
}

struct Channel<C> {
    cache: C,
    sender: Sender<(u64, u64)>,
    subscriber: JoinHandle<Received>,
}

impl<C: Cache> Channel<C> {
    fn start(cache: C) -> Self {
        let (sender, receiver) = unbounded::<(u64, u64)>();
        let subscriber = thread::spawn(move || {
            let mut received = Received::default();
            for (_, value) in receiver {
                received.count += 1;
                received.sum += value;
            }
            received
        });
        Self {
            cache,
            sender,
            subscriber,
        }
    }
}

impl<C: Cache> Bus for Channel<C> {
    fn publish(&mut self, key: u64, value: u64) {
        self.cache.put(key, value);
        self.sender
            .send((key, value))
            .expect("the subscriber still receives");
    }

    fn drain(self, _updates: u64) -> (Received, u64) {
        drop(self.sender);
        (
            self.subscriber.join().expect("a subscriber"),
            self.cache.sum(),
        )
    }
}

#[derive(Default)]
struct Dash(DashMap<u64, u64>);

impl Lookup for Dash {
    fn put(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| *value)
    }
}

impl Cache for Dash {
    fn sum(&self) -> u64 {
        self.0.iter().map(|entry| *entry.value()).sum()
    }
}

#[derive(Default)]
struct Papaya(papaya::HashMap<u64, u64>);

impl Lookup for Papaya {
    fn put(&self, key: u64, value: u64) {
        self.0.pin().insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }
}

impl Cache for Papaya {
    fn sum(&self) -> u64 {
        self.0.pin().values().sum()
    }
}

#[derive(Default)]
struct Locked(Mutex<HashMap<u64, u64>>);

impl Lookup for Locked {
    fn put(&self, key: u64, value: u64) {
        self.0.lock().unwrap().insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.lock().unwrap().get(&key).copied()
    }
}

impl Cache for Locked {
    fn sum(&self) -> u64 {
        self.0.lock().unwrap().values().sum()
    }
}

/// Without a map: the cost of the channel alone.
struct Array(Vec<AtomicU64>);

impl Array {
    fn new(keys: u64) -> Self {
        Self((0..keys).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Lookup for Array {
    fn put(&self, key: u64, value: u64) {
        self.0[key as usize].store(value, Ordering::Relaxed);
    }

    fn get(&self, key: u64) -> Option<u64> {
        Some(self.0[key as usize].load(Ordering::Relaxed))
    }
}

impl Cache for Array {
    fn sum(&self) -> u64 {
        self.0
            .iter()
            .map(|value| value.load(Ordering::Relaxed))
            .sum()
    }
}
