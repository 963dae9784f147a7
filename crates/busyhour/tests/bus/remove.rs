//! The caller of a clear is told of every loss, as a publisher is.

use crate::log::stepped_pool;
use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, Removed, Subscription, SubscriptionBuilder, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::Overflow,
    timer::Timers,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Makes a subscription whose queue is never emptied, and counts the losses
/// that it is told of.
fn slow(
    builder: SubscriptionBuilder<Level>,
    pool: &TaskPool,
) -> (Subscription<Level>, Arc<AtomicU64>) {
    let announced = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&announced);
    let subscription = builder.on(pool).start(move |delivery| {
        if let Delivery::Lost(count) = delivery {
            told.fetch_add(count, Ordering::Relaxed);
        }
    });
    (subscription, announced)
}

fn one_key() -> Removed {
    Removed {
        key_count: 1,
        ..Removed::default()
    }
}

#[test]
fn a_notice_without_room_is_reported_to_its_publisher_and_its_subscriber() {
    for overflow in [Overflow::Reject, Overflow::DropOldest] {
        let (topic, pool) = (cached(), stepped_pool());
        let builder = topic.subscribe().capacity(1).overflow(overflow);
        let (watch, announced) = slow(builder, &pool);
        assert_eq!(topic.publish(level(1, 1)), delivered(1));
        let cleared = topic.remove(&1);
        let is_delivered = u64::from(overflow == Overflow::DropOldest);
        let expected = Removed {
            delivered: is_delivered,
            lost: 1,
            ..one_key()
        };
        assert_eq!(cleared, expected);
        assert_eq!((watch.lost(), topic.stats().lost), (1, 1));
        while pool.step() {}
        assert_eq!(announced.load(Ordering::Relaxed), 1);
        assert_eq!(topic.remove(&1), Removed::default());
    }
}

#[test]
fn a_laggard_is_counted_for_each_notice_and_brought_up_to_date() {
    let (topic, pool) = (cached(), stepped_pool());
    let (watch, announced) = slow(topic.subscribe().replay().capacity(1), &pool);
    while pool.step() {}
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish(level(1, 2));
    let lost = topic.remove(&1).lost + topic.remove_matching(|_| true).lost;
    assert_eq!(lost, 1);
    assert_eq!(watch.lost(), 2, "the publish reported one of them");
    while pool.step() {}
    assert_eq!(announced.load(Ordering::Relaxed), 2);
    assert_eq!(topic.stats().lagging_count, 0);
}

#[test]
fn a_notice_replaces_a_waiting_event_only_where_the_subscription_conflates() {
    let (topic, pool) = (cached(), stepped_pool());
    let (_conflating, _) = slow(topic.subscribe().conflate(), &pool);
    let (keeping, _) = slow(topic.subscribe(), &pool);
    let _ = topic.publish(level(1, 1));
    let expected = Removed {
        delivered: 2,
        conflated: 1,
        ..one_key()
    };
    assert_eq!(topic.remove(&1), expected);
    assert_eq!(keeping.queued_len(), 2);
}

/// However many keys are cleared, the queue of a subscription that makes
/// publishers wait stays within its bound.
#[test]
fn a_clear_waits_for_room_where_the_subscription_blocks() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let topic = cached();
    for line in 0..1_000 {
        let _ = topic.publish(level(line, 1));
    }
    let (highest, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (topic_seen, heard) = (topic.clone(), Arc::clone(&count));
    let seen = Arc::clone(&highest);
    let builder = topic.subscribe().capacity(4).overflow(Overflow::Block);
    let watch = builder.on(&pool).start(move |_| {
        let queued_len = topic_seen.stats().slowest_queued_len;
        seen.fetch_max(queued_len, Ordering::Relaxed);
        heard.fetch_add(1, Ordering::Relaxed);
    });
    let cleared = topic.remove_matching(|_| true);
    assert_eq!(
        (cleared.key_count, cleared.delivered, cleared.lost),
        (1_000, 1_000, 0)
    );
    while !watch.is_idle() {
        thread::yield_now();
    }
    assert_eq!(count.load(Ordering::Relaxed), 1_000);
    assert!(highest.load(Ordering::Relaxed) <= 4);
}

#[test]
fn only_the_given_keys_are_cleared() {
    let topic = cached();
    for line in 0..1_000 {
        let _ = topic.publish(level(line, line % 10));
    }
    let cleared = topic.remove_matching(|event| event.level < 3);
    assert_eq!(cleared.key_count, 300);
    assert_eq!(topic.len(), 700);
    assert!(topic.snapshot().iter().all(|event| event.level >= 3));
}

/// An event expires although the topic that it is forwarded to has no room for
/// it.
#[test]
fn an_event_that_a_later_topic_refuses_expires_here() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let timers = Timers::builder().clock(clock.clone()).build();
    let pool = TaskPool::simulated(1, clock.clone());
    let topic = Topic::builder("here").cached();
    let topic = topic.with_ttl(&timers, &pool).build();
    let full = Topic::builder("full").cached().key_limit(0).build();
    let _forward = topic.forward_to(&full).unwrap();
    let second = Duration::from_secs(1);
    let published = topic.publish_with_ttl(level(1, 1), second).unwrap();
    assert!(published.refused);
    assert_eq!((topic.len(), full.len()), (1, 0));
    clock.as_virtual().unwrap().advance(second);
    timers.run_due(clock.now());
    while pool.step() {}
    assert!(topic.is_empty());
}
