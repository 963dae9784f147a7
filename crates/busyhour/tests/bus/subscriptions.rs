//! The list of subscriptions, and the topic on which they come and go.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use busyhour::{
    bus::{Attribute, Delivery, Event, Registry, SubscriptionEvent, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    runtime::Runtime,
    stats::{SubscriptionFilter, SubscriptionStats},
    task::{Executor, Overflow, Rejected, Task},
};
use futures_core::Stream;

#[derive(Clone)]
struct Load {
    line: u32,
    calls: u32,
}

impl Event for Load {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.line
    }
}

fn load(line: u32, calls: u32) -> Load {
    Load { line, calls }
}

fn idle_pool() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::default()))
}

fn of_name(topic: &Topic<Load>, name: &str) -> SubscriptionStats {
    let mut all = topic.subscriptions().into_iter();
    let found = all.find(|stats| stats.name == name).unwrap();
    assert!(all.all(|stats| stats.name != name), "each is listed once");
    found
}

#[test]
fn each_subscription_says_what_it_wants_and_what_waits() {
    let loads: Topic<Load> = Topic::builder("loads").cached().build();
    let (pool, calls) = (idle_pool(), Attribute::new(|load: &Load| load.calls));
    let serializer = pool.serializer("watchers").build().unwrap();
    let by = || loads.subscribe().on(&serializer);
    let _all = by().name("all").capacity(3).start(|_| ());
    let _key = by().name("key").key(7).start(|_| ());
    let _predicate = by()
        .name("predicate")
        .matching(|load| load.calls > 4)
        .start(|_| ());
    let _attribute = by().name("attribute").having(&calls, 5).start(|_| ());
    let _here = loads.subscribe().name("here").start(|_| ());
    let ended = loads.subscribe().name("ended").start(|_| ());
    drop(ended);
    for (line, calls) in [(7, 4), (7, 5), (8, 5), (9, 6)] {
        _ = loads.publish(load(line, calls));
    }
    use SubscriptionFilter as Filter;
    let filters = [
        ("all", Filter::All, 3),
        ("key", Filter::Key, 2),
        ("predicate", Filter::Predicate, 3),
        ("attribute", Filter::Attribute, 2),
    ];
    for (name, filter, queued_len) in filters {
        let stats = of_name(&loads, name);
        assert_eq!((stats.filter, stats.queued_len), (filter, queued_len));
        assert_eq!((&*stats.topic, &*stats.executor), ("loads", "watchers"));
        assert_eq!(stats.delivered, 0);
        assert_eq!(stats.capacity, if name == "all" { 3 } else { 1_024 });
        assert_eq!(stats.lost, u64::from(name == "all"));
        assert!(!stats.is_lagging);
    }
    let here = of_name(&loads, "here");
    assert_eq!(
        (here.queued_len, here.delivered, &*here.executor),
        (0, 4, "")
    );
    let lengths: Vec<u64> = loads
        .subscriptions()
        .iter()
        .map(|it| it.queued_len)
        .collect();
    assert_eq!(
        lengths,
        [3, 3, 2, 2, 0],
        "the longest first, without the ended one"
    );
    while pool.step() {}
    let all = of_name(&loads, "all");
    assert_eq!(
        (all.queued_len, all.delivered, all.lost),
        (0, 4, 1),
        "three and the notice"
    );
    assert_eq!(of_name(&loads, "predicate").delivered, 3);
}

#[test]
fn a_laggard_is_shown_until_it_is_up_to_date() {
    let (loads, pool) = (Topic::builder("loads").cached().build(), idle_pool());
    let subscription = loads.subscribe().name("slow").capacity(2).replay();
    let subscription = subscription.on(&pool).start(|_| ());
    assert!(
        of_name(&loads, "slow").is_lagging,
        "its replay has not begun"
    );
    while pool.step() {}
    assert!(!of_name(&loads, "slow").is_lagging);
    for line in 0..5 {
        _ = loads.publish(load(line, 1));
    }
    let slow = of_name(&loads, "slow");
    assert!(slow.is_lagging);
    assert_eq!((slow.queued_len, slow.lost), (2, subscription.lost()));
    while pool.step() {}
    let slow = of_name(&loads, "slow");
    assert!(!slow.is_lagging);
    assert!(slow.delivered >= 5 && slow.queued_len == 0);
}

#[test]
fn what_a_stream_receives_by_replay_waits_and_is_delivered() {
    let loads: Topic<Load> = Topic::builder("loads").cached().build();
    for line in 0..1_000 {
        _ = loads.publish(load(line, 1));
    }
    let mut stream = loads.subscribe().name("stream").replay().stream();
    let mut context = Context::from_waker(Waker::noop());
    let mut received = 0;
    while Pin::new(&mut stream).poll_next(&mut context).is_ready() {
        received += 1;
        let stats = of_name(&loads, "stream");
        assert_eq!(stats.delivered, received);
        assert_eq!(stats.queued_len, stream.queued_len() as u64);
        if received == 500 {
            _ = loads.publish(load(7, 2));
        }
    }
    assert_eq!(received, 1_002, "the keys, the change and the notice");
}

#[test]
fn a_stream_whose_executor_has_ended_counts_what_it_still_delivers() {
    let (loads, pool) = (Topic::builder("loads").cached().build(), idle_pool());
    let stream = loads.subscribe().name("stream").on(&pool);
    let mut stream = stream.stream();
    for line in 0..3 {
        _ = loads.publish(load(line, 1));
    }
    pool.shutdown(Duration::from_millis(1));
    let mut context = Context::from_waker(Waker::noop());
    for received in 1..=3 {
        assert!(Pin::new(&mut stream).poll_next(&mut context).is_ready());
        let stats = of_name(&loads, "stream");
        assert_eq!(stats.delivered, received);
        assert_eq!(stats.queued_len, 3 - received);
    }
    let end = Pin::new(&mut stream).poll_next(&mut context);
    assert!(matches!(end, Poll::Ready(None)));
}

#[test]
fn a_registry_and_a_runtime_list_those_of_every_topic() {
    let (registry, pool) = (Registry::default(), idle_pool());
    let topic = |name: &str| Topic::<Load>::builder(name).registry(&registry).build();
    let (one, other) = (topic("one"), topic("other"));
    let _one = one.subscribe().on(&pool).start(|_| ());
    let _other = other.subscribe().on(&pool).start(|_| ());
    _ = other.publish(load(1, 1));
    let topics = |all: Vec<SubscriptionStats>| -> Vec<String> {
        all.into_iter().map(|stats| stats.topic).collect()
    };
    assert_eq!(topics(registry.subscriptions()), ["other", "one"]);
    _ = one.publish(load(1, 1));
    _ = one.publish(load(2, 1));
    assert_eq!(topics(registry.subscriptions()), ["one", "other"]);

    let runtime = Runtime::simulated(1);
    let loads = runtime.topic::<Load>("loads").build();
    let _watcher = loads.subscribe().start(|_| ());
    assert_eq!(topics(runtime.subscriptions()), ["loads"]);
}

/// Its name is foreign code in the middle of the list, and panics.
#[derive(Clone)]
struct Unnamed;

impl Executor for Unnamed {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }

    fn name(&self) -> String {
        panic!("it has no name")
    }
}

#[test]
fn a_panic_of_an_executor_s_name_leaves_the_topic_as_it_was() {
    let loads = Topic::builder("loads").build();
    let _unnamed = loads.subscribe().on(&Unnamed).start(|_| ());
    let _here = loads.subscribe().start(|_| ());
    let list = || loads.subscriptions();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(list)).is_err());
    assert_eq!(loads.publish(load(1, 1)).delivered, 2);
}

#[test]
fn subscriptions_are_announced_when_they_come_and_go() {
    let announcements = Topic::<SubscriptionEvent>::builder("subscriptions")
        .cached()
        .build();
    let topic = |name: &str| {
        let builder = Topic::<Load>::builder(name);
        builder.announce_subscriptions(&announcements).build()
    };
    let (one, other) = (topic("one"), topic("other"));
    let early = one.subscribe().name("early").key(7).start(|_| ());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let _listener = announcements.subscribe().replay().start(move |delivery| {
        log.lock().unwrap().push(match delivery {
            Delivery::Event(event, _) => {
                format!("{} {} {:?}", event.topic, event.name, event.filter)
            }
            Delivery::Removed(..) => "gone".to_owned(),
            _ => "replayed".to_owned(),
        });
    });
    let late = other.subscribe().name("late").start(|_| ());
    let stream = one.subscribe().name("stream").stream();
    assert_eq!(announcements.len(), 3);
    drop(early);
    drop(stream);
    drop(late);
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "one early Key",
            "replayed",
            "other late All",
            "one stream All",
            "gone",
            "gone",
            "gone"
        ]
    );
    assert!(announcements.is_empty());
}

#[test]
fn a_subscription_is_there_when_it_is_announced_and_not_when_it_is_withdrawn() {
    let announcements = Topic::<SubscriptionEvent>::builder("subscriptions")
        .cached()
        .build();
    let loads = Topic::<Load>::builder("loads")
        .announce_subscriptions(&announcements)
        .build();
    let (counts, other) = (Arc::new(Mutex::new(Vec::new())), loads.clone());
    let log = Arc::clone(&counts);
    let _listener = announcements.subscribe().start(move |_| {
        log.lock().unwrap().push(other.stats().subscriber_count);
    });
    drop(loads.subscribe().start(|_| ()));
    assert_eq!(*counts.lock().unwrap(), [1, 0]);
}

static HEARD: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_publisher_s_loss_and_the_list_agree() {
    let (loads, pool) = (Topic::builder("loads").build(), idle_pool());
    let subscription = loads
        .subscribe()
        .name("full")
        .capacity(10)
        .overflow(Overflow::DropOldest);
    let subscription = subscription.on(&pool).start(|delivery| {
        if let Delivery::Event(..) = delivery {
            HEARD.fetch_add(1, Ordering::Relaxed);
        }
    });
    let lost: u64 = (0..25).map(|line| loads.publish(load(line, 1)).lost).sum();
    assert_eq!(
        (of_name(&loads, "full").lost, subscription.lost()),
        (lost, lost)
    );
    while pool.step() {}
    let full = of_name(&loads, "full");
    assert_eq!(HEARD.load(Ordering::Relaxed), 10);
    assert_eq!((full.delivered, full.lost), (11, 15), "ten and the notice");
}

/// The statistics find it among those alone for whom something may wait, the list visits all.
#[test]
fn the_slowest_is_the_first_of_the_list_whatever_has_waited_before() {
    let loads: Topic<Load> = Topic::builder("loads").cached().build();
    let pool = idle_pool();
    let subscribe = |line: u32, replays: bool| {
        let builder = loads.subscribe().key(line).name(line.to_string());
        let builder = match replays {
            true => builder.replay().conflate(),
            false => builder,
        };
        builder.on(&pool).start(|_| ())
    };
    let mut all: Vec<_> = (0..60).map(|line| subscribe(line, line % 3 == 0)).collect();
    let mut random = 7_u32;
    let mut has_waited = 0;
    for round in 0..2_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let line = (random >> 8) % 60;
        match (random >> 16) % 40 {
            0..3 => {
                // Another one comes for the key before the statistics look again.
                drop(all.swap_remove(line as usize));
                all.push(subscribe((random >> 20) % 60, round % 2 == 0));
            }
            3..5 => all[line as usize].replay(),
            5 => while pool.step() {},
            6..12 => drop(pool.step()),
            12..15 => drop(loads.remove(&line)),
            _ => drop(loads.publish(load(line, random))),
        }
        if (random >> 12).is_multiple_of(4) {
            let stats = loads.stats();
            let expected = loads.subscriptions().first().map_or(0, |it| it.queued_len);
            assert_eq!(stats.slowest_queued_len, expected, "round {round}");
            has_waited += u32::from(expected > 1);
            let named = of_len(&loads, &stats.slowest_subscriber);
            assert!(expected == 0 || named.contains(&expected), "round {round}");
        }
    }
    assert!(has_waited > 100, "{has_waited}");
}

fn of_len(topic: &Topic<Load>, name: &str) -> Vec<u64> {
    let all = topic.subscriptions().into_iter();
    let named = all.filter(|stats| stats.name == name);
    named.map(|stats| stats.queued_len).collect()
}
