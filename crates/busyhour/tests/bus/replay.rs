//! A running subscription that asks for the cache again.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    thread,
};

use busyhour::{
    bus::{Delivery, Event, Message, Subscription, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
};
use futures_core::Stream;

#[derive(Clone, Debug, PartialEq)]
struct Tick(u32, u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Event(u32, u32),
    Removed(u32),
    Replayed,
    Lost(u64),
}

use Heard::{Event as Ev, Lost, Removed, Replayed};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Heard>>>);

impl Log {
    fn note(&self) -> impl FnMut(Delivery<'_, Tick>) + Send + 'static {
        let log = self.clone();
        move |delivery| log.all().push(heard(&delivery))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.0.lock().unwrap()
    }

    fn count(&self, wanted: Heard) -> usize {
        self.all().iter().filter(|heard| **heard == wanted).count()
    }

    /// What was heard since the last call, its events in the order of their
    /// keys as far as they follow each other.
    fn take(&self) -> Vec<Heard> {
        let mut all = std::mem::take(&mut *self.all());
        let is_event = |heard: &Heard| matches!(heard, Ev(..));
        for events in all.chunk_by_mut(|one, next| is_event(one) && is_event(next)) {
            events.sort_by_key(|heard| if let Ev(key, _) = heard { *key } else { 0 });
        }
        all
    }
}

fn heard(delivery: &Delivery<'_, Tick>) -> Heard {
    match delivery {
        Delivery::Event(Tick(key, value), _) => Ev(*key, *value),
        Delivery::Removed(key, _) => Removed(**key),
        Delivery::Replayed => Replayed,
        Delivery::Lost(count) => Lost(*count),
    }
}

fn idle_pool() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::default()))
}

fn topic_with(ticks: &[Tick]) -> Topic<Tick> {
    let topic = Topic::builder("ticks").cached().build();
    ticks
        .iter()
        .for_each(|tick| _ = topic.publish(tick.clone()));
    topic
}

#[test]
fn a_replay_tells_each_cached_key_once_more_and_then_its_end() {
    let (ticks, log) = (
        topic_with(&[Tick(1, 10), Tick(2, 20), Tick(3, 30)]),
        Log::default(),
    );
    let subscription = ticks.subscribe().replay().start(log.note());
    let cache = [Ev(1, 10), Ev(2, 20), Ev(3, 30), Replayed];
    assert_eq!(log.take(), cache);
    subscription.replay();
    assert_eq!(log.take(), cache);
    _ = ticks.publish(Tick(2, 21));
    _ = ticks.remove(&3);
    assert_eq!(log.take(), [Ev(2, 21), Removed(3)]);
    subscription.replay();
    assert_eq!(log.take(), [Ev(1, 10), Ev(2, 21), Replayed]);
    _ = ticks.publish(Tick(4, 40));
    assert_eq!(log.take(), [Ev(4, 40)]);
}

#[test]
fn a_subscription_that_began_without_a_replay_may_ask_for_one() {
    let (ticks, log) = (topic_with(&[Tick(1, 10), Tick(2, 20)]), Log::default());
    let by_key = ticks.subscribe().key(2).start(log.note());
    by_key.replay();
    assert_eq!(log.take(), [Ev(2, 20), Replayed]);
    drop(by_key);
    let matching = ticks
        .subscribe()
        .matching(|tick| tick.1 < 15)
        .start(log.note());
    matching.replay();
    assert_eq!(log.take(), [Ev(1, 10), Replayed]);
}

#[test]
fn a_topic_without_a_cache_only_tells_the_end() {
    let (ticks, log) = (Topic::builder("ticks").build(), Log::default());
    let subscription = ticks.subscribe().start(log.note());
    _ = ticks.publish(Tick(1, 10));
    subscription.replay();
    assert_eq!(log.take(), [Ev(1, 10), Replayed]);
}

#[test]
fn what_waits_comes_first_and_asking_twice_replays_once() {
    let (ticks, log, pool) = (topic_with(&[Tick(1, 10)]), Log::default(), idle_pool());
    let subscription = ticks.subscribe().on(&pool).start(log.note());
    _ = ticks.publish(Tick(1, 11));
    subscription.replay();
    subscription.replay();
    _ = ticks.publish(Tick(1, 12));
    while pool.step() {}
    assert_eq!(log.take(), [Ev(1, 11), Ev(1, 12), Ev(1, 12), Replayed]);
    subscription.replay();
    while pool.step() {}
    assert_eq!(log.take(), [Ev(1, 12), Replayed]);
}

/// The subscription lags in nearly every shard when its replay begins, and
/// has asked for it before or after it began to lag.
fn laggard_asks(asks_first: bool) {
    let all: Vec<Tick> = (1..=300).map(|key| Tick(key, 10)).collect();
    let (ticks, log, pool) = (topic_with(&all), Log::default(), idle_pool());
    // Another laggard, for which the topic remembers what was removed.
    let never_runs = idle_pool();
    let other = ticks.subscribe().replay().capacity(1).on(&never_runs);
    let _other = other.start(|_| ());
    while never_runs.step() {}
    (1..=300).for_each(|key| _ = ticks.publish(Tick(key, 11)));
    let subscription = ticks.subscribe().replay().capacity(2).on(&pool);
    let subscription = subscription.start(log.note());
    while pool.step() {}
    _ = ticks.remove(&1);
    while pool.step() {}
    assert_eq!(log.take().last(), Some(&Removed(1)));
    if asks_first {
        subscription.replay();
    }
    // The first two fill the queue; in the shards of the others it lags.
    for key in 2..=200 {
        _ = ticks.publish(Tick(key, 99));
    }
    _ = ticks.remove(&200);
    if !asks_first {
        subscription.replay();
    }
    while pool.step() {}
    let told = log.take();
    let count = |wanted: Heard| told.iter().filter(|heard| **heard == wanted).count();
    assert_eq!((count(Removed(1)), count(Removed(200))), (0, 1));
    assert!((2..200).all(|key| count(Ev(key, 99)) >= 1));
    assert!((201..=300).all(|key| count(Ev(key, 11)) == 1));
    assert_eq!(told.last(), Some(&Replayed));
    let lost = told
        .iter()
        .map(|heard| if let Lost(count) = heard { *count } else { 0 });
    assert_eq!(lost.sum::<u64>(), subscription.lost());
}

#[test]
fn a_laggard_that_asks_again_hears_of_all_keys_and_of_each_removal_once() {
    laggard_asks(true);
    laggard_asks(false);
}

#[test]
fn a_stream_asks_again_too() {
    let ticks = topic_with(&[Tick(1, 10)]);
    let mut stream = pin!(ticks.subscribe().stream());
    let mut context = Context::from_waker(Waker::noop());
    assert!(stream.as_mut().poll_next(&mut context).is_pending());
    stream.replay();
    let first = stream.as_mut().poll_next(&mut context);
    assert!(matches!(
        first,
        Poll::Ready(Some(Message::Event(Tick(1, 10), _)))
    ));
    let end = stream.as_mut().poll_next(&mut context);
    assert!(matches!(end, Poll::Ready(Some(Message::Replayed))));
    assert!(stream.as_mut().poll_next(&mut context).is_pending());
}

/// However often a subscription asks while others publish, it hears every
/// change, of each key in order, and its view ends equal to the cache.
#[test]
fn a_replay_beside_publishers_makes_no_gap() {
    const KEYS: u32 = 50;
    const ROUNDS: u32 = 400;
    const REPLAYS: usize = 10;
    let (ticks, log) = (topic_with(&[]), Log::default());
    let pool = TaskPool::builder().workers(2).build().unwrap();
    let subscription = ticks.subscribe().capacity(1 << 20).on(&pool);
    let subscription = subscription.start(log.note());
    thread::scope(|scope| {
        for part in 0..2 {
            let ticks = &ticks;
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    (part..KEYS)
                        .step_by(2)
                        .for_each(|key| _ = ticks.publish(Tick(key, round)));
                }
            });
        }
        scope.spawn(|| {
            for asked in 1..=REPLAYS {
                subscription.replay();
                while log.count(Replayed) < asked {
                    thread::yield_now();
                }
            }
        });
    });
    until_idle(&subscription);
    let mut views: BTreeMap<u32, u32> = (0..KEYS).map(|key| (key, 0)).collect();
    for heard in log.all().iter() {
        if let Ev(key, value) = heard {
            let last = views.insert(*key, *value).unwrap();
            assert!(
                *value == last + 1 || *value == last,
                "{last} is followed by {value}"
            );
        }
    }
    assert!(views.values().all(|value| *value == ROUNDS));
    assert_eq!(subscription.lost(), 0);
    assert_eq!(log.count(Replayed), REPLAYS);
}

fn until_idle(subscription: &Subscription<Tick>) {
    while !subscription.is_idle() {
        thread::yield_now();
    }
}
