//! Topics and subscriptions that come and go by the thousand.

use busyhour::bus::{Event, Published, Topic};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
struct Level {
    line: u32,
    _level: u32,
}

impl Event for Level {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.line
    }
}

fn level(line: u32, level: u32) -> Level {
    Level {
        line,
        _level: level,
    }
}

fn cached() -> Topic<Level> {
    Topic::builder("levels").cached().build()
}

const fn delivered(delivered: u64) -> Published {
    Published {
        delivered,
        lost: 0,
        refused: false,
    }
}

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
        drop(watch);
        lasting.clear(&line);
    }
    assert_eq!(Arc::strong_count(&witness), 1);
    assert!(lasting.is_empty());
    assert_eq!(lasting.stats().subscriber_count, 0);
}
