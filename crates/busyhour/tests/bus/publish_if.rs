//! Publishing under a condition on the last value.

use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, NodeId, PublishedAll, Subscription, Topic},
    clock::Clock,
    pool::TaskPool,
    task::Overflow,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    thread,
};

/// The levels that a subscription has received.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u32>>>);

impl Heard {
    fn start(&self, topic: &Topic<Level>) -> Subscription<Level> {
        let heard = self.clone();
        // Room for all that a test publishes: the thread that delivers may be behind the others.
        let roomy = topic.subscribe().capacity(10_000);
        roomy.start(move |delivery| {
            if let Delivery::Event(event, _) = delivery {
                heard.0.lock().unwrap().push(event.level);
            }
        })
    }

    fn levels(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Whether the level was published, since it is not the last one.
fn offer(topic: &Topic<Level>, line: u32, new: u32) -> bool {
    let published = topic.publish_if(level(line, new), |last| last.level != new);
    published.is_some()
}

#[test]
fn a_repetition_is_not_published() {
    for is_heard in [false, true] {
        let (topic, heard) = (cached(), Heard::default());
        let _watch = is_heard.then(|| heard.start(&topic));
        let offered = [1, 1, 2, 2, 1].map(|new| offer(&topic, 7, new));
        assert_eq!(offered, [true, false, true, false, true]);
        assert_eq!(topic.get(&7).map(|last| last.level), Some(1));
        assert_eq!(topic.stats().published, 3);
        assert_eq!(heard.levels().len(), if is_heard { 3 } else { 0 });
    }
}

#[test]
fn a_key_without_a_last_value_is_published_without_asking() {
    let topic = cached();
    let unasked = |_: &Level| -> bool { unreachable!("there is no last value") };
    assert!(topic.publish_if(level(7, 1), unasked).is_some());
    assert_eq!(topic.remove(&7).key_count, 1);
    assert!(topic.publish_if(level(7, 1), unasked).is_some());
    let (uncached, heard) = (Topic::builder("uncached").build(), Heard::default());
    let _watch = heard.start(&uncached);
    for _ in 0..2 {
        let published = uncached.publish_if(level(7, 1), unasked);
        assert_eq!(published, Some(delivered(1)));
    }
    assert_eq!(heard.levels(), [1, 1]);
}

#[test]
fn a_full_cache_refuses_a_new_key() {
    let topic = Topic::builder("one").cached().key_limit(1).build();
    assert!(offer(&topic, 1, 1));
    let refused = topic.publish_if(level(2, 1), |_| true);
    assert_eq!(refused.map(|it| it.refused), Some(true));
    assert!(offer(&topic, 1, 2) && !offer(&topic, 1, 2));
}

/// What was judged is the fold of all nodes.
#[test]
fn a_topic_that_folds_is_asked_about_the_fold() {
    let highest = |parts: &[(NodeId, Level)]| {
        let highest = parts.iter().map(|(_, part)| part.level).max();
        level(parts[0].1.line, highest.unwrap_or(0))
    };
    let topic = Topic::builder("folds").fold(NodeId(1), highest).build();
    assert!(offer(&topic, 7, 1));
    _ = topic.publish_from(NodeId(2), level(7, 5));
    assert!(!offer(&topic, 7, 5));
    assert!(offer(&topic, 7, 6));
    assert_eq!(topic.get(&7).map(|last| last.level), Some(6));
}

/// A filter is asked by the general way, which keeps the condition.
#[test]
fn subscriptions_with_a_predicate_receive_what_passes() {
    let (topic, heard) = (cached(), Heard::default());
    let log = heard.clone();
    let even = topic
        .subscribe()
        .matching(|event: &Level| event.level % 2 == 0);
    let _watch = even.start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            log.0.lock().unwrap().push(event.level);
        }
    });
    for new in [1, 2, 2, 3, 4, 4] {
        offer(&topic, 7, new);
    }
    assert_eq!(heard.levels(), [2, 4]);
}

/// A publisher that waits for room judges what was published meanwhile: here by the turn that
/// makes room.
#[test]
fn a_value_that_came_while_the_publisher_waited_is_judged() {
    let topic = cached();
    let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
    let same = topic.clone();
    let slow = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let _slow = slow.on(&pool).start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            if event.level == 1 {
                _ = same.publish(level(7, 9));
            }
        }
    });
    assert!(offer(&topic, 7, 1), "the queue is full now");
    assert!(
        topic
            .publish_if(level(7, 2), |last| last.level < 2)
            .is_none()
    );
    assert_eq!(topic.get(&7).map(|last| last.level), Some(9));
}

/// Each number is published by one of the threads, and none after a higher one.
#[test]
fn threads_that_raise_a_value_never_lower_or_repeat_it() {
    const LAST: u32 = 2_000;
    for is_new in [true, false] {
        let (topic, heard) = (cached(), Heard::default());
        if !is_new {
            _ = topic.publish(level(7, 0));
        }
        let watch = heard.start(&topic);
        let counts: Vec<usize> = thread::scope(|scope| {
            let raise = || {
                let raised = (1..=LAST).filter(|&new| {
                    let published = topic.publish_if(level(7, new), |last| last.level < new);
                    published.is_some()
                });
                raised.count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(raise)).collect();
            let counts = threads.into_iter().map(|it| it.join().unwrap());
            counts.collect()
        });
        watch.unsubscribe();
        let heard = heard.levels();
        assert!(heard.is_sorted_by(|one, next| one < next), "{heard:?}");
        assert_eq!(counts.iter().sum::<usize>(), heard.len());
        assert_eq!(topic.get(&7).map(|last| last.level), Some(LAST));
    }
}

#[test]
fn a_condition_that_always_publishes_its_own_key_panics() {
    let topic = cached();
    _ = topic.publish(level(7, 0));
    let publishes = |last: &Level| {
        _ = topic.publish(level(7, last.level + 1));
        true
    };
    let offered = catch_unwind(AssertUnwindSafe(|| {
        topic.publish_if(level(7, 1), publishes)
    }));
    assert!(offered.is_err());
    assert!(offer(&topic, 7, 1), "the topic goes on");
}

/// A batch does what single offers do: with repetitions and new keys in it, more events than are
/// prefetched at once, and a limit of keys.
#[test]
fn a_batch_publishes_what_single_offers_do() {
    let make = || {
        (
            Topic::builder("batch").cached().key_limit(90).build(),
            Heard::default(),
        )
    };
    let ((single, heard_singly), (batch, heard)) = (make(), make());
    let _watches = [heard_singly.start(&single), heard.start(&batch)];
    let mut random = 7_u32;
    for len in [0, 1, 2, 15, 16, 17, 100, 1_000] {
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            level(random >> 8 & 127, random >> 20 & 3)
        };
        let levels: Vec<_> = (0..len).map(|_| next()).collect();
        let mut expected = PublishedAll::default();
        for new in levels.iter().cloned() {
            let wanted = new.level;
            if let Some(published) = single.publish_if(new, |last| last.level != wanted) {
                expected.count += u64::from(!published.refused);
                expected.refused += u64::from(published.refused);
                expected.delivered += published.delivered;
            }
        }
        let published = batch.publish_all_if(levels, |last, new| last.level != new.level);
        assert_eq!(published, expected);
    }
    assert!(single.stats().refused > 0 && single.stats().refused == batch.stats().refused);
    assert_eq!(heard_singly.levels(), heard.levels());
    for line in 0..128 {
        let levels = [&single, &batch].map(|topic| topic.get(&line).map(|last| last.level));
        assert_eq!(levels[0], levels[1]);
    }
}

/// What was published before a panic stays, and each event is dropped once.
#[test]
fn a_condition_that_panics_ends_a_batch_where_it_is() {
    let topic = cached();
    assert!(offer(&topic, 3, 1));
    let batch = [level(1, 1), level(2, 1), level(3, 2), level(4, 1)];
    let ended = catch_unwind(AssertUnwindSafe(|| {
        topic.publish_all_if(batch, |_, _| panic!("no answer"))
    }));
    assert!(ended.is_err());
    let lines = [1, 2, 3, 4].map(|line| topic.get(&line).map(|last| last.level));
    assert_eq!(lines, [Some(1), Some(1), Some(1), None]);
}
