//! Subscriptions by the value of an attribute: an index for predicates.

use crate::log::{Log, stepped_pool};
use crate::model::{Level, cached, delivered, level};
use busyhour::{bus::Attribute, task::Overflow};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// For an event, one computation serves the index, and one each subscription
/// that the index finds, however many subscriptions there are.
#[test]
fn an_event_visits_only_subscriptions_that_want_its_value() {
    let computed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&computed);
    let of = Attribute::new(move |event: &Level| {
        count.fetch_add(1, Ordering::Relaxed);
        event.level
    });
    let topic = cached();
    let logs: Vec<Log> = (0..1_000).map(|_| Log::default()).collect();
    let watch = |(wanted, log): (u32, &Log)| log.start(topic.subscribe().having(&of, wanted));
    let watches: Vec<_> = (0..).zip(&logs).map(watch).collect();
    assert!(topic.would_deliver(&1));

    assert_eq!(topic.publish(level(7, 500)).delivered, 1);
    assert_eq!(computed.load(Ordering::Relaxed), 2);
    assert_eq!(topic.publish(level(7, 5_000)).delivered, 0);
    assert_eq!(computed.load(Ordering::Relaxed), 3);
    for (wanted, log) in logs.iter().enumerate() {
        let heard: &[_] = if wanted == 500 {
            &[(7, Some(500))]
        } else {
            &[]
        };
        assert_eq!(log.take_levels(), heard);
    }
    assert_eq!(
        topic.remove(&7).delivered,
        1_000,
        "any of them may have received the key"
    );
    drop(watches);
    assert!(!topic.would_deliver(&1));
    assert_eq!(topic.publish(level(7, 500)).delivered, 0);
    assert_eq!(computed.load(Ordering::Relaxed), 3);
}

#[test]
fn one_event_reaches_each_attribute_and_each_other_kind_once() {
    let by_level = Attribute::new(|event: &Level| event.level);
    let is_even = Attribute::new(|event: &Level| event.line.is_multiple_of(2));
    let topic = cached();
    let log = Log::default();
    let _watches = [
        log.start(topic.subscribe().having(&by_level, 3)),
        log.start(topic.subscribe().having(&by_level.clone(), 3)),
        log.start(topic.subscribe().having(&is_even, true)),
        log.start(topic.subscribe().key(8)),
        log.start(topic.subscribe()),
    ];
    assert_eq!(topic.publish(level(8, 3)), delivered(5));
    assert_eq!(topic.publish(level(8, 4)).delivered, 3);
    assert_eq!(topic.publish(level(9, 3)).delivered, 3);
    assert_eq!(log.take_levels().len(), 11);
}

#[test]
fn a_replay_delivers_only_events_with_the_value() {
    let of = Attribute::new(|event: &Level| event.level % 2);
    let (topic, log) = (cached(), Log::default());
    for line in 0..10 {
        let _ = topic.publish(level(line, line));
    }
    let _watch = log.start(topic.subscribe().having(&of, 1).replay());
    let mut heard = log.take_levels();
    heard.sort_unstable();
    assert_eq!(heard, [1, 3, 5, 7, 9].map(|line| (line, Some(line))));
}

#[test]
fn losses_lags_and_waits_are_as_for_any_other_subscription() {
    let of = Attribute::new(|event: &Level| event.level % 2);
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let builder = topic.subscribe().having(&of, 1).capacity(2).on(&pool);
    let watch = log.start(builder.replay());
    while pool.step() {}
    let lost: u64 = (0..10).map(|line| topic.publish(level(line, 1)).lost).sum();
    assert_eq!((lost, watch.lost()), (8, 8));
    assert_eq!(topic.stats().slowest_queued_len, 2);
    while pool.step() {}
    assert_eq!(
        log.take_levels().len(),
        10,
        "brought up to date from the cache"
    );

    let waiting = topic.subscribe().having(&of, 1).capacity(1).on(&pool);
    let waiting = log.start(waiting.overflow(Overflow::Block));
    assert_eq!(topic.publish(level(1, 3)).lost, 0);
    assert_eq!(
        topic.publish(level(1, 5)).lost,
        0,
        "the simulation is stepped"
    );
    while pool.step() {}
    assert_eq!(waiting.lost(), 0);
}
