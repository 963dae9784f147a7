//! The bus in the deterministic simulation: eight publishers, subscriptions
//! that come and go, all in random order. Every view ends equal to the cache,
//! and the same seed gives the same history.

use busyhour::{
    bus::{Delivery, Event, NodeId, Subscription, Topic},
    runtime::{Runtime, Simulation},
    serializer::Serializer,
    task::Overflow,
};
use std::{
    collections::BTreeMap,
    env,
    panic::catch_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// How many seeds to run; set `BUSYHOUR_TEST_SEED` to replay one.
fn seeds() -> Vec<u64> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    match number("BUSYHOUR_TEST_SEED") {
        Some(seed) => vec![seed],
        None => {
            let scale = number("BUSYHOUR_TEST_SCALE").unwrap_or(1);
            let divisor = number("BUSYHOUR_TEST_DIVISOR").unwrap_or(1);
            (0..20 * scale / divisor).collect()
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Change {
    key: u64,
    number: u64,
    owner: Arc<()>,
}

impl Event for Change {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

#[derive(Default)]
struct View {
    last: BTreeMap<u64, u64>,
    highest: BTreeMap<u64, u64>,
    /// The node that published the last state of each key.
    origins: BTreeMap<u64, NodeId>,
    lost: u64,
    heard: Vec<u64>,
}

impl View {
    /// Whether no key went back to an older state.
    fn is_plausible(&self) -> bool {
        let mut last = self.last.iter();
        last.all(|(key, number)| self.highest.get(key) == Some(number))
    }

    fn hear(&mut self, delivery: Delivery<'_, Change>) {
        match delivery {
            Delivery::Event(change, origin) => {
                self.origins.insert(change.key, origin);
                let before = self.highest.insert(change.key, change.number);
                assert!(before.is_none_or(|before| before < change.number));
                self.last.insert(change.key, change.number);
                self.heard.push(change.key << 32 | change.number);
            }
            Delivery::Removed(key, _) => {
                self.last.remove(key);
                self.origins.remove(key);
                self.heard.push(*key);
            }
            Delivery::Replayed => self.heard.push(u64::MAX),
            Delivery::Lost(count) => {
                self.lost += count;
                self.heard.push(u64::MAX - count);
            }
        }
    }
}

struct World {
    runtime: Runtime,
    topic: Topic<Change>,
    views: Vec<(Arc<Mutex<View>>, Subscription<Change>)>,
    publishers: Vec<Serializer>,
    owner: Arc<()>,
    number: u64,
    keys: u64,
    /// Losses that publishers were told of, and losses of subscriptions that
    /// have ended.
    told: Arc<AtomicU64>,
    lost_before: u64,
}

const PUBLISHERS: u64 = 8;
/// The most subscriptions at a time: each receives every change.
const VIEWS_MAX: usize = 12;

impl World {
    fn new(seed: u64, keys: u64) -> Self {
        let runtime = Runtime::simulated(seed);
        let topic = runtime.topic::<Change>("changes").cached().build();
        let publisher = |index| {
            let publisher = runtime.serializer(&format!("publisher {index}"));
            publisher.capacity(1 << 20).build().unwrap()
        };
        let publishers = (0..PUBLISHERS).map(publisher).collect();
        Self {
            runtime,
            topic,
            publishers,
            views: Vec::new(),
            owner: Arc::default(),
            number: 0,
            keys,
            told: Arc::default(),
            lost_before: 0,
        }
    }

    fn simulation(&self) -> &Simulation {
        self.runtime.simulation().unwrap()
    }

    fn below(&self, bound: u64) -> u64 {
        self.simulation().random_u64() % bound
    }

    fn step(&mut self) {
        match self.below(100) {
            0..3 if self.views.len() < VIEWS_MAX => self.subscribe(),
            3..5 if self.views.len() > 3 => {
                let index = self.below(self.views.len() as u64) as usize;
                let (view, subscription) = self.views.swap_remove(index);
                self.lost_before += subscription.lost();
                subscription.unsubscribe();
                assert!(view.lock().unwrap().is_plausible());
            }
            5..40 => {
                self.simulation().step();
            }
            _ => self.publish(),
        }
    }

    fn subscribe(&mut self) {
        let view = Arc::new(Mutex::new(View::default()));
        let heard = Arc::clone(&view);
        let overflow = [
            Overflow::Reject,
            Overflow::DropOldest,
            Overflow::Block,
            Overflow::Conflate,
        ];
        let builder = self
            .topic
            .subscribe()
            .replay()
            .capacity(1 + self.below(20) as usize)
            .overflow(overflow[self.below(4) as usize])
            .on(&self.runtime.pool().ephemeral());
        let hear = move |delivery: Delivery<'_, Change>| heard.lock().unwrap().hear(delivery);
        self.views.push((view, builder.start(hear)));
    }

    /// Publishes on the serializer of the key's publisher, so that the numbers
    /// of a key follow the order of publishing.
    fn publish(&mut self) {
        self.number += 1;
        let key = self.below(self.keys);
        let (topic, number) = (self.topic.clone(), self.number);
        let (owner, told) = (Arc::clone(&self.owner), Arc::clone(&self.told));
        let is_clear = self.below(10) == 0;
        // Usually this node.
        let origin = NodeId(self.below(6).saturating_sub(3));
        let publish = move || {
            let lost = if is_clear {
                topic.remove_from(origin, &key).lost
            } else {
                let change = Change { key, number, owner };
                topic.publish_from(origin, change).lost
            };
            told.fetch_add(lost, Ordering::Relaxed);
        };
        let publisher = &self.publishers[(key % PUBLISHERS) as usize];
        publisher.push(publish).unwrap();
    }

    /// Lets everything finish, and compares every view with the cache.
    fn check(&self) {
        self.simulation().run_until_idle();
        let cache: BTreeMap<u64, u64> = self
            .topic
            .snapshot()
            .iter()
            .map(|change| (change.key, change.number))
            .collect();
        let origin_of = |key: &u64| (*key, self.topic.origin_of(key).unwrap());
        let origins: BTreeMap<u64, NodeId> = cache.keys().map(origin_of).collect();
        let mut lost = self.lost_before;
        for (view, subscription) in &self.views {
            assert!(subscription.is_idle());
            let view = view.lock().unwrap();
            assert_eq!(view.last, cache);
            assert_eq!(view.origins, origins);
            assert_eq!(view.lost, subscription.lost(), "every loss is announced");
            lost += view.lost;
            for event in &view.heard {
                self.simulation().trace_u64(*event);
            }
        }
        let stats = self.topic.stats();
        assert_eq!(stats.cached_count, cache.len() as u64);
        assert_eq!(stats.lagging_count, 0);
        assert_eq!(stats.lost, lost, "each loss belongs to one subscription");
        let told = self.told.load(Ordering::Relaxed);
        assert_eq!(told, stats.lost, "the publisher that caused it was told");
        self.simulation().trace_u64(stats.lost);
        self.simulation().trace_u64(stats.conflated);
    }
}

/// Returns the hash of all that happened, and how much was lost.
fn run(seed: u64) -> (u64, u64) {
    run_with(seed, 300, 500)
}

fn run_with(seed: u64, keys: u64, steps: usize) -> (u64, u64) {
    let mut world = World::new(seed, keys);
    for _ in 0..4 {
        (0..steps).for_each(|_| world.step());
        world.check();
    }
    let hash = world.simulation().trace_hash();
    let lost = world.topic.stats().lost;
    let owner = Arc::clone(&world.owner);
    drop(world);
    assert_eq!(Arc::strong_count(&owner), 1, "an event outlived its topic");
    (hash, lost)
}

#[test]
fn every_view_ends_equal_to_the_cache_whatever_the_order() {
    let mut lost = 0;
    for seed in seeds() {
        let replay = format!("BUSYHOUR_TEST_SEED={seed} cargo test -p busyhour --test bus_sim");
        let outcome = catch_unwind(|| run(seed));
        let (_, lost_here) = outcome.unwrap_or_else(|_| panic!("replay with: {replay}"));
        lost += lost_here;
    }
    assert!(lost > 0, "the queues are meant to overflow");
}

/// A small site has about as many devices as this has keys. There are few runs,
/// since each is long.
#[test]
fn every_view_receives_ten_thousand_keys() {
    let count = seeds().len().div_ceil(30);
    for seed in seeds().into_iter().take(count) {
        let (_, lost) = run_with(seed, 10_000, 5_000);
        assert!(lost > 0, "seed {seed}: the queues are meant to overflow");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in seeds().into_iter().take(5) {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}
