//! Conflation by key, where the queue loses its oldest.

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
