//! Repeats one use of a topic as often as given, and nothing else, for
//! `scripts/count.sh bus`, which counts instructions and cache misses.
//!
//!     bus_cost WAY COUNT [KEYS]

use busyhour::bus::{Event, NodeId, Subscription, Topic};
use std::{env, hint::black_box, process::exit};

#[derive(Debug, Clone, Copy)]
struct Update {
    key: u64,
    value: u64,
}

impl Event for Update {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

fn main() {
    let mut words = env::args().skip(1);
    let way = words.next().unwrap_or_default();
    let mut number = |default: u64| {
        let word = words.next();
        word.map_or(Some(default), |word| word.parse().ok())
    };
    let (Some(count), Some(keys)) = (number(1), number(1_000)) else {
        refuse("COUNT and KEYS are numbers");
    };
    run(&way, count, keys.max(1));
}

fn run(way: &str, count: u64, keys: u64) {
    match way {
        "idle" => publish(&Topic::builder("idle").build(), count, keys),
        "cached" => publish(&Topic::builder("cached").cached().build(), count, keys),
        "if-changed" => publish_if(count, keys, false),
        "if-same" => publish_if(count, keys, true),
        "fold-one-node" => publish(&folding(), count, keys),
        "fold-two-nodes" => publish_folded(count, keys),
        "subscriber" => with_subscribers(count, keys, 0, true),
        "by-key-1" => with_subscribers(count, 1, 1, false),
        "by-key-1000" => with_subscribers(count, 1, 1_000, false),
        "lookup" => look_up(count, keys),
        other => refuse(&format!("no such way: {other:?}")),
    }
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}; usage: bus_cost WAY COUNT [KEYS]");
    exit(2)
}

/// A sequence that visits the keys in an order that no cache can predict.
fn scattered(count: u64, keys: u64) -> impl Iterator<Item = u64> {
    let numbers = (1..=count).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    numbers.map(move |number| (number >> 32) % keys)
}

fn fill(topic: &Topic<Update>, keys: u64) {
    for key in 0..keys {
        let _ = topic.publish(Update { key, value: 0 });
    }
}

fn publish(topic: &Topic<Update>, count: u64, keys: u64) {
    fill(topic, keys);
    for key in scattered(count, keys) {
        let _ = black_box(topic.publish(Update { key, value: key }));
    }
}

/// Publishes what differs from the last value: each event does, or none does.
fn publish_if(count: u64, keys: u64, is_same: bool) {
    let topic = Topic::builder("cached").cached().build();
    fill(&topic, keys);
    for (number, key) in scattered(count, keys).enumerate() {
        let value = if is_same { 0 } else { number as u64 + 1 };
        let published = topic.publish_if(Update { key, value }, |last| last.value != value);
        assert_eq!(black_box(published).is_none(), is_same);
    }
}

fn folding() -> Topic<Update> {
    let sum = |parts: &[(NodeId, Update)]| Update {
        key: parts[0].1.key,
        value: parts.iter().map(|(_, update)| update.value).sum(),
    };
    Topic::builder("folding").fold(NodeId(1), sum).build()
}

/// The other node has published every key.
fn publish_folded(count: u64, keys: u64) {
    let topic = folding();
    for key in 0..keys {
        let _ = topic.publish_from(NodeId(2), Update { key, value: 1 });
    }
    publish(&topic, count, keys);
}

/// Subscriptions on the publisher's thread: to everything, or by key.
fn with_subscribers(count: u64, keys: u64, by_key: u64, all: bool) {
    let topic = Topic::builder("heard").cached().build();
    let subscribe = |key| {
        topic.subscribe().key(key).start(|delivery| {
            black_box(&delivery);
        })
    };
    let _by_key: Vec<Subscription<Update>> = (0..by_key).map(subscribe).collect();
    let everything = || {
        topic.subscribe().start(|delivery| {
            black_box(&delivery);
        })
    };
    let _all = all.then(everything);
    publish(&topic, count, keys);
}

fn look_up(count: u64, keys: u64) {
    let topic = Topic::builder("looked up").cached().build();
    fill(&topic, keys);
    for key in scattered(count, keys) {
        assert!(black_box(topic.get(&key)).is_some());
    }
}
