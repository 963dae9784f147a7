//! A panic of a callback or predicate has no effect on anything else.

use crate::log::{HERE, Log, THERE};
use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, Topic},
    clock::Clock,
    pool::TaskPool,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
};

#[test]
fn a_callback_that_panics_takes_no_others_turn() {
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
fn a_predicate_that_panics_leaves_no_origin_to_later_events() {
    let topic: Topic<Level> = Topic::builder("levels").cached().node(HERE).build();
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
    let _ = topic.remove_node(THERE);
    assert_eq!((topic.get(&1), topic.get(&2)), (Some(level(1, 2)), None));
}

/// A replay delivers the events that the predicate accepts, and then ends.
#[test]
fn a_predicate_that_panics_in_a_replay_loses_only_its_own_event() {
    let topic = cached();
    // So many keys that some share the shard of the first.
    for line in 0..1_000 {
        let _ = topic.publish(level(line, 1));
    }
    let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
    let picky = topic.subscribe().replay().matching(|event: &Level| {
        assert!(event.line != 3, "on purpose");
        true
    });
    let (tell, told) = mpsc::channel();
    let _picky = picky.on(&pool).start(move |delivery| {
        let _ = tell.send(match delivery {
            Delivery::Event(event, _) => Some(event.line),
            _ => None,
        });
    });
    while pool.step() {}
    let mut told: Vec<_> = told.try_iter().collect();
    assert_eq!(told.pop(), Some(None), "the replay ends");
    told.sort_unstable();
    let expected: Vec<_> = (0..1_000).filter(|line| *line != 3).map(Some).collect();
    assert_eq!(told, expected);
}

#[test]
fn the_payload_of_a_second_panic_is_dropped() {
    struct Counted(Arc<AtomicU32>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose, in a drop");
        }
    }

    let (topic, dropped) = (cached(), Arc::new(AtomicU32::new(0)));
    let watch = || {
        let count = Arc::clone(&dropped);
        topic
            .subscribe()
            .start(move |_| panic_any(Counted(Arc::clone(&count))))
    };
    let _watches: Vec<_> = (0..3).map(|_| watch()).collect();
    let payload = catch_unwind(AssertUnwindSafe(|| topic.publish(level(1, 1)))).unwrap_err();
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
}
