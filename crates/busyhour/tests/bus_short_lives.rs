//! Topics and subscriptions that come and go by the thousand.

#[path = "model/level.rs"]
mod model;

use busyhour::bus::Topic;
use model::{Level, cached, delivered, level};
use std::sync::Arc;

#[test]
fn a_hundred_thousand_short_lives_leave_nothing_behind() {
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
        let _ = lasting.clear(&line);
    }
    assert_eq!(Arc::strong_count(&witness), 1);
    assert!(lasting.is_empty());
    assert_eq!(lasting.stats().subscriber_count, 0);
}
