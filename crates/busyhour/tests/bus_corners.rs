//! Who is waited for, what a panic leaves behind, and topics behind topics.

#[path = "model/level.rs"]
mod model;

use busyhour::{
    bus::{Delivery, Origin, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::Overflow,
    timer::Timers,
};
use model::{Level, cached, delivered, level};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

const HERE: Origin = Origin(1);
const THERE: Origin = Origin(2);

/// One worker that really runs.
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
    let clear = move || told.send(clearing.clear_matching(|_| true)).unwrap();
    pool.push(clear).unwrap();
    let cleared = cleared.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!((cleared.key_count, cleared.lost), (8, 0));
    assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    assert_eq!(heard.get(), 16);
    drop(subscription);
}

#[test]
fn keys_that_expire_wait_for_nobody() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::simulated(1, clock.clone());
    let timers = Timers::builder().clock(clock.clone()).build();
    let topic: Topic<Level> = Topic::builder("levels")
        .cached()
        .expiring(&timers, &pool)
        .build();
    let heard = Count::default();
    let count = heard.clone();
    let blocks = topic.subscribe().on(&pool).capacity(1);
    let blocks = blocks.overflow(Overflow::Block);
    let _subscription = blocks.start(move |_| count.one());
    for line in 1..=4 {
        let life = Duration::from_secs(1);
        let _ = topic.publish_for(level(line, 1), life).unwrap();
        while pool.step() {}
    }
    clock.as_virtual().unwrap().advance(Duration::from_secs(2));
    timers.run_due(clock.now());
    while pool.step() {}
    assert_eq!((topic.len(), heard.get()), (0, 8));
}

#[test]
fn a_callback_may_clear_though_a_subscriber_after_it_has_no_room() {
    let (topic, pool, heard) = (cached(), one_worker(), Count::default());
    let clearing = topic.clone();
    let _first = topic.subscribe().start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            let _ = clearing.clear(&event.line);
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
fn a_callback_that_panics_takes_nobodys_turn() {
    let (topic, heard) = (cached(), Count::default());
    let _first = topic.subscribe().start(|_| panic!("on purpose"));
    let count = heard.clone();
    let _second = topic.subscribe().start(move |_| count.one());
    let publish = |line| catch_unwind(AssertUnwindSafe(|| topic.publish(level(line, 1))));
    assert!(publish(1).is_err());
    assert_eq!(heard.get(), 1);
    let _ = publish(2);
    assert_eq!(heard.get(), 2);
}

#[test]
fn a_predicate_that_panics_names_nobody_as_the_speaker_of_what_follows() {
    let topic: Topic<Level> = Topic::builder("levels").cached().origin(HERE).build();
    let picky = topic.subscribe().matching(|event: &Level| {
        assert!(event.level != 13, "on purpose");
        true
    });
    let _picky = picky.start(|_| ());
    let _ = topic.publish_from(THERE, level(2, 1));
    let unlucky = AssertUnwindSafe(|| topic.publish_from(THERE, level(1, 13)));
    assert!(catch_unwind(unlucky).is_err());
    let _ = topic.publish(level(1, 2));
    assert_eq!(topic.origin_of(&1), Some(HERE));
    assert_eq!(topic.origin_of(&2), Some(THERE));
    let _ = topic.forget_origin(THERE);
    assert_eq!((topic.get(&1), topic.get(&2)), (Some(level(1, 2)), None));
}

#[test]
fn a_topic_behind_another_tells_on_which_node_it_began() {
    let one: Topic<Level> = Topic::builder("one").cached().origin(HERE).build();
    let all: Topic<Level> = Topic::builder("all").cached().build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let _ = one.publish(level(1, 1));
    let _forward = one.forward_to(&all).unwrap();
    let log = heard.clone();
    let _watch = all.subscribe().start(move |delivery| {
        let (Delivery::Event(_, origin) | Delivery::Cleared(_, origin)) = delivery else {
            return;
        };
        log.lock().unwrap().push(origin);
    });
    assert_eq!(all.origin_of(&1), Some(HERE), "what was there already");
    let _ = one.publish(level(2, 1));
    let _ = one.publish_from(Origin(0), level(2, 2));
    let _ = one.clear(&1);
    assert_eq!(*heard.lock().unwrap(), [HERE, Origin(0), HERE]);
    assert_eq!(all.origin_of(&2), Some(Origin(0)));
}

#[test]
fn a_folded_state_that_is_wanted_is_waited_for_though_its_part_is_not() {
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    let topic: Topic<Level> = Topic::builder("levels")
        .cached()
        .origin(HERE)
        .fold(HERE, |parts: &[(Origin, Level)]| Level {
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

#[test]
fn conflation_finds_its_keys_after_the_oldest_was_dropped() {
    let (topic, pool) = (
        cached(),
        TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0))),
    );
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let drops = topic.subscribe().conflate().capacity(2);
    let drops = drops.overflow(Overflow::DropOldest).on(&pool);
    let subscription = drops.start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            log.lock().unwrap().push((event.line, event.level));
        }
    });
    for (line, height) in [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2)] {
        let _ = topic.publish(level(line, height));
    }
    while pool.step() {}
    assert_eq!(*heard.lock().unwrap(), [(2, 2), (3, 2)]);
    assert_eq!(subscription.lost(), 1);
}
