//! Events that are kept packed beside their keys are read as all others are.

use busyhour::bus::{Delivery, Event, NodeId, Packing, Topic};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Its second word says what the third one must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    key: u64,
    value: u64,
    inverse: u64,
}

impl Reading {
    const fn new(key: u64, value: u64) -> Self {
        let inverse = !value;
        Self {
            key,
            value,
            inverse,
        }
    }
}

impl Event for Reading {
    type Key = u64;

    const PACKING: Option<Packing<Self>> = Some(Packing::new(
        3,
        |reading| [reading.key, reading.value, reading.inverse],
        |[key, value, inverse]| Reading {
            key,
            value,
            inverse,
        },
    ));

    fn key(&self) -> &u64 {
        &self.key
    }
}

#[derive(Debug, Clone)]
enum Step {
    Publish(u64, u64),
    /// From another node, which has no words for the table.
    PublishElsewhere(u64, u64),
    PublishIfLarger(u64, u64),
    Remove(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..800_u64;
    prop_oneof![
        6 => (key(), any::<u64>()).prop_map(|(key, value)| Step::Publish(key, value)),
        1 => (key(), any::<u64>()).prop_map(|(key, value)| Step::PublishElsewhere(key, value)),
        2 => (key(), any::<u64>()).prop_map(|(key, value)| Step::PublishIfLarger(key, value)),
        2 => key().prop_map(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cache_of_packed_events_behaves_like_a_map(steps in vec(step(), 1..4_000)) {
        let topic = Topic::<Reading>::builder("readings").cached().node(NodeId(1)).build();
        let mut map = HashMap::<u64, u64>::new();
        for step in steps {
            let key = match step {
                Step::Publish(key, value) => {
                    _ = topic.publish(Reading::new(key, value));
                    map.insert(key, value);
                    key
                }
                Step::PublishElsewhere(key, value) => {
                    _ = topic.publish_from(NodeId(2), Reading::new(key, value));
                    map.insert(key, value);
                    key
                }
                Step::PublishIfLarger(key, value) => {
                    let is_published = topic.publish_if(Reading::new(key, value), |last| last.value < value);
                    let is_larger = map.get(&key).is_none_or(|last| *last < value);
                    prop_assert_eq!(is_published.is_some(), is_larger);
                    if is_larger {
                        map.insert(key, value);
                    }
                    key
                }
                Step::Remove(key) => {
                    _ = topic.remove(&key);
                    map.remove(&key);
                    key
                }
            };
            let wanted = |key: u64| map.get(&key).map(|value| Reading::new(key, *value));
            prop_assert_eq!(topic.get(&key), wanted(key));
            prop_assert_eq!(topic.get(&(key + 1)), wanted(key + 1));
        }
        let mut snapshot: Vec<_> = topic.snapshot().iter().map(|it| (it.key, it.value)).collect();
        let mut wanted: Vec<_> = map.into_iter().collect();
        snapshot.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(snapshot, wanted);
    }
}

#[test]
fn a_lookup_never_mixes_the_words_of_two_events() {
    let topic = Topic::<Reading>::builder("readings").cached().build();
    let stop = AtomicBool::new(false);
    let read = || {
        while !stop.load(Ordering::Relaxed) {
            for key in 0..40 {
                if let Some(found) = topic.get(&key) {
                    assert_eq!(found, Reading::new(key, found.value));
                }
            }
        }
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for value in 0..20_000 {
            _ = topic.publish(Reading::new(value % 40, value));
            if value % 97 == 0 {
                _ = topic.remove(&(value % 40));
            }
            // Keys that are beyond those read let the tables grow.
            if value % 10 == 0 {
                _ = topic.publish(Reading::new(1_000 + value, value));
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_lookup_after_a_delivery_finds_what_was_delivered_or_a_later_one() {
    let topic = Topic::<Reading>::builder("readings").cached().build();
    let found = Mutex::new(Vec::new());
    let sink = topic.clone();
    let found = std::sync::Arc::new(found);
    let theirs = found.clone();
    let _subscription = topic.subscribe().start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            theirs.lock().unwrap().push((*event, sink.get(&event.key)));
        }
    });
    for value in 0..100 {
        _ = topic.publish(Reading::new(value % 3, value));
    }
    let found = found.lock().unwrap();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|(event, found)| *found == Some(*event)));
}

/// Cannot be packed.
#[derive(Debug, Clone, Copy)]
struct Unpackable(u64);

impl Event for Unpackable {
    type Key = u64;

    const PACKING: Option<Packing<Self>> = Some(Packing::new(
        1,
        |_| unreachable!("there is no table for the words"),
        |[key, ..]| Unpackable(key),
    ));

    fn key(&self) -> &u64 {
        &self.0
    }
}

#[test]
fn without_a_cache_nothing_is_packed() {
    let topic = Topic::<Unpackable>::builder("heard").build();
    let (sender, receiver) = std::sync::mpsc::channel();
    let pool = busyhour::pool::TaskPool::builder().workers(1).build();
    let _subscription = topic.subscribe().on(&pool.unwrap()).start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            sender.send(event.0).unwrap();
        }
    });
    _ = topic.publish(Unpackable(7));
    assert_eq!(receiver.recv(), Ok(7));
}
