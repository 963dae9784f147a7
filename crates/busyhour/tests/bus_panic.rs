//! What a panic of a callback or predicate leaves behind: nothing.

#[path = "model/log.rs"]
mod log;
#[path = "model/level.rs"]
mod model;

use busyhour::bus::Topic;
use log::{HERE, Log, THERE};
use model::{Level, cached, delivered, level};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_callback_that_panics_takes_nobodys_turn() {
    let (topic, log) = (cached(), Log::default());
    let _first = topic.subscribe().start(|_| panic!("on purpose"));
    let _second = log.start(topic.subscribe());
    let publish = |line| catch_unwind(AssertUnwindSafe(|| topic.publish(level(line, 1))));
    assert!(publish(1).is_err());
    assert_eq!(log.take_levels(), [(1, Some(1))]);
    let _ = publish(2);
    assert_eq!(log.take_levels(), [(2, Some(1))]);
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
    assert_eq!(topic.publish(level(1, 2)), delivered(1));
    assert_eq!(topic.origin_of(&1), Some(HERE));
    assert_eq!(topic.origin_of(&2), Some(THERE));
    let _ = topic.forget_origin(THERE);
    assert_eq!((topic.get(&1), topic.get(&2)), (Some(level(1, 2)), None));
}
