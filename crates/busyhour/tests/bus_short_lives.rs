//! Topics and subscriptions that come and go by the thousand.

#[path = "model/level.rs"]
mod model;

use busyhour::{
    bus::{Delivery, Event, Topic},
    clock::Clock,
    pool::TaskPool,
};
use model::{Level, cached, delivered, level};
use std::sync::{Arc, mpsc};

/// An event of one key that owns something.
#[derive(Clone)]
struct Owned(u64, #[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Event for Owned {
    type Key = ();

    fn key(&self) -> &() {
        &()
    }
}

#[test]
fn a_hundred_thousand_short_lived_subscriptions_leave_nothing_behind() {
    let witness = Arc::new(());
    for line in 0..100_000 {
        let topic = Topic::<Level>::ephemeral();
        let held = Arc::clone(&witness);
        let watch = topic.subscribe().key(line).start(move |_| {
            let _ = &held;
        });
        assert_eq!(topic.publish(level(line, 1)), delivered(1));
        drop(watch);
    }
    let lasting = cached();
    for line in 0..100_000 {
        let held = Arc::clone(&witness);
        let watch = lasting.subscribe().key(line).replay().start(move |_| {
            let _ = &held;
        });
        let _ = lasting.publish(level(line, 1));
        assert_eq!(lasting.get(&line), Some(level(line, 1)));
        drop(watch);
        let _ = lasting.remove(&line);
    }
    assert_eq!(Arc::strong_count(&witness), 1);
    assert!(lasting.is_empty());
    assert_eq!(lasting.stats().subscriber_count, 0);
}

/// The memory of a replaced event is used for a later event, but not while a
/// queue still has the first one: a queue full of events of one key delivers
/// each of them, and each is dropped once.
#[test]
fn an_event_that_waits_is_not_overwritten() {
    const COUNT: u64 = 1_000;
    let witness = Arc::new(());
    let topic = Topic::<Owned>::builder("owned").cached().build();
    let later = TaskPool::simulated(1, Clock::simulated(Default::default()));
    let (sender, heard) = mpsc::channel();
    let _watch = topic
        .subscribe()
        .capacity(2_000)
        .on(&later)
        .start(move |delivery| {
            if let Delivery::Event(Owned(number, _), _) = delivery {
                sender.send(*number).unwrap();
            }
        });
    for number in 0..COUNT {
        let _ = topic.publish(Owned(number, Arc::clone(&witness)));
    }
    assert_eq!(Arc::strong_count(&witness), COUNT as usize + 1);
    while later.step() {}
    assert!(heard.try_iter().eq(0..COUNT));
    for number in 0..COUNT {
        let _ = topic.publish(Owned(number, Arc::clone(&witness)));
    }
    while later.step() {}
    let _ = topic.stats();
    // The cache has the last event.
    assert_eq!(Arc::strong_count(&witness), 2);
}
