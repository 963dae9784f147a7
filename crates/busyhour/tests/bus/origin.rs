//! Every event carries the node that published it, wherever it is delivered.

use crate::log::{HERE, Log, THERE, stepped_pool};
use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{ForwardError, Message, NodeId, Topic},
    task::Overflow,
};
use futures_core::Stream;
use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

const ELSEWHERE: NodeId = NodeId(3);

fn here() -> Topic<Level> {
    Topic::builder("levels").cached().node(HERE).build()
}

#[test]
fn an_event_is_delivered_with_the_node_that_published_it() {
    let (topic, log) = (here(), Log::default());
    let _watch = log.start(topic.subscribe().replay());
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish_from(THERE, level(1, 2));
    assert_eq!(topic.publish_from(HERE, level(2, 3)), delivered(1));
    assert_eq!(topic.origin_of(&1), Some(THERE));
    let _ = topic.remove_from(ELSEWHERE, &1);
    let _ = topic.remove(&2);
    assert_eq!(topic.origin_of(&1), None);
    let expected = [
        (1, Some(1), HERE),
        (1, Some(2), THERE),
        (2, Some(3), HERE),
        (1, None, ELSEWHERE),
        (2, None, HERE),
    ];
    assert_eq!(log.take(), expected);
}

#[test]
fn a_topic_without_a_node_number_publishes_as_node_zero() {
    let (topic, log) = (cached(), Log::default());
    let _watch = log.start(topic.subscribe().replay());
    let _ = topic.publish(level(1, 1));
    assert_eq!(log.take(), [(1, Some(1), NodeId(0))]);
}

#[test]
fn a_topic_without_a_cache_delivers_the_origin_too() {
    let topic = Topic::builder("calls").node(HERE).build();
    let log = Log::default();
    let _watch = log.start(topic.subscribe().replay());
    let _ = topic.publish_from(THERE, level(1, 1));
    let _ = topic.publish(level(1, 2));
    assert_eq!(log.take(), [(1, Some(1), THERE), (1, Some(2), HERE)]);
    assert_eq!(topic.origin_of(&1), None, "nothing is kept");
}

#[test]
fn a_replay_names_the_node_that_published_last() {
    let (topic, log) = (here(), Log::default());
    let _ = topic.publish_from(THERE, level(1, 1));
    let _ = topic.publish_from(THERE, level(2, 1));
    let _ = topic.publish(level(2, 2));
    let _ = topic.publish(level(3, 1));
    let _ = topic.publish_from(ELSEWHERE, level(3, 2));
    let _watch = log.start(topic.subscribe().replay());
    let mut heard = log.take();
    heard.sort_unstable();
    let expected = [
        (1, Some(1), THERE),
        (2, Some(2), HERE),
        (3, Some(2), ELSEWHERE),
    ];
    assert_eq!(heard, expected);
}

/// Deliveries that a laggard gets later, cleared keys included, have their
/// origins, too.
#[test]
fn a_laggard_is_told_the_origin_of_each_change() {
    let (topic, log, pool) = (here(), Log::default(), stepped_pool());
    let heard = log.clone();
    let watch = topic.subscribe().replay().capacity(1).on(&pool);
    let watch = watch.start(move |delivery| heard.hear(&delivery));
    while pool.step() {}
    for line in 1..=3 {
        let _ = topic.publish_from(THERE, level(line, 1));
    }
    while pool.step() {}
    log.take();
    let _ = topic.publish(level(7, 1));
    for line in 1..=3 {
        let _ = topic.publish(level(line, 2));
    }
    let cleared = topic.remove_from(ELSEWHERE, &2);
    assert_eq!(cleared.key_count, 1);
    let _ = topic.publish_from(THERE, level(3, 3));
    assert!(watch.lost() > 0, "the queue is meant to overflow");
    while pool.step() {}
    let mut heard = log.take();
    heard.sort_unstable();
    heard.retain(|(line, _, _)| *line != 7);
    let expected = [
        (1, Some(2), HERE),
        (2, None, ELSEWHERE),
        (3, Some(3), THERE),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_conflated_event_keeps_its_own_origin() {
    let (topic, log, pool) = (here(), Log::default(), stepped_pool());
    let heard = log.clone();
    let watch = topic.subscribe().conflate().on(&pool);
    let _watch = watch.start(move |delivery| heard.hear(&delivery));
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish_from(THERE, level(1, 2));
    let _ = topic.publish_from(THERE, level(2, 1));
    let _ = topic.publish(level(2, 2));
    while pool.step() {}
    assert_eq!(log.take(), [(1, Some(2), THERE), (2, Some(2), HERE)]);
}

#[test]
fn a_stream_delivers_the_origin() {
    let topic = here();
    let mut stream = pin!(topic.subscribe().stream());
    let _ = topic.publish_from(THERE, level(7, 1));
    let _ = topic.publish(level(7, 1));
    let mut context = Context::from_waker(Waker::noop());
    for origin in [THERE, HERE] {
        let Poll::Ready(Some(message)) = stream.as_mut().poll_next(&mut context) else {
            panic!("two events wait");
        };
        assert_eq!(message.origin(), Some(origin));
        assert!(matches!(message, Message::Event(event, _) if event == level(7, 1)));
    }
}

#[test]
fn a_forwarded_event_keeps_its_origin() -> Result<(), ForwardError> {
    let (from, to, log) = (here(), here(), Log::default());
    let _ = from.publish_from(THERE, level(1, 1));
    let forward = from.forward_to(&to)?;
    let _watch = log.start(to.subscribe().replay());
    let _ = from.publish_from(ELSEWHERE, level(2, 1));
    let _ = from.publish(level(3, 1));
    let _ = from.remove_from(THERE, &1);
    let expected = [
        (1, Some(1), THERE),
        (2, Some(1), ELSEWHERE),
        (3, Some(1), HERE),
        (1, None, THERE),
    ];
    assert_eq!(log.take(), expected);
    assert_eq!(forward.published(), delivered(0));
    Ok(())
}

#[test]
fn a_fold_names_the_last_publisher_and_the_state_of_each_node() {
    let topic = Topic::builder("sum")
        .fold(HERE, |parts: &[(NodeId, Level)]| {
            level(parts[0].1.line, parts.iter().map(|part| part.1.level).sum())
        })
        .build();
    let log = Log::default();
    let _watch = log.start(topic.subscribe().replay());
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish_from(THERE, level(1, 10));
    assert_eq!(topic.get_from(HERE, &1), Some(level(1, 1)));
    assert_eq!(topic.get_from(THERE, &1), Some(level(1, 10)));
    assert_eq!(topic.get_from(ELSEWHERE, &1), None);
    let _ = topic.remove_from(THERE, &1);
    assert_eq!(topic.get_from(HERE, &1), Some(level(1, 1)));
    assert_eq!(topic.get_from(THERE, &1), None);
    let expected = [
        (1, Some(1), HERE),
        (1, Some(11), THERE),
        (1, Some(1), THERE),
    ];
    assert_eq!(log.take(), expected);
}

/// A topic that does not fold removes what a node published last, and nothing
/// else.
#[test]
fn removing_a_node_removes_its_events() {
    let topic = here();
    for line in 0..100 {
        let _ = topic.publish_from(THERE, level(line, 1));
    }
    for line in 0..50 {
        let _ = topic.publish(level(line, 2));
    }
    let _ = topic.publish_from(ELSEWHERE, level(99, 3));
    assert_eq!(topic.get_from(THERE, &98), Some(level(98, 1)));
    assert_eq!(topic.get_from(THERE, &99), None);
    assert_eq!(topic.remove_node(THERE).key_count, 49);
    assert_eq!(topic.len(), 51);
    assert_eq!(topic.remove_node(THERE).key_count, 0);
    assert_eq!(topic.origin_of(&99), Some(ELSEWHERE));
}

/// A queue that drops its oldest reports the right nodes all the same.
#[test]
fn losses_keep_the_origins_of_the_other_events() {
    let topic = Topic::builder("calls").node(HERE).build();
    let (log, pool) = (Log::default(), stepped_pool());
    let heard = log.clone();
    let watch = topic.subscribe().capacity(2).overflow(Overflow::DropOldest);
    let _watch = watch.on(&pool).start(move |delivery| heard.hear(&delivery));
    for number in 0..5 {
        let _ = topic.publish_from(NodeId(u64::from(number)), level(1, number));
    }
    while pool.step() {}
    let expected = [(1, Some(3), NodeId(3)), (1, Some(4), NodeId(4))];
    assert_eq!(log.take(), expected);
}

#[test]
fn a_forwarding_topic_delivers_the_node_of_the_first_publish() {
    let (one, all, log) = (here(), cached(), Log::default());
    let _ = one.publish(level(1, 1));
    let _forward = one.forward_to(&all).unwrap();
    let _watch = log.start(all.subscribe());
    assert_eq!(all.origin_of(&1), Some(HERE), "what was there already");
    let _ = one.publish(level(2, 1));
    let _ = one.publish_from(NodeId(0), level(2, 2));
    let _ = one.remove(&1);
    let expected = [(2, Some(1), HERE), (2, Some(2), NodeId(0)), (1, None, HERE)];
    assert_eq!(log.take(), expected);
    assert_eq!(all.origin_of(&2), Some(NodeId(0)));
}

/// A predicate's answer about the state of two nodes is not used for the state
/// of one.
#[test]
fn a_predicate_is_asked_again_when_another_node_withdraws_meanwhile() {
    let sum = |parts: &[(NodeId, Level)]| {
        level(parts[0].1.line, parts.iter().map(|part| part.1.level).sum())
    };
    let topic = Topic::builder("sum").fold(HERE, sum).build();
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish_from(THERE, level(1, 10));
    let withdraws = topic.clone();
    let is_small = move |event: &Level| {
        if event.level == 12 {
            let _ = withdraws.remove_from(THERE, &1);
        }
        event.level == 2
    };
    let log = Log::default();
    let _watch = log.start(topic.subscribe().matching(is_small));
    assert_eq!(topic.publish(level(1, 2)), delivered(1));
    assert_eq!(log.take(), [(1, Some(2), HERE)]);
}

/// A fold may publish on another topic, each time that other publishers make it
/// run again.
#[test]
fn a_fold_that_publishes_on_another_topic_runs_again_after_each_disturbance() {
    let counter = Topic::builder("counter").cached().build();
    let place: Arc<OnceLock<Topic<Level>>> = Arc::default();
    let (others, runs) = (Arc::clone(&place), AtomicU32::new(0));
    let publisher = thread::current().id();
    let fold = move |parts: &[(NodeId, Level)]| {
        if thread::current().id() == publisher {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            let _ = counter.publish(level(1, run));
            let topic = others.get().filter(|_| run < 40);
            if let Some(topic) = topic.cloned() {
                let disturb = move || topic.publish_from(THERE, level(1, run));
                let _ = thread::spawn(disturb).join().unwrap();
            }
        }
        parts[0].1
    };
    let topic = Topic::builder("first").fold(HERE, fold).build();
    let _ = topic.publish_from(THERE, level(1, 1));
    let _ = place.set(topic.clone());
    assert_eq!(topic.publish(level(1, 7)), delivered(0));
    assert_eq!(topic.get(&1), Some(level(1, 7)));
    drop(place);
}

/// A publish that must ask for room or for a key does not fold in vain before
/// that.
#[test]
fn a_publish_folds_once_though_a_subscription_conflates() {
    let folds = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&folds);
    let last = move |parts: &[(NodeId, Level)]| {
        counter.fetch_add(1, Ordering::Relaxed);
        parts[0].1
    };
    let topic = Topic::builder("last").fold(HERE, last).build();
    let pool = stepped_pool();
    let _watch = topic.subscribe().conflate().on(&pool).start(|_| ());
    let _ = topic.publish_from(THERE, level(1, 0));
    let _ = topic.publish(level(1, 0));
    folds.store(0, Ordering::Relaxed);
    for number in 1..=10 {
        let _ = topic.publish(level(1, number));
    }
    assert_eq!(folds.load(Ordering::Relaxed), 10);
}
