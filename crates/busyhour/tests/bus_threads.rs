//! Threads publish, subscribe and unsubscribe at the same time: every view ends
//! equal to the cache, every loss was announced, and the order of a key is
//! never broken.

use busyhour::{
    bus::{Delivery, Event, NodeId, Subscription, SubscriptionBuilder, Topic},
    pool::TaskPool,
    serializer::Serializer,
    task::{Executor, Overflow},
};
use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

/// The factor for the amount of work; 1 where tests must be quick.
fn scale() -> u64 {
    let scale = env::var("BUSYHOUR_TEST_SCALE").ok();
    scale.and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

/// A change of a key that owns memory, numbered in the order of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    key: u64,
    number: u64,
    text: Arc<str>,
}

impl Change {
    fn new(key: u64, number: u64) -> Self {
        let text = format!("{key} {number}").into();
        Self { key, number, text }
    }

    fn check(&self) {
        assert_eq!(*self.text, format!("{} {}", self.key, self.number));
    }
}

impl Event for Change {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

/// The states that one subscriber knows, and its counts.
#[derive(Default)]
struct View {
    last: BTreeMap<u64, u64>,
    /// The highest number of each key, also of cleared keys.
    highest: BTreeMap<u64, u64>,
    /// The node that published each state.
    origins: BTreeMap<u64, NodeId>,
    events: u64,
    lost: u64,
    replays: u64,
}

impl View {
    fn hear(&mut self, delivery: Delivery<'_, Change>) {
        match delivery {
            Delivery::Event(change, origin) => {
                change.check();
                self.origins.insert(change.key, origin);
                let before = self.highest.insert(change.key, change.number);
                assert!(
                    before.is_none_or(|before| before < change.number),
                    "key {}: {} after {before:?}",
                    change.key,
                    change.number
                );
                self.last.insert(change.key, change.number);
                self.events += 1;
            }
            Delivery::Removed(key, origin) => {
                assert_eq!(origin, node_of(*key));
                self.origins.remove(key);
                self.last.remove(key);
            }
            Delivery::Replayed => self.replays += 1,
            Delivery::Lost(count) => self.lost += count,
        }
    }
}

struct Watch {
    view: Arc<Mutex<View>>,
    subscription: Subscription<Change>,
}

fn watch(builder: SubscriptionBuilder<Change>, on: &(impl Executor + Clone + 'static)) -> Watch {
    let view = Arc::new(Mutex::new(View::default()));
    let heard = Arc::clone(&view);
    let subscription = builder
        .on(on)
        .start(move |delivery| heard.lock().unwrap().hear(delivery));
    Watch { view, subscription }
}

fn pool() -> TaskPool {
    TaskPool::builder().name("bus").workers(2).build().unwrap()
}

/// Returns when everything that was published before has been delivered.
fn drain(watch: &Watch, serializer: &Serializer) {
    loop {
        let (sender, receiver) = mpsc::channel();
        serializer.push(move || sender.send(()).unwrap()).unwrap();
        receiver.recv().unwrap();
        if watch.subscription.is_idle() {
            return;
        }
    }
}

/// Runs `publishers` threads, each with keys of its own, so that the numbers of
/// a key follow the order of publishing. Sometimes a key is cleared. A third of
/// the keys belong to other nodes. Returns how many losses the publishers were
/// told of.
fn publish_from_threads(topic: &Topic<Change>, publishers: u64, keys: u64, rounds: u64) -> u64 {
    let lost = AtomicU64::new(0);
    thread::scope(|scope| {
        for publisher in 0..publishers {
            let lost = &lost;
            scope.spawn(move || {
                for round in 0..rounds {
                    for key in (publisher..keys).step_by(publishers as usize) {
                        let (origin, change) = (node_of(key), Change::new(key, round + 1));
                        let published = topic.publish_from(origin, change);
                        lost.fetch_add(published.lost, Ordering::Relaxed);
                        if (key + round) % 13 == 0 {
                            let cleared = topic.remove_from(origin, &key);
                            lost.fetch_add(cleared.lost, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    lost.into_inner()
}

/// The node that a key belongs to; most keys belong to this node.
fn node_of(key: u64) -> NodeId {
    NodeId(if key % 3 == 0 { key % 2 + 1 } else { 0 })
}

fn cache_of(topic: &Topic<Change>) -> BTreeMap<u64, u64> {
    let events = topic.snapshot();
    events.iter().for_each(Change::check);
    events
        .iter()
        .map(|event| (event.key, event.number))
        .collect()
}

#[test]
fn every_view_ends_equal_to_the_cache() {
    let pool = pool();
    let topic = Topic::<Change>::builder("views").cached().build();
    let roomy = pool.serializer("roomy").build().unwrap();
    let tight = pool.serializer("tight").build().unwrap();
    let conflating = pool.serializer("conflating").build().unwrap();
    let blocking = pool.serializer("blocking").build().unwrap();
    let watches = [
        (
            watch(topic.subscribe().replay().capacity(100_000), &roomy),
            &roomy,
        ),
        (
            watch(topic.subscribe().replay().capacity(50), &tight),
            &tight,
        ),
        (
            watch(
                topic.subscribe().replay().capacity(700).conflate(),
                &conflating,
            ),
            &conflating,
        ),
        (
            watch(
                topic
                    .subscribe()
                    .replay()
                    .capacity(64)
                    .overflow(Overflow::Block),
                &blocking,
            ),
            &blocking,
        ),
    ];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Subscribers come and go; each must first receive the whole cache.
        scope.spawn(|| {
            let visitor = pool.serializer("visitor").build().unwrap();
            while !stop.load(Ordering::Relaxed) {
                let watch = watch(topic.subscribe().replay(), &visitor);
                drain(&watch, &visitor);
                watch.subscription.unsubscribe();
                let heard = watch.view.lock().unwrap().events;
                visitor.push_wait(|| ()).unwrap();
                assert_eq!(watch.view.lock().unwrap().events, heard);
            }
        });
        let lost = publish_from_threads(&topic, 8, 10_000, 6 * scale());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(
            lost,
            topic.stats().lost,
            "the publisher that caused it was told"
        );
        assert!(lost > 0, "the small queue is meant to overflow");
    });
    let cache = cache_of(&topic);
    for (watch, serializer) in &watches {
        drain(watch, serializer);
        let view = watch.view.lock().unwrap();
        assert_eq!(view.last, cache, "{}", serializer.name());
        assert_eq!(
            view.lost,
            watch.subscription.lost(),
            "every loss is announced"
        );
        assert!(view.replays > 0);
        assert!(
            view.origins
                .iter()
                .all(|(key, origin)| *origin == node_of(*key))
        );
    }
    let lost = |index: usize| watches[index].0.view.lock().unwrap().lost;
    assert_eq!(lost(3), 0, "a blocking subscription loses nothing");
    let announced: u64 = (0..watches.len()).map(lost).sum();
    assert!(
        announced <= topic.stats().lost,
        "subscribers that have left may have had losses"
    );
}

#[test]
fn every_loss_is_counted_at_both_ends() {
    let pool = pool();
    for overflow in [Overflow::Reject, Overflow::DropOldest, Overflow::Block] {
        let topic = Topic::<Change>::builder("losses").build();
        let serializer = pool.ephemeral();
        let builder = topic.subscribe().capacity(16).overflow(overflow);
        let watch = watch(builder, &serializer);
        let rounds = 500 * scale();
        let totals = Mutex::new((0, 0));
        thread::scope(|scope| {
            for publisher in 0..4 {
                let (topic, totals) = (&topic, &totals);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let published = topic.publish(Change::new(publisher, round));
                        let mut totals = totals.lock().unwrap();
                        totals.0 += published.delivered;
                        totals.1 += published.lost;
                    }
                });
            }
        });
        drain(&watch, &serializer);
        let view = watch.view.lock().unwrap();
        let (delivered, lost) = *totals.lock().unwrap();
        assert_eq!(view.lost, lost, "{overflow:?}");
        assert_eq!(view.events + view.lost, 4 * rounds, "{overflow:?}");
        assert!(delivered + lost >= 4 * rounds);
        assert!(overflow != Overflow::Block || lost == 0);
        assert_eq!(topic.stats().lost, lost);
    }
}

#[test]
fn lookups_never_see_half_an_event() {
    let topic = Topic::<Change>::builder("lookups").cached().build();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut found = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    for key in (0..300).chain((300..30_000).step_by(61)) {
                        if let Some(change) = topic.get(&key) {
                            assert_eq!(change.key, key);
                            change.check();
                            found += 1;
                        }
                    }
                }
                assert!(found > 0);
            });
        }
        // Few keys, so that tables grow and shrink while others read them.
        let _ = publish_from_threads(&topic, 2, 300, 100 * scale());
        for key in 0..300 {
            let _ = topic.remove(&key);
        }
        let _ = publish_from_threads(&topic, 2, 3_000, 10 * scale());
        // So many that lookups guess by tags where a key is, while slots get other keys.
        for _ in 0..2 {
            let _ = publish_from_threads(&topic, 2, 30_000, scale());
            for key in (0..30_000).step_by(2) {
                let _ = topic.remove(&key);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(topic.stats().retired_count < 100_000);
}

#[test]
fn nothing_is_called_after_unsubscribe() {
    let pool = pool();
    let topic = Topic::<Change>::builder("leaving").cached().build();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let _ = topic.publish(Change::new(number % 7, number));
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..300 * scale() {
            let ended = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&ended);
            let (sender, heard) = mpsc::channel();
            let subscription = topic
                .subscribe()
                .replay()
                .on(&pool.ephemeral())
                .start(move |_| {
                    assert!(!seen.load(Ordering::SeqCst), "a callback after the end");
                    let _ = sender.send(());
                });
            // Events are published all the time, so after the first delivery more are on
            // their way.
            heard.recv().unwrap();
            subscription.unsubscribe();
            ended.store(true, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(pool.stats().panicked, 0);
}
