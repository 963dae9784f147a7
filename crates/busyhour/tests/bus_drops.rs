//! When a topic drops replaced events, and what their `Drop` may do.

use busyhour::{
    bus::{Delivery, Event, NodeId, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    timer::Timers,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event that runs a closure when it is dropped.
struct Guarded {
    key: u32,
    at_drop: Arc<dyn Fn() + Send + Sync>,
}

impl Event for Guarded {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.key
    }
}

impl Clone for Guarded {
    fn clone(&self) -> Self {
        guarded(self.key, || ())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        (self.at_drop)();
    }
}

fn guarded(key: u32, at_drop: impl Fn() + Send + Sync + 'static) -> Guarded {
    let at_drop = Arc::new(at_drop);
    Guarded { key, at_drop }
}

fn later() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(Default::default()))
}

fn publish_quietly(topic: &Topic<Guarded>, event: Guarded) {
    let _panicked = catch_unwind(AssertUnwindSafe(|| topic.publish(event)));
}

/// Only one test runs at a time: a replaced event is dropped when no thread of the
/// process reads any topic.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events kept for a laggard are dropped when it has caught up, and not only one with
/// each publish.
#[test]
fn keys_that_are_removed_together_are_dropped_at_once() {
    let _alone = alone();
    const KEY_COUNT: u32 = 50_000;
    // The most events that may wait for later publishes in all shards of the
    // topic.
    const LEFT_MAX: usize = 64 * 256;
    let topic = Topic::builder("leaving").cached().build();
    let later = later();
    let there = Arc::new(());
    let publish = |key| {
        let token = Arc::clone(&there);
        let _ = topic.publish(guarded(key, move || {
            let _held = &token;
        }));
    };
    (0..KEY_COUNT).for_each(publish);
    let laggard = topic.subscribe().replay().capacity(1).on(&later);
    let _laggard = laggard.start(|_| ());
    while later.step() {}
    // The subscription loses one event in each shard.
    (0..1_000).for_each(publish);
    assert_eq!(topic.stats().lagging_count, 64);
    // The other keys stay, so that the tables keep their size.
    for key in (0..KEY_COUNT).filter(|key| key % 4 != 0) {
        let _ = topic.remove(&key);
    }
    assert!(Arc::strong_count(&there) > KEY_COUNT as usize);
    while later.step() {}
    let left_count = Arc::strong_count(&there) - 1 - topic.len();
    assert!(left_count <= LEFT_MAX, "{left_count} events are left");
}

/// A subscription that lagged and has caught up needs no tombstone: the event of a
/// removed key is dropped.
#[test]
fn a_removed_key_that_a_laggard_knew_is_dropped_when_nobody_lags() {
    let _alone = alone();
    let topic = Topic::builder("caught up").cached().build();
    let later = later();
    let _ = topic.publish(guarded(1, || ()));
    let subscription = topic.subscribe().replay().capacity(1).on(&later);
    let _subscription = subscription.start(|_| ());
    while later.step() {}
    for _ in 0..3 {
        let _ = topic.publish(guarded(1, || ()));
    }
    assert_eq!(topic.stats().lagging_count, 1);
    while later.step() {}
    assert_eq!(topic.stats().lagging_count, 0);

    let there = Arc::new(());
    let token = Arc::clone(&there);
    let _ = topic.publish(guarded(1, move || {
        let _held = &token;
    }));
    while later.step() {}
    assert_eq!(topic.remove(&1).key_count, 1);
    while later.step() {}
    let patience = Instant::now() + PATIENCE;
    while topic.stats().retired_count > 0 && Instant::now() < patience {}
    assert_eq!(Arc::strong_count(&there), 1, "the event is kept");
}

/// While an overdue event is dropped, its `Drop` may publish. Such a publish drops no
/// further event, so the stack does not grow with their number.
#[test]
fn a_chain_of_drops_that_publish_is_not_deep() {
    let _alone = alone();
    const LINK_COUNT: i64 = 10_000;
    let topic = Topic::builder("chain").cached().build();
    let left = Arc::new(AtomicI64::new(LINK_COUNT));
    let dropped = Arc::new(AtomicI64::new(0));
    fn link(topic: &Topic<Guarded>, left: &Arc<AtomicI64>, dropped: &Arc<AtomicI64>) -> Guarded {
        let (topic, left, dropped) = (topic.clone(), Arc::clone(left), Arc::clone(dropped));
        guarded(1, move || {
            dropped.fetch_add(1, Ordering::Relaxed);
            if left.fetch_sub(1, Ordering::Relaxed) > 0 {
                let _ = topic.publish(link(&topic, &left, &dropped));
            }
        })
    }
    for _ in 0..300 {
        let _ = topic.publish(link(&topic, &left, &dropped));
    }
    while left.load(Ordering::Relaxed) > 0 {
        let _ = topic.publish(link(&topic, &left, &dropped));
    }
    while topic.stats().retired_count > 0 {}
    assert!(dropped.load(Ordering::Relaxed) > LINK_COUNT);
    let _ = topic.remove(&1);
}

#[test]
fn a_drop_that_panics_does_not_end_a_replay() {
    let _alone = alone();
    const KEYS: std::ops::Range<u32> = 100..20_000;
    let topic = Topic::builder("leaving").cached().build();
    let later = later();
    let is_armed = Arc::new(AtomicBool::new(false));
    for key in KEYS {
        let is_armed = Arc::clone(&is_armed);
        let panic = move || assert!(!is_armed.load(Ordering::Relaxed), "on purpose, in a drop");
        let _ = topic.publish(guarded(key, panic));
    }
    let (tell, told) = mpsc::channel();
    let watch = topic.subscribe().key(1).replay().capacity(1).on(&later);
    let _watch = watch.start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            let _ = tell.send(Arc::clone(&event.at_drop));
        }
    });
    while later.step() {}
    for _ in 0..3 {
        let _ = topic.publish(guarded(1, || ()));
    }
    for key in KEYS {
        let _ = topic.remove(&key);
    }
    let last = guarded(1, || ());
    let newest = Arc::clone(&last.at_drop);
    let _ = topic.publish(last);
    is_armed.store(true, Ordering::Relaxed);
    while later.step() {}
    is_armed.store(false, Ordering::Relaxed);
    let told = told.try_iter().last().expect("something was delivered");
    assert!(Arc::ptr_eq(&told, &newest));
}

#[test]
fn a_drop_that_panics_does_not_stop_an_expiry() {
    let _alone = alone();
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::simulated(1, clock.clone());
    let timers = Timers::builder().clock(clock.clone()).build();
    let topic = Topic::builder("lives").cached();
    let topic = topic.with_ttl(&timers, &pool).build();
    let is_armed = Arc::new(AtomicBool::new(true));
    for _ in 0..200 {
        let is_armed = Arc::clone(&is_armed);
        let panic = move || assert!(!is_armed.load(Ordering::Relaxed), "on purpose, in a drop");
        publish_quietly(&topic, guarded(1, panic));
    }
    let life = Duration::from_secs(1);
    let publish = AssertUnwindSafe(|| topic.publish_with_ttl(guarded(1, || ()), life));
    assert!(catch_unwind(publish).is_err(), "an event was overdue");
    is_armed.store(false, Ordering::Relaxed);
    clock.as_virtual().unwrap().advance(Duration::from_secs(2));
    timers.run_due(clock.now());
    while pool.step() {}
    assert!(topic.get(&1).is_none());
}

/// A large event enters the topic by another path, and is dropped like any other.
#[test]
fn a_large_event_is_dropped_once() {
    let _alone = alone();
    #[derive(Clone)]
    struct Large(
        [u64; 64],
        #[expect(dead_code, reason = "it is counted")] Arc<()>,
    );

    impl Event for Large {
        type Key = u64;

        fn key(&self) -> &u64 {
            &self.0[0]
        }
    }

    let there = Arc::new(());
    for is_cached in [false, true] {
        let topic = Topic::<Large>::builder("large");
        let topic = match is_cached {
            true => topic.cached().build(),
            false => topic.build(),
        };
        let sum = Arc::new(AtomicI64::new(0));
        let heard = Arc::clone(&sum);
        let _watch = topic.subscribe().start(move |delivery| {
            if let Delivery::Event(event, _) = delivery {
                heard.fetch_add(event.0[63] as i64, Ordering::Relaxed);
            }
        });
        for number in 0..1_000 {
            let _ = topic.publish(Large([number % 2; 64], Arc::clone(&there)));
        }
        assert_eq!(sum.load(Ordering::Relaxed), 500);
        assert_eq!(topic.len(), usize::from(is_cached) * 2);
        let _ = topic.stats();
        assert_eq!(Arc::strong_count(&there), 1 + topic.len());
    }
    assert_eq!(Arc::strong_count(&there), 1);
}

/// User code panics, and so does the `Drop` of the event that it was given: the caller
/// gets one panic.
#[test]
fn a_drop_that_panics_beside_another_panic_ends_nothing_else() {
    let _alone = alone();
    let vanish = |topic: &Topic<Fragile>| -> bool {
        let _ = topic.remove(&1);
        let _ = topic.stats();
        panic!("on purpose; this is the only reference to the event");
    };
    let panics = |code: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(code)).is_err());

    let topic = Topic::builder("heard").build();
    let _watch = topic.subscribe().start(|_| panic!("on purpose"));
    panics(&|| _ = topic.publish(Fragile::new()));

    let topic = Topic::builder("matched").cached().build();
    let _ = topic.publish(Fragile::new());
    panics(&|| _ = topic.remove_matching(|_| vanish(&topic)));

    let topic = Topic::builder("cloned").cached().build();
    let inside = topic.clone();
    let _ = topic.publish(Fragile {
        is_clone: false,
        at_clone: Some(Arc::new(move || _ = vanish(&inside))),
    });
    panics(&|| drop(topic.get_from(NodeId(0), &1)));

    let there: Arc<Mutex<Option<Topic<Fragile>>>> = Arc::default();
    let inside = Arc::clone(&there);
    let fold = move |_: &[(NodeId, Fragile)]| -> Fragile {
        let topic = inside.lock().unwrap().clone().expect("it is there");
        vanish(&topic);
        Fragile::new()
    };
    let topic = Topic::builder("folded").fold(NodeId(1), fold).build();
    *there.lock().unwrap() = Some(topic.clone());
    let _ = topic.publish(Fragile::new());
    panics(&|| _ = topic.publish_from(NodeId(2), Fragile::new()));
    *there.lock().unwrap() = None;
}

/// A fold may be made in vain, since another node publishes meanwhile. Its result is
/// dropped after the event has been published: a panic of that `Drop` reaches the
/// publisher, and the event is still published.
#[test]
fn a_drop_of_a_fold_made_in_vain_loses_no_event() {
    let _alone = alone();
    let there: Arc<Mutex<Option<Topic<Guarded>>>> = Arc::default();
    let inside = Arc::clone(&there);
    let fold = move |_: &[(NodeId, Guarded)]| {
        let Some(topic) = inside.lock().unwrap().take() else {
            return guarded(1, || ());
        };
        let _ = topic.publish_from(NodeId(2), guarded(1, || ()));
        guarded(1, || panic!("on purpose"))
    };
    let topic = Topic::builder("folded").fold(NodeId(1), fold).build();
    let _ = topic.publish(guarded(1, || ()));
    let _ = topic.publish_from(NodeId(2), guarded(1, || ()));
    *there.lock().unwrap() = Some(topic.clone());
    let published = catch_unwind(AssertUnwindSafe(|| topic.publish(guarded(1, || ()))));
    assert!(published.is_err());
    assert_eq!(
        topic.stats().published,
        4,
        "two at first, one within the fold, and this one"
    );
}

/// The memory of a node's replaced state is used for its next state, and contains
/// nothing until then.
#[test]
fn the_state_of_a_node_is_dropped_when_it_is_replaced() {
    let _alone = alone();
    #[derive(Clone)]
    struct Token(#[expect(dead_code, reason = "only its references are counted")] Arc<()>);
    impl Event for Token {
        type Key = u32;

        fn key(&self) -> &u32 {
            &1
        }
    }
    let first = |parts: &[(NodeId, Token)]| {
        assert_eq!(parts.len(), 2);
        parts[0].1.clone()
    };
    let topic = Topic::builder("folded").fold(NodeId(1), first).build();
    let _ = topic.publish_from(NodeId(2), Token(Arc::default()));
    let there = Arc::new(());
    for _ in 0..1_000 {
        let _ = topic.publish(Token(Arc::clone(&there)));
    }
    assert_eq!(topic.stats().retired_count, 0);
    assert_eq!(
        Arc::strong_count(&there),
        3,
        "this one, what the node says, and the fold"
    );
}

/// An event that panics when it is dropped; a clone of it does not.
struct Fragile {
    is_clone: bool,
    at_clone: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Fragile {
    fn new() -> Self {
        Self {
            is_clone: false,
            at_clone: None,
        }
    }
}

impl Event for Fragile {
    type Key = u32;

    fn key(&self) -> &u32 {
        &1
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        if let Some(at_clone) = &self.at_clone {
            at_clone();
        }
        Self {
            is_clone: true,
            at_clone: None,
        }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.is_clone, "on purpose, in a drop");
    }
}
