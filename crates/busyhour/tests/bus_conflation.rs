//! Conflation by key in a queue that drops its oldest.

#[path = "model/log.rs"]
mod log;
#[path = "model/level.rs"]
mod model;

use busyhour::task::Overflow;
use log::{Log, stepped_pool};
use model::{cached, delivered, level};

#[test]
fn conflation_finds_its_keys_after_the_oldest_was_dropped() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let drops = topic.subscribe().conflate().capacity(2);
    let subscription = log.start(drops.overflow(Overflow::DropOldest).on(&pool));
    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    for (line, height) in [(2, 1), (3, 1), (2, 2), (3, 2)] {
        let _ = topic.publish(level(line, height));
    }
    while pool.step() {}
    assert_eq!(log.take_levels(), [(2, Some(2)), (3, Some(2))]);
    assert_eq!(subscription.lost(), 1);
}

#[test]
fn a_conflating_replay_loses_nothing_and_reports_no_loss() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let few = topic.subscribe().conflate().replay().capacity(4).on(&pool);
    let subscription = log.start(few);
    while pool.step() {}
    for height in 1..=3 {
        for line in 0..100 {
            assert_eq!(topic.publish(level(line, height)).lost, 0);
        }
    }
    while pool.step() {}
    let mut last = std::collections::BTreeMap::new();
    last.extend(log.take_levels());
    assert_eq!(last, (0..100).map(|line| (line, Some(3))).collect());
    assert_eq!((subscription.lost(), topic.stats().lost), (0, 0));
}

#[test]
fn a_conflating_queue_never_loses_the_newest_event_of_a_key_that_waits() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let few = topic.subscribe().conflate().capacity(4).on(&pool);
    let subscription = log.start(few);
    let mut lost = 0;
    for height in 1..=3 {
        lost += (0..6)
            .map(|line| topic.publish(level(line, height)).lost)
            .sum::<u64>();
    }
    while pool.step() {}
    let waiting = (0..4).map(|line| (line, Some(3)));
    assert_eq!(log.take_levels(), waiting.collect::<Vec<_>>());
    assert_eq!((lost, subscription.lost()), (6, 6));
}

/// Each event is queued, replaces one that waits, or is skipped because the cache will
/// deliver it.
#[test]
fn each_event_that_a_conflating_replay_skips_is_counted() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let few = topic.subscribe().conflate().replay().capacity(4).on(&pool);
    let _watch = log.start(few);
    while pool.step() {}
    for height in 1..=3 {
        for line in 0..100 {
            let _ = topic.publish(level(line, height));
        }
    }
    assert_eq!(topic.stats().conflated, 300 - 4);
}
