//! Conflation by key in a queue that drops its oldest.

use crate::log::{Log, stepped_pool};
use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::Message,
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::{Executor, Overflow, Reason, Rejected, Task},
};
use futures_core::Stream;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

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
    let mut last = BTreeMap::new();
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

/// Each event is read from the cache, or a newer one of its key is.
#[test]
fn each_event_that_a_conflating_replay_skips_is_counted() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let few = topic.subscribe().conflate().replay().capacity(4).on(&pool);
    let _watch = log.start(few);
    while pool.step() {}
    for height in 1..=3 {
        for line in 0..100 {
            assert_eq!(topic.publish(level(line, height)), delivered(1));
        }
    }
    while pool.step() {}
    assert_eq!(topic.stats().conflated, 200);
    assert_eq!(topic.stats().delivered, 100);
}

/// The change that would have been read by a turn that the executor refused is read by the turn of
/// the next one, whichever key that has.
#[test]
fn a_reader_whose_turn_was_refused_is_sent_one_by_the_next_change() {
    #[derive(Clone)]
    struct Refusing {
        pool: TaskPool,
        refuses: Arc<AtomicBool>,
    }

    impl Executor for Refusing {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            match self.refuses.load(Ordering::Relaxed) {
                true => Err(Rejected {
                    task,
                    reason: Reason::Full,
                }),
                false => self.pool.execute(task),
            }
        }
    }

    let (topic, log) = (cached(), Log::default());
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    let refuses = Arc::new(AtomicBool::new(false));
    let executor = Refusing {
        pool: pool.clone(),
        refuses: Arc::clone(&refuses),
    };
    let _watch = log.start(topic.subscribe().replay().conflate().on(&executor));
    while pool.step() {}
    refuses.store(true, Ordering::Relaxed);
    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    refuses.store(false, Ordering::Relaxed);
    assert_eq!(topic.publish(level(1, 2)), delivered(1));
    while pool.step() {}
    assert_eq!(log.take_levels(), [(1, Some(2))]);
    assert_eq!(topic.publish(level(2, 1)), delivered(1));
    while pool.step() {}
    assert_eq!(log.take_levels(), [(2, Some(1))]);
}

/// However much waits for one reader, each key is read once, and another one is told at once.
#[test]
fn a_reader_that_stands_still_costs_neither_publishers_nor_other_readers() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let mut still = topic.subscribe().name("still").replay().conflate().stream();
    let _quick = log.start(topic.subscribe().replay().conflate().on(&pool));
    while pool.step() {}
    for height in 1..=50 {
        for line in 0..40 {
            assert_eq!(topic.publish(level(line, height)), delivered(2));
        }
        while pool.step() {}
        assert_eq!(log.take_levels().len(), 40);
    }
    let stats = topic.stats();
    assert_eq!((stats.lagging_count, stats.lost), (0, 0));
    assert_eq!(topic.remove(&3).delivered, 2);
    let mut heard = Vec::new();
    while let Some(message) = next(&mut still) {
        match message {
            Message::Event(level, _) => heard.push((level.line, level.level)),
            Message::Replayed => {}
            other => panic!("{other:?}"),
        }
    }
    heard.sort_unstable();
    let rest = (0..40).filter(|line| *line != 3).map(|line| (line, 50));
    assert_eq!(heard, rest.collect::<Vec<_>>());
}

/// Keys that come and go while one reader stands still leave nothing that another one has to go
/// through, and the one that stands still learns of those that it had been told.
#[test]
fn a_reader_that_stands_still_learns_of_the_removals_of_the_keys_that_it_knows() {
    let (topic, pool, log) = (cached(), stepped_pool(), Log::default());
    let mut still = topic.subscribe().replay().conflate().stream();
    let quick = log.start(topic.subscribe().replay().conflate().on(&pool));
    let _known = topic.publish(level(1, 1));
    while next(&mut still).is_some() {}
    while pool.step() {}
    log.take();
    for line in 2..500 {
        let _ = topic.publish(level(line, 1));
        while pool.step() {}
        let _ = topic.remove(&line);
        while pool.step() {}
        assert_eq!(log.take_levels(), [(line, Some(1)), (line, None)]);
    }
    let _ = topic.remove(&1);
    while pool.step() {}
    assert_eq!(log.take_levels(), [(1, None)]);
    drop(quick);
    let mut heard = Vec::new();
    while let Some(message) = next(&mut still) {
        heard.push(message);
    }
    let known = |it: &&Message<Level>| matches!(it, Message::Removed(1, _));
    assert_eq!(heard.iter().filter(known).count(), 1, "{heard:?}");
    assert!(
        !heard.iter().any(|it| matches!(it, Message::Event(..))),
        "{heard:?}"
    );
}

#[test]
fn what_a_reader_has_not_read_is_listed_as_waiting() {
    let topic = cached();
    let mut stream = topic.subscribe().name("still").replay().conflate().stream();
    while next(&mut stream).is_some() {}
    for height in 1..=3 {
        let _ = topic.publish(level(1, height));
    }
    assert_eq!(stream.queued_len(), 3);
    let listed = &topic.subscriptions()[0];
    assert_eq!((listed.queued_len, listed.is_lagging), (3, false));
    let stats = topic.stats();
    assert_eq!(stats.slowest_subscriber, "still");
    assert_eq!(stats.slowest_queued_len, 3);
    assert!(matches!(next(&mut stream), Some(Message::Event(it, _)) if it == level(1, 3)));
    assert!(next(&mut stream).is_none());
    assert_eq!((stream.queued_len(), topic.stats().conflated), (0, 2));
}

/// Few changes are read from the slots of their keys, more from copies, and still more from all
/// slots: in each case the last one of each key, in the order of these.
#[test]
fn bursts_of_any_length_are_read_as_the_last_change_of_each_key() {
    let topic = cached();
    let mut stream = topic.subscribe().replay().conflate().stream();
    let mut random = 1_u32;
    let mut height = 0;
    for keys in [1, 2, 40, 3_000] {
        for len in [
            1_u32, 3, 4, 5, 15, 17, 63, 64, 65, 500, 1_100, 5_000, 70_000, 2, 200,
        ] {
            while next(&mut stream).is_some() {}
            let conflated_before = topic.stats().conflated;
            let (mut last, mut changes) = (BTreeMap::new(), u64::from(len));
            for number in 0..len {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let line = (random >> 8) % keys;
                height += 1;
                if number % 1_000 == 700 {
                    changes += topic.remove(&line).key_count;
                }
                let _ = topic.publish(level(line, height));
                last.insert(line, height);
            }
            let mut read = Vec::new();
            while let Some(message) = next(&mut stream) {
                if let Message::Event(it, _) = message {
                    read.push((it.line, it.level));
                }
            }
            let conflated = topic.stats().conflated - conflated_before;
            assert_eq!(read.len(), last.len(), "{len} changes of {keys}");
            assert!(read.into_iter().collect::<BTreeMap<_, _>>() == last);
            assert_eq!(conflated + last.len() as u64, changes);
        }
    }
}

fn next(stream: &mut busyhour::bus::EventStream<Level>) -> Option<Message<Level>> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_next(&mut context) {
        Poll::Ready(message) => message,
        Poll::Pending => None,
    }
}
