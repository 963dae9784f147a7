//! When publishers wait for subscribers, and when they do not.

use crate::log::{HERE, THERE, stepped_pool};
use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, NodeId, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::Overflow,
    timer::Timers,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// A pool with one real worker.
fn one_worker() -> TaskPool {
    TaskPool::builder().workers(1).build().unwrap()
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_clear_on_the_only_worker_waits_for_a_subscriber_of_the_same_pool() {
    let (topic, pool, heard) = (cached(), one_worker(), Count::default());
    let count = heard.clone();
    let blocks = topic.subscribe().on(&pool).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let subscription = blocks.start(move |_| count.one());
    for line in 1..=8 {
        let _ = topic.publish(level(line, 1));
    }
    let (told, cleared) = mpsc::channel();
    let clearing = topic.clone();
    let clear = move || told.send(clearing.remove_matching(|_| true)).unwrap();
    pool.push(clear).unwrap();
    let cleared = cleared.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!((cleared.key_count, cleared.lost), (8, 0));
    assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    assert_eq!(heard.get(), 16);
    drop(subscription);
}

#[test]
fn a_publisher_that_would_wait_for_itself_is_refused_and_counted() {
    let (topic, pool, heard) = (cached(), one_worker(), Count::default());
    let own = pool.serializer("own").build().unwrap();
    let count = heard.clone();
    let blocks = topic.subscribe().on(&own).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let _subscription = blocks.start(move |_| count.one());
    let _ = topic.publish(level(1, 1));
    assert_eq!(topic.stats().refused_waits, 0);
    let publishing = topic.clone();
    own.push_wait(move || {
        for line in 2..=4 {
            let _ = publishing.publish(level(line, 1));
        }
    })
    .unwrap();
    assert!(topic.stats().refused_waits > 0, "{:?}", topic.stats());
    assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    assert!(heard.get() > 0);
}

#[test]
fn unsubscribe_waits_until_the_callback_has_ended() {
    let (topic, pool, ended) = (cached(), one_worker(), Count::default());
    let (begun, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let count = ended.clone();
    let subscription = topic.subscribe().on(&pool).start(move |_| {
        begun.send(()).unwrap();
        released.recv().unwrap();
        (0..10_000).for_each(|_| thread::yield_now());
        count.one();
    });
    let _ = topic.publish(level(1, 1));
    begins.recv().unwrap();
    thread::scope(|scope| {
        let unsubscribe = scope.spawn(|| {
            subscription.unsubscribe();
            ended.get()
        });
        while topic.stats().subscriber_count > 0 {
            thread::yield_now();
        }
        release.send(()).unwrap();
        assert_eq!(unsubscribe.join().unwrap(), 1);
    });
}

#[test]
fn an_expiry_waits_for_no_subscriber() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::simulated(1, clock.clone());
    let timers = Timers::builder().clock(clock.clone()).build();
    let topic: Topic<Level> = Topic::builder("levels")
        .cached()
        .with_ttl(&timers, &pool)
        .build();
    let heard = Count::default();
    let count = heard.clone();
    let blocks = topic.subscribe().on(&pool).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let _subscription = blocks.start(move |_| count.one());
    for line in 1..=4 {
        let life = Duration::from_secs(1);
        let _ = topic.publish_with_ttl(level(line, 1), life).unwrap();
        while pool.step() {}
    }
    clock.as_virtual().unwrap().advance(Duration::from_secs(2));
    timers.run_due(clock.now());
    while pool.step() {}
    assert_eq!((topic.len(), heard.get()), (0, 8));
}

#[test]
fn an_expiry_counts_no_refused_wait() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::simulated(1, clock.clone());
    let timers = Timers::builder().clock(clock.clone()).build();
    let topic: Topic<Level> = Topic::builder("levels")
        .cached()
        .with_ttl(&timers, &pool)
        .build();
    let (own, heard) = (pool.serializer("own").build().unwrap(), Count::default());
    let count = heard.clone();
    let blocks = topic.subscribe().on(&own).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let _subscription = blocks.start(move |_| count.one());
    let suspension = own.suspend();
    let _ = topic.publish_with_ttl(level(1, 1), Duration::from_secs(1));
    clock.as_virtual().unwrap().advance(Duration::from_secs(2));
    timers.run_due(clock.now());
    while pool.step() {}
    assert_eq!((topic.len(), topic.stats().refused_waits), (0, 0));
    drop(suspension);
    while pool.step() {}
    assert!(heard.get() > 0);
}

#[test]
fn a_callback_may_clear_although_a_later_subscriber_has_no_room() {
    let (topic, pool, heard) = (cached(), one_worker(), Count::default());
    let clearing = topic.clone();
    let _first = topic.subscribe().start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            let _ = clearing.remove(&event.line);
        }
    });
    let count = heard.clone();
    let blocks = topic.subscribe().on(&pool).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let _second = blocks.start(move |_| count.one());
    let (told, published) = mpsc::channel();
    let publishing = topic.clone();
    std::thread::spawn(move || told.send(publishing.publish(level(1, 1))).unwrap());
    let published = published.recv_timeout(Duration::from_secs(60));
    assert!(published.is_ok(), "the publisher waits for itself");
    assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    assert_eq!((heard.get(), topic.len()), (2, 0));
}

#[test]
fn a_publisher_waits_for_room_for_a_wanted_fold_of_an_unwanted_state() {
    let pool = stepped_pool();
    let topic: Topic<Level> = Topic::builder("levels")
        .cached()
        .node(HERE)
        .fold(HERE, |parts: &[(NodeId, Level)]| Level {
            level: parts.iter().map(|(_, part)| part.level).sum(),
            ..parts[0].1
        })
        .build();
    let _ = topic.publish_from(THERE, level(1, 20));
    let high = topic.subscribe().matching(|event: &Level| event.level > 10);
    let high = high.on(&pool).capacity(1).overflow(Overflow::Block);
    let subscription = high.start(|_| ());
    // Each publish steps the pool until there is room.
    for _ in 0..100 {
        assert_eq!(topic.publish(level(1, 1)), delivered(1));
        assert!(subscription.queued_len() <= 1);
    }
}
