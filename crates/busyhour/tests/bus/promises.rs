//! What every subscription of a topic is promised. All callbacks run on the
//! publisher's thread.

use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{
        Delivery, ForwardError, NodeId, Registry, Subscription, SubscriptionBuilder, Topic,
        TtlError,
    },
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::{Executor, Overflow, Reason, Rejected, Task},
    timer::Timers,
};
use futures_core::Stream;
use std::{
    collections::VecDeque,
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Level(u32, u32),
    Removed(u32),
    Replayed,
    Lost(u64),
}

impl From<Delivery<'_, Level>> for Heard {
    fn from(delivery: Delivery<'_, Level>) -> Self {
        match delivery {
            Delivery::Event(event, _) => Self::Level(event.line, event.level),
            Delivery::Removed(line, _) => Self::Removed(*line),
            Delivery::Replayed => Self::Replayed,
            Delivery::Lost(count) => Self::Lost(count),
        }
    }
}

/// Records what a subscription receives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Heard>>>);

impl Log {
    fn start(&self, builder: SubscriptionBuilder<Level>) -> Subscription<Level> {
        let log = self.clone();
        builder.start(move |delivery| log.0.lock().unwrap().push(delivery.into()))
    }

    fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An executor that runs nothing until it is told to.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<VecDeque<Task>>>);

impl Later {
    fn run_all(&self) {
        loop {
            let Some(task) = self.0.lock().unwrap().pop_front() else {
                return;
            };
            task.run();
        }
    }

    fn drop_all(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        drop(tasks);
    }
}

impl Executor for Later {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.0.lock().unwrap().push_back(task);
        Ok(())
    }
}

#[test]
fn subscriptions_receive_what_they_asked_for() {
    let topic = cached();
    let (all, keyed, loud) = (Log::default(), Log::default(), Log::default());
    let _all = all.start(topic.subscribe());
    let _keyed = keyed.start(topic.subscribe().key(2));
    let _loud = loud.start(topic.subscribe().matching(|event| event.level > 5));

    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    assert_eq!(topic.publish(level(2, 9)), delivered(3));
    assert_eq!(all.take(), [Heard::Level(1, 1), Heard::Level(2, 9)]);
    assert_eq!(keyed.take(), [Heard::Level(2, 9)]);
    assert_eq!(loud.take(), [Heard::Level(2, 9)]);
}

#[test]
fn the_cache_keeps_the_last_value_of_each_key() {
    let topic = cached();
    for line in 0..1_000 {
        assert_eq!(topic.publish(level(line, 0)), delivered(0));
        assert_eq!(topic.publish(level(line, line + 1)), delivered(0));
    }
    assert_eq!(topic.len(), 1_000);
    assert_eq!(topic.get(&500), Some(level(500, 501)));
    assert_eq!(topic.remove(&500).key_count, 1);
    assert!(topic.remove(&500).is_nothing());
    assert_eq!(topic.get(&500), None);

    let mut lines: Vec<u32> = topic.snapshot().iter().map(|event| event.line).collect();
    lines.sort_unstable();
    let expected: Vec<u32> = (0..1_000).filter(|&line| line != 500).collect();
    assert_eq!(lines, expected);
}

#[test]
fn snapshots_of_equal_histories_are_in_equal_order() {
    let history = |topic: &Topic<Level>| {
        for line in (0..3_000).rev() {
            let _ = topic.publish(level(line, line));
        }
        let _ = topic.remove(&7);
        topic.snapshot()
    };
    assert_eq!(history(&cached()), history(&cached()));
}

#[test]
fn replay_delivers_each_key_once_and_then_every_change() {
    let topic = cached();
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish(level(1, 2));
    let log = Log::default();
    let _watch = log.start(topic.subscribe().replay());
    let _ = topic.publish(level(1, 3));
    let _ = topic.remove(&1);
    assert_eq!(
        log.take(),
        [
            Heard::Level(1, 2),
            Heard::Replayed,
            Heard::Level(1, 3),
            Heard::Removed(1)
        ]
    );
}

#[test]
fn a_change_during_the_replay_is_delivered_once() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let _ = topic.publish(level(1, 1));
    let _watch = log.start(topic.subscribe().replay().on(&later));
    let _ = topic.publish(level(1, 2));
    let _ = topic.publish(level(2, 1));
    later.run_all();
    let mut heard = log.take();
    assert_eq!(heard.pop(), Some(Heard::Replayed));
    heard.sort_by_key(|heard| format!("{heard:?}"));
    assert_eq!(heard, [Heard::Level(1, 2), Heard::Level(2, 1)]);
}

#[test]
fn replay_by_key_and_by_predicate_delivers_only_what_matches() {
    let topic = cached();
    for line in 0..10 {
        let _ = topic.publish(level(line, line));
    }
    let (keyed, loud) = (Log::default(), Log::default());
    let _keyed = keyed.start(topic.subscribe().key(3).replay());
    let _loud = loud.start(topic.subscribe().matching(|event| event.level > 8).replay());
    assert_eq!(keyed.take(), [Heard::Level(3, 3), Heard::Replayed]);
    assert_eq!(loud.take(), [Heard::Level(9, 9), Heard::Replayed]);
    assert_eq!(topic.stats().delivered, 2, "one of each replay");
}

#[test]
fn a_laggard_counts_only_the_missed_events_that_it_asked_for() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    for line in 0..3 {
        let _ = topic.publish(level(line, 0));
    }
    let loud = topic.subscribe().matching(|event| event.level > 5).replay();
    let _watch = log.start(loud.capacity(1).on(&later));
    later.run_all();
    for line in 0..3 {
        let _ = topic.publish(level(line, 9));
    }
    let _ = topic.publish(level(0, 1));
    let _ = topic.remove(&1);
    later.run_all();
    let heard = log.take();
    let is_change = |heard: &&Heard| **heard != Heard::Replayed && lost_by(heard) == 0;
    let change_count = heard.iter().filter(is_change).count();
    assert_eq!(change_count, 3, "the events that were queued, {heard:?}");
    assert_eq!(topic.stats().delivered, change_count as u64);
}

#[test]
fn a_topic_without_a_cache_has_nothing_to_replay() {
    let topic = Topic::<Level>::builder("plain").build();
    assert_eq!(topic.publish(level(1, 1)), delivered(0));
    assert_eq!(topic.get(&1), None);
    assert!(!topic.would_deliver(&1));
    let log = Log::default();
    let _watch = log.start(topic.subscribe().key(1).replay());
    assert!(topic.would_deliver(&1) && !topic.would_deliver(&2));
    let _ = topic.publish(level(1, 2));
    assert_eq!(log.take(), [Heard::Replayed, Heard::Level(1, 2)]);
}

#[test]
fn reject_loses_the_newest_and_reports_it() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let _watch = log.start(topic.subscribe().capacity(2).on(&later));
    for n in 0..5 {
        let lost = u64::from(n >= 2);
        let delivered = 1 - lost;
        let published = topic.publish(level(1, n));
        assert_eq!((published.delivered, published.lost), (delivered, lost));
    }
    later.run_all();
    assert_eq!(
        log.take(),
        [Heard::Level(1, 0), Heard::Level(1, 1), Heard::Lost(3)]
    );
    assert_eq!(topic.stats().lost, 3);
}

#[test]
fn drop_oldest_loses_the_oldest_and_reports_it_first() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let oldest = Overflow::DropOldest;
    let _watch = log.start(topic.subscribe().capacity(2).overflow(oldest).on(&later));
    for n in 0..5 {
        let _ = topic.publish(level(1, n));
    }
    later.run_all();
    assert_eq!(
        log.take(),
        [Heard::Lost(3), Heard::Level(1, 3), Heard::Level(1, 4)]
    );
}

#[test]
fn conflation_keeps_the_newest_in_the_place_of_the_oldest() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let _watch = log.start(topic.subscribe().conflate().capacity(2).on(&later));
    for (line, n) in [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2)] {
        let _ = topic.publish(level(line, n));
    }
    later.run_all();
    assert_eq!(
        log.take(),
        [Heard::Level(1, 2), Heard::Level(2, 2), Heard::Lost(1)]
    );
    assert_eq!(topic.stats().conflated, 2);
    let _ = topic.publish(level(2, 3));
    let _ = topic.remove(&2);
    later.run_all();
    assert_eq!(log.take(), [Heard::Removed(2)]);
}

#[test]
fn a_laggard_with_replay_is_brought_up_to_date() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    for line in 0..3 {
        let _ = topic.publish(level(line, 0));
    }
    let _watch = log.start(topic.subscribe().replay().capacity(1).on(&later));
    later.run_all();
    log.take();

    let _ = topic.publish(level(9, 1));
    let _ = topic.publish(level(0, 1));
    let _ = topic.publish(level(0, 2));
    let _ = topic.remove(&1);
    later.run_all();
    let heard = log.take();
    assert_eq!(heard[0], Heard::Level(9, 1));
    assert_eq!(heard.last(), Some(&Heard::Replayed));
    let lost: u64 = heard.iter().map(lost_by).sum();
    assert_eq!(lost, 3);
    let told = |wanted: Heard| heard.iter().filter(|&heard| *heard == wanted).count();
    assert_eq!(told(Heard::Level(0, 2)), 1);
    assert_eq!(told(Heard::Level(0, 1)), 0);
    assert_eq!(told(Heard::Removed(1)), 1);
    assert_eq!(
        told(Heard::Level(2, 0)),
        0,
        "the subscription knew that state already"
    );
}

fn lost_by(heard: &Heard) -> u64 {
    match heard {
        Heard::Lost(count) => *count,
        _ => 0,
    }
}

#[test]
fn nothing_is_delivered_after_unsubscribe() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let watch = log.start(topic.subscribe().on(&later));
    let _ = topic.publish(level(1, 1));
    watch.unsubscribe();
    later.run_all();
    assert_eq!(log.take(), []);
    assert_eq!(topic.publish(level(1, 2)), delivered(0));
    assert_eq!(topic.stats().subscriber_count, 0);
}

#[test]
fn a_callback_may_end_its_own_subscription() {
    let (topic, later) = (cached(), Later::default());
    let watch = Arc::new(Mutex::new(None::<Subscription<Level>>));
    let (own, calls) = (Arc::clone(&watch), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&calls);
    let subscription = topic.subscribe().on(&later).start(move |_| {
        *counted.lock().unwrap() += 1;
        if let Some(watch) = own.lock().unwrap().take() {
            watch.unsubscribe();
        }
    });
    *watch.lock().unwrap() = Some(subscription);
    for n in 0..3 {
        let _ = topic.publish(level(1, n));
    }
    later.run_all();
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[test]
fn a_callback_may_publish_on_its_own_topic() {
    let (topic, log) = (cached(), Log::default());
    let _log = log.start(topic.subscribe());
    let again = topic.clone();
    let blocking = topic.subscribe().overflow(Overflow::Block).capacity(1);
    let _echo = blocking.start(move |delivery| {
        if let Delivery::Event(event, _) = delivery
            && event.level < 3
        {
            let _ = again.publish(level(event.line, event.level + 1));
            let _ = again.publish(level(event.line + 1, 9));
        }
    });
    let _ = topic.publish(level(1, 1));
    assert_eq!(topic.get(&1), Some(level(1, 3)));
    assert_eq!(log.take().len(), 5);
}

#[test]
fn a_panic_in_a_callback_costs_one_event() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let seen = log.clone();
    let _watch = topic.subscribe().on(&later).start(move |delivery| {
        let heard = Heard::from(delivery);
        assert_ne!(heard, Heard::Level(1, 1), "on purpose");
        seen.0.lock().unwrap().push(heard);
    });
    for n in 0..3 {
        let _ = topic.publish(level(1, n));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| later.run_all())).is_err());
    later.run_all();
    assert_eq!(log.take(), [Heard::Level(1, 0), Heard::Level(1, 2)]);
}

#[test]
fn a_turn_that_is_dropped_sends_itself_again() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let watch = log.start(topic.subscribe().on(&later));
    let _ = topic.publish(level(1, 1));
    later.drop_all();
    assert!(!watch.is_idle());
    later.run_all();
    assert_eq!(log.take(), [Heard::Level(1, 1)]);
    let _ = topic.publish(level(1, 2));
    drop(watch);
    later.drop_all();
    assert!(later.0.lock().unwrap().is_empty());
}

#[test]
fn a_turn_that_is_always_dropped_is_not_sent_for_ever() {
    #[derive(Clone)]
    struct Forgetful;
    impl Executor for Forgetful {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            drop(task);
            Ok(())
        }
    }
    let (topic, log) = (cached(), Log::default());
    let watch = log.start(topic.subscribe().on(&Forgetful));
    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    assert_eq!((watch.queued_len(), watch.is_idle()), (1, true));
}

/// Two full serializers: one refuses tasks, the other drops its oldest.
#[test]
fn a_full_serializer_still_takes_a_turn() {
    for overflow in [Overflow::Reject, Overflow::DropOldest] {
        let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
        let full = pool.serializer("full").capacity(1).overflow(overflow);
        let full = full.build().unwrap();
        let suspension = full.suspend();
        full.push(|| ()).unwrap();
        let (topic, log) = (cached(), Log::default());
        let _watch = log.start(topic.subscribe().on(&full));
        assert_eq!(topic.publish(level(1, 1)), delivered(1));
        for _ in 0..3 {
            let _refused_or_in_place_of_the_turn = full.push(|| ());
        }
        drop(suspension);
        while pool.step() {}
        assert_eq!(log.take(), [Heard::Level(1, 1)], "{overflow:?}");
    }
}

#[test]
fn a_full_cache_refuses_an_event_of_a_new_key_for_all_subscribers() {
    let (sink, log) = (cached(), Log::default());
    let topic = Topic::builder("full").cached().key_limit(2).build();
    let _forward = topic.forward_to(&sink).unwrap();
    let _watch = log.start(topic.subscribe());
    for line in 1..=4 {
        assert_eq!(topic.publish(level(line, 0)).refused, line > 2);
    }
    assert!(!topic.publish(level(1, 1)).refused);
    assert_eq!((sink.len(), topic.len(), topic.stats().refused), (2, 2, 2));
    assert_eq!(topic.remove(&2).key_count, 1);
    assert!(!topic.publish(level(3, 3)).refused);
    assert!(topic.publish_from(NodeId(9), level(4, 1)).refused);
    let heard = [(1, 0), (2, 0), (1, 1)].map(|(line, n)| Heard::Level(line, n));
    let mut expected = Vec::from(heard);
    expected.extend([Heard::Removed(2), Heard::Level(3, 3)]);
    assert_eq!(log.take(), expected);
}

#[test]
fn a_refused_turn_leaves_the_events_in_the_mailbox() {
    #[derive(Clone)]
    struct Closed;
    impl Executor for Closed {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            let reason = Reason::ShutDown;
            Err(Rejected { task, reason })
        }
    }
    let (topic, log) = (cached(), Log::default());
    let watch = log.start(topic.subscribe().capacity(1).on(&Closed));
    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    assert_eq!(topic.publish(level(1, 2)).lost, 1);
    assert_eq!(watch.queued_len(), 1);
    assert_eq!(log.take(), []);
}

#[test]
fn a_registry_counts_for_every_topic() {
    let registry = Registry::default();
    let topic = Topic::builder("b").cached().registry(&registry).build();
    let other = Topic::<Level>::builder("a").registry(&registry).build();
    let log = Log::default();
    let _watch = log.start(topic.subscribe());
    let _ = topic.publish(level(1, 1));
    let stats = registry.stats();
    assert_eq!(stats[0].name, "a");
    assert_eq!((stats[1].published, stats[1].delivered), (1, 1));
    assert_eq!((stats[1].cached_count, stats[1].subscriber_count), (1, 1));
    drop(other);
    assert_eq!(registry.stats().len(), 1);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_stream_replays_and_then_wakes_its_task_once_for_what_comes() {
    let topic = cached();
    let _ = topic.publish(level(1, 1));
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut context = Context::from_waker(&waker);
    let mut stream = pin!(topic.subscribe().replay().capacity(2).stream());
    let mut next = || match stream.as_mut().poll_next(&mut context) {
        Poll::Ready(message) => message.map(|message| Heard::from(message.as_delivery())),
        Poll::Pending => None,
    };
    assert_eq!(next(), Some(Heard::Level(1, 1)));
    assert_eq!(next(), Some(Heard::Replayed));
    assert_eq!(next(), None);
    let _ = topic.publish(level(1, 2));
    let _ = topic.publish(level(1, 3));
    assert_eq!(topic.publish(level(1, 4)).lost, 1);
    assert_eq!(alarm.0.load(Ordering::Relaxed), 1);
    let rest: Vec<Heard> = std::iter::from_fn(next).collect();
    assert_eq!(
        rest,
        [
            Heard::Level(1, 2),
            Heard::Level(1, 3),
            Heard::Lost(1),
            Heard::Level(1, 4),
            Heard::Replayed
        ]
    );
}

#[test]
fn statistics_name_the_slow_subscriber() {
    let (topic, later, log) = (cached(), Later::default(), Log::default());
    let _quick = log.start(topic.subscribe().name("quick"));
    let _slow = log.start(topic.subscribe().name("slow").key(2).on(&later));
    let _behind = log.start(
        topic
            .subscribe()
            .replay()
            .capacity(1)
            .name("behind")
            .on(&later),
    );
    for number in 0..3 {
        let _ = topic.publish(level(2, number));
    }
    let stats = topic.stats();
    assert_eq!(stats.slowest_subscriber, "slow");
    assert_eq!(stats.slowest_queued_len, 3);
    assert_eq!(
        stats.lagging_count, 0,
        "a new subscription has received nothing and lost nothing"
    );
    later.run_all();
    let _ = topic.publish(level(2, 4));
    let _ = topic.publish(level(2, 5));
    assert_eq!(topic.stats().lagging_count, 1);
    later.run_all();
    let stats = topic.stats();
    assert_eq!((stats.lagging_count, stats.slowest_queued_len), (0, 0));
    assert_eq!(stats.slowest_subscriber, "");
}

#[test]
fn forwarded_events_keep_their_order_and_start_with_the_cache() -> Result<(), ForwardError> {
    let (one, other, all) = (cached(), cached(), cached());
    let _ = one.publish(level(1, 1));
    let log = Log::default();
    let _watch = log.start(all.subscribe().replay());
    let forward = one.forward_to(&all)?;
    let _other = other.forward_to(&all)?;
    assert_eq!(one.forward_to(&all).err(), Some(ForwardError::Duplicate));
    assert_eq!(all.forward_to(&one).err(), Some(ForwardError::Circle));
    assert_eq!(one.publish(level(1, 2)), delivered(1));
    assert_eq!(other.publish(level(2, 9)), delivered(1));
    let _ = one.remove(&1);
    drop(forward);
    assert_eq!(one.publish(level(1, 3)), delivered(0));
    assert_eq!(
        log.take(),
        [
            Heard::Replayed,
            Heard::Level(1, 1),
            Heard::Level(1, 2),
            Heard::Level(2, 9),
            Heard::Removed(1)
        ]
    );
    assert_eq!(one.stats().delivered, 0);
    assert_eq!((all.len(), all.stats().delivered), (1, 4));
    Ok(())
}

#[test]
fn a_fold_makes_one_state_of_all_nodes_and_is_undone_node_by_node() {
    let (here, there, elsewhere) = (NodeId(1), NodeId(2), NodeId(3));
    let topic = Topic::builder("sum")
        .fold(here, |parts: &[(NodeId, Level)]| {
            level(parts[0].1.line, parts.iter().map(|part| part.1.level).sum())
        })
        .build();
    let log = Log::default();
    let _watch = log.start(topic.subscribe());
    let _ = topic.publish(level(1, 1));
    let _ = topic.publish_from(there, level(1, 10));
    let _ = topic.publish_from(elsewhere, level(2, 100));
    let _ = topic.publish(level(1, 2));
    let _ = topic.publish(level(2, 5));
    assert_eq!(topic.get(&1), Some(level(1, 12)));
    assert_eq!(topic.get(&2), Some(level(2, 105)));
    assert_eq!(topic.remove(&2).key_count, 1);
    assert_eq!(topic.get(&2), Some(level(2, 100)));
    assert!(topic.remove_from(there, &2).is_nothing());
    assert_eq!(topic.remove_node(there).key_count, 1);
    assert_eq!(topic.get(&1), Some(level(1, 2)));
    assert_eq!(topic.remove_node(elsewhere).key_count, 1);
    assert_eq!(topic.get(&2), None);
    let _ = topic.publish(level(1, 3));
    assert_eq!(topic.remove(&1).key_count, 1);
    assert!(topic.is_empty());
    let expected = [
        (1, 1),
        (1, 11),
        (2, 100),
        (1, 12),
        (2, 105),
        (2, 100),
        (1, 2),
    ];
    let mut expected: Vec<_> = expected.map(|(line, n)| Heard::Level(line, n)).into();
    expected.extend([Heard::Removed(2), Heard::Level(1, 3), Heard::Removed(1)]);
    assert_eq!(log.take(), expected);
}

#[test]
fn a_key_expires_unless_something_newer_was_published() -> Result<(), Box<dyn Error>> {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let timers = Timers::builder().clock(clock.clone()).build();
    let later = Later::default();
    let topic = Topic::builder("expiring").cached();
    let topic = topic.with_ttl(&timers, &later).build();
    let (log, second) = (Log::default(), Duration::from_secs(1));
    let _watch = log.start(topic.subscribe());
    let pass = |time: Duration| {
        clock.as_virtual().unwrap().advance(time);
        timers.run_due(clock.now());
        later.run_all();
    };
    let _ = topic.publish_with_ttl(level(1, 1), second)?;
    let _ = topic.publish_with_ttl(level(2, 1), second)?;
    let _ = topic.publish_with_ttl(level(3, 1), second)?;
    let _ = topic.publish_with_ttl(level(2, 2), 3 * second)?;
    let _ = topic.publish(level(3, 2));
    log.take();
    pass(second);
    assert_eq!(log.take(), [Heard::Removed(1)]);
    pass(second);
    assert_eq!(log.take(), []);
    pass(second);
    assert_eq!(log.take(), [Heard::Removed(2)]);
    pass(1000 * second);
    assert_eq!(topic.snapshot(), [level(3, 2)]);
    assert_eq!(timers.stats().pending_count, 0);
    let refused = cached().publish_with_ttl(level(1, 1), second);
    assert_eq!(refused, Err(TtlError::NoTimers));
    Ok(())
}
