//! A cached topic with one subscriber on a worker; lookups; subscribers by key.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use busyhour::{
    bus::{Delivery, Event, Packing, Subscription, Topic},
    pool::TaskPool,
    serializer::Serializer,
    task::Overflow,
};
use kit::bus::{Bus, Received};

/// What the messages of peers carry, too: a key and a value.
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

#[derive(Default)]
struct Counts {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Counts {
    /// Only one task at a time runs this, so plain loads and stores are enough.
    fn note(&self, delivery: &Delivery<'_, Update>) {
        if let Delivery::Event(update, _) = delivery {
            self.sum.store(
                self.sum.load(Ordering::Relaxed) + update.value,
                Ordering::Relaxed,
            );
            self.count
                .store(self.count.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    fn wait_for(&self, count: u64) {
        while self.count.load(Ordering::Acquire) < count {
            std::thread::yield_now();
        }
    }
}

fn worker() -> (TaskPool, Serializer) {
    let pool = TaskPool::builder()
        .workers(1)
        .minimum(1)
        .maximum(1)
        .build()
        .expect("a pool of one");
    let serializer = pool
        .serializer("subscriber")
        .build()
        .expect("the only name");
    (pool, serializer)
}

pub struct Cached {
    topic: Topic<Update>,
    counts: Arc<Counts>,
    _subscription: Subscription<Update>,
    _pool: TaskPool,
}

impl Cached {
    pub fn start(_keys: u64) -> Self {
        let (pool, serializer) = worker();
        let topic = Topic::builder("updates").cached().build();
        let counts = Arc::new(Counts::default());
        let theirs = Arc::clone(&counts);
        let subscription = topic
            .subscribe()
            .capacity(CAPACITY)
            .overflow(Overflow::Block)
            .on(&serializer)
            .start(move |delivery| theirs.note(&delivery));
        Self {
            topic,
            counts,
            _subscription: subscription,
            _pool: pool,
        }
    }
}

impl Bus for Cached {
    fn publish(&mut self, key: u64, value: u64) {
        let _ = self.topic.publish(Update { key, value });
    }

    fn drain(self, updates: u64) -> (Received, u64) {
        self.counts.wait_for(updates);
        let sum = self
            .topic
            .snapshot()
            .iter()
            .map(|update| update.value)
            .sum();
        let received = Received {
            count: self.counts.count.load(Ordering::Acquire),
            sum: self.counts.sum.load(Ordering::Acquire),
        };
        (received, sum)
    }
}

/// The same, kept packed beside its key, as the maps of peers keep it: lookups cost less, and
/// publishes more.
#[derive(Debug, Clone, Copy)]
struct PackedUpdate(Update);

impl Event for PackedUpdate {
    type Key = u64;

    const PACKING: Option<Packing<Self>> = Some(Packing::new(
        2,
        |Self(update)| [update.key, update.value, 0],
        |[key, value, _]| Self(Update { key, value }),
    ));

    fn key(&self) -> &u64 {
        &self.0.key
    }
}

pub struct Lookup(Topic<PackedUpdate>);

impl Lookup {
    pub fn new() -> Self {
        Self(Topic::builder("updates").cached().build())
    }
}

impl kit::lookup::Lookup for Lookup {
    fn put(&self, key: u64, value: u64) {
        let _ = self.0.publish(PackedUpdate(Update { key, value }));
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|update| update.0.value)
    }
}

pub struct Fanout {
    topic: Topic<Update>,
    matched: Arc<Counts>,
    others: Arc<Counts>,
    _subscriptions: Vec<Subscription<Update>>,
    _pool: TaskPool,
}

impl Fanout {
    pub fn start(subscribers: u64) -> Self {
        let (pool, serializer) = worker();
        let topic: Topic<Update> = Topic::builder("updates").cached().build();
        let (matched, others) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
        let subscribe = |key: u64| {
            let counts = Arc::clone(if key == 0 { &matched } else { &others });
            let subscription = topic
                .subscribe()
                .key(key)
                .capacity(CAPACITY)
                .overflow(Overflow::Block);
            subscription
                .on(&serializer)
                .start(move |delivery| counts.note(&delivery))
        };
        let subscriptions = (0..subscribers).map(subscribe).collect();
        Self {
            topic,
            matched,
            others,
            _subscriptions: subscriptions,
            _pool: pool,
        }
    }
}

impl kit::bus::Fanout for Fanout {
    fn publish(&mut self, key: u64, value: u64) {
        let _ = self.topic.publish(Update { key, value });
    }

    fn drain(self, updates: u64) -> (u64, u64) {
        self.matched.wait_for(updates);
        (
            self.matched.count.load(Ordering::Acquire),
            self.others.count.load(Ordering::Acquire),
        )
    }
}

/// Bounded, as in a server: a publisher that is far ahead waits.
const CAPACITY: usize = 65_536;
