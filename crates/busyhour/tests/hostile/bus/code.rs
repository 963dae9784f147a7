//! Hostile user code where a topic calls it.

use crate::{bombs::until, watchdog::watched};
use busyhour::{
    bus::{Attribute, Delivery, Event, NodeId, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::Overflow,
};
use futures_core::Stream;
use std::{
    cell::Cell,
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Waker},
};

/// An event that has memory behind a lock, which its clone makes grow.
struct Growing {
    key: u32,
    memory: Mutex<Vec<String>>,
}

impl Growing {
    fn new(key: u32) -> Self {
        let memory = Mutex::new(Vec::new());
        Self { key, memory }
    }

    fn grow(&self) -> usize {
        let mut memory = self.memory.lock().unwrap();
        let line = format!("line {} of {}", memory.len(), self.key);
        memory.push(line);
        memory.len()
    }
}

impl Clone for Growing {
    fn clone(&self) -> Self {
        self.grow();
        let memory = Mutex::new(self.memory.lock().unwrap().clone());
        Self {
            key: self.key,
            memory,
        }
    }
}

impl Event for Growing {
    type Key = u32;

    fn key(&self) -> &u32 {
        self.grow();
        &self.key
    }
}

/// With bitwise copies of events, this would be a double free.
#[test]
fn an_event_may_change_itself_whenever_the_topic_uses_it() {
    watched("an event that changes itself", || {
        let topic = Topic::builder("growing").cached().build();
        for key in 0..4 {
            let _ = topic.publish(Growing::new(key));
        }
        for round in 1..100 {
            let got = topic.get(&1).unwrap();
            assert!(
                got.memory.lock().unwrap().len() >= round,
                "it grew in the cache"
            );
        }
        assert_eq!(topic.snapshot().len(), 4);
        assert_eq!(
            topic
                .get_from(topic.origin_of(&1).unwrap(), &1)
                .unwrap()
                .key,
            1
        );
        let heard = Arc::new(Mutex::new(0));
        let count = Arc::clone(&heard);
        let wanted = topic
            .subscribe()
            .matching(|event: &Growing| event.grow() > 0);
        let watch = wanted.replay().start(move |delivery| {
            if let Delivery::Event(event, _) = delivery {
                event.grow();
                *count.lock().unwrap() += 1;
            }
        });
        assert_eq!(*heard.lock().unwrap(), 4);
        drop(watch);
        assert_eq!(
            topic
                .remove_matching(|event| event.grow() > 0 && event.key < 2)
                .key_count,
            2
        );
        assert_eq!(topic.len(), 2);
    });
}

/// An event whose methods and callbacks do the deed that they are given,
/// wherever the topic calls them.
struct Hostile {
    key: Key,
    on_drop: Deed,
    on_clone: Deed,
}

#[derive(Clone)]
struct Key {
    number: u32,
    on_use: Deed,
}

/// A deed; it is done each time, but not within itself.
#[derive(Clone, Default)]
struct Deed(Option<Arc<dyn Fn() + Send + Sync>>);

thread_local!(static BUSY: Cell<bool> = const { Cell::new(false) });

impl Deed {
    fn new(deed: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(deed)))
    }

    fn run(&self) {
        if let Some(deed) = &self.0
            && !BUSY.replace(true)
        {
            let _free = Free;
            deed();
        }
    }
}

/// Ends the deed, also after a panic.
struct Free;

impl Drop for Free {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.on_use.run();
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.on_use.run();
        self.number.hash(state);
    }
}

impl Event for Hostile {
    type Key = Key;

    fn key(&self) -> &Key {
        self.key.on_use.run();
        &self.key
    }
}

impl Clone for Hostile {
    fn clone(&self) -> Self {
        self.on_clone.run();
        Self {
            key: self.key.clone(),
            on_drop: self.on_drop.clone(),
            on_clone: self.on_clone.clone(),
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.on_drop.run();
    }
}

fn key(number: u32) -> Key {
    let on_use = Deed::default();
    Key { number, on_use }
}

fn plain(number: u32) -> Hostile {
    Hostile {
        key: key(number),
        on_drop: Deed::default(),
        on_clone: Deed::default(),
    }
}

/// Where a deed is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Key,
    Drop,
    Clone,
    Predicate,
    Attribute,
    Fold,
    Callback,
}

const PLACES: [Place; 7] = [
    Place::Key,
    Place::Drop,
    Place::Clone,
    Place::Predicate,
    Place::Attribute,
    Place::Fold,
    Place::Callback,
];

/// An event that does the deed if `place` is one of its own methods.
fn armed(number: u32, place: Place, deed: &Deed) -> Hostile {
    let at = |there| match place == there {
        true => deed.clone(),
        false => Deed::default(),
    };
    let on_use = at(Place::Key);
    Hostile {
        key: Key { number, on_use },
        on_drop: at(Place::Drop),
        on_clone: at(Place::Clone),
    }
}

/// What user code may do to the bus from within the bus.
fn deeds(topic: &Topic<Hostile>, other: &Topic<Hostile>) -> Vec<(&'static str, Deed)> {
    let (one, two) = (topic.clone(), other.clone());
    let deed = |run: fn(&Topic<Hostile>, &Topic<Hostile>)| {
        let (one, two) = (one.clone(), two.clone());
        Deed::new(move || run(&one, &two))
    };
    vec![
        ("panics", deed(|_, _| panic!("on purpose"))),
        (
            "publishes there",
            deed(|topic, _| {
                let _ = topic.publish(plain(1));
            }),
        ),
        (
            "publishes elsewhere",
            deed(|_, other| {
                let _ = other.publish(plain(1));
            }),
        ),
        (
            "publishes of a node",
            deed(|topic, _| {
                let _ = topic.publish_from(NodeId(2), plain(1));
            }),
        ),
        (
            "clears",
            deed(|topic, _| {
                let _ = topic.remove(&key(1));
            }),
        ),
        (
            "clears of a node",
            deed(|topic, _| {
                let _ = topic.remove_from(NodeId(2), &key(1));
            }),
        ),
        (
            "clears many",
            deed(|topic, _| {
                let _ = topic.remove_matching(|_| true);
            }),
        ),
        (
            "forgets a node",
            deed(|topic, _| {
                let _ = topic.remove_node(NodeId(2));
            }),
        ),
        (
            "looks",
            deed(|topic, _| {
                let _ = (topic.get(&key(1)), topic.origin_of(&key(1)));
                let _ = (topic.get_from(NodeId(2), &key(1)), topic.snapshot());
                let _ = (topic.len(), topic.would_deliver(&key(1)), topic.stats());
            }),
        ),
        (
            "subscribes",
            deed(|topic, _| {
                let all = topic.subscribe().replay().start(|_| ());
                let one = topic.subscribe().key(key(1)).start(|_| ());
                let some = topic
                    .subscribe()
                    .matching(|_| true)
                    .conflate()
                    .start(|_| ());
                drop((all, one, some, topic.subscribe().replay().stream()));
            }),
        ),
        (
            "forwards",
            deed(|topic, other| drop(topic.forward_to(other))),
        ),
    ]
}

/// A topic with every kind of listener, and another topic that it forwards to.
struct Scene {
    topic: Topic<Hostile>,
    other: Topic<Hostile>,
}

impl Scene {
    fn new(kind: &str) -> Self {
        let fold = |parts: &[(NodeId, Hostile)]| parts[0].1.clone();
        let (topic, other) = (Topic::builder("hostile"), Topic::builder("other"));
        let topic = match kind {
            "plain" => topic.build(),
            "cached" => topic.cached().build(),
            _ => topic.fold(NodeId(1), fold).build(),
        };
        let other = other.cached().build();
        Self { topic, other }
    }
}

/// Calls every public function of the topic that may call user code; a panic
/// ends only the call that it happens in.
fn use_everything(scene: &Scene, place: Place, deed: &Deed) {
    let Scene { topic, other } = scene;
    let at = |there| match place == there {
        true => deed.clone(),
        false => Deed::default(),
    };
    let try_to = |use_it: &dyn Fn()| drop(catch_unwind(AssertUnwindSafe(use_it)));
    let (predicate, attribute, callback) = (
        at(Place::Predicate),
        at(Place::Attribute),
        at(Place::Callback),
    );
    let sort = Attribute::new(move |event: &Hostile| {
        attribute.run();
        event.key.number % 2
    });
    // Each event that its own callback publishes is one more delivery; this
    // bounds them.
    let left = Arc::new(AtomicU32::new(20));
    let hear = move |_: Delivery<'_, Hostile>| {
        let some_left = |left: u32| left.checked_sub(1);
        if (left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, some_left)).is_ok() {
            callback.run();
        }
    };
    let wanted = move |_: &Hostile| {
        predicate.run();
        true
    };
    let later = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    let kept = Mutex::new(Vec::new());
    let keep = |subscription| kept.lock().unwrap().push(subscription);
    let on_use = at(Place::Key);
    let one = Key { number: 1, on_use };
    try_to(&|| keep(topic.subscribe().replay().start(hear.clone())));
    try_to(&|| {
        keep(
            topic
                .subscribe()
                .key(one.clone())
                .replay()
                .start(hear.clone()),
        )
    });
    try_to(&|| {
        keep(
            topic
                .subscribe()
                .matching(wanted.clone())
                .replay()
                .start(hear.clone()),
        )
    });
    try_to(&|| keep(topic.subscribe().having(&sort, 1).start(hear.clone())));
    try_to(&|| keep(topic.subscribe().conflate().on(&later).start(hear.clone())));
    let few = |overflow| topic.subscribe().on(&later).capacity(1).overflow(overflow);
    try_to(&|| keep(few(Overflow::DropOldest).start(hear.clone())));
    try_to(&|| keep(few(Overflow::Reject).replay().start(hear.clone())));
    let mut stream = topic.subscribe().replay().stream();
    let forward = catch_unwind(AssertUnwindSafe(|| topic.forward_to(other)));
    for number in 1..4 {
        for _ in 0..2 {
            try_to(&|| {
                let _ = topic.publish(armed(number, place, deed));
            });
            try_to(&|| {
                let _ = topic.publish_from(NodeId(2), armed(number, place, deed));
            });
        }
        try_to(&|| drop(topic.get(&one)));
        try_to(&|| {
            let _ = (topic.get_from(NodeId(2), &one), topic.origin_of(&one));
        });
        try_to(&|| {
            // Dropped one by one: the drop of a list aborts if several items
            // panic.
            topic.snapshot().into_iter().for_each(try_to_drop);
        });
        try_to(&|| {
            let _ = topic.would_deliver(&one);
        });
        try_to(&|| {
            let _ = (0..9).find(|_| !later.step());
        });
    }
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        let polled = AssertUnwindSafe(|| drop(Pin::new(&mut stream).poll_next(&mut context)));
        let _ = catch_unwind(polled);
    }
    try_to(&|| {
        let _ = topic.remove_from(NodeId(2), &one);
    });
    try_to(&|| {
        let _ = topic.remove(&one);
    });
    try_to(&|| {
        let _ = topic.remove_matching(|event| event.key.number == 2);
    });
    try_to(&|| {
        let _ = topic.remove_node(NodeId(2));
    });
    try_to(&|| {
        let _ = topic.stats();
    });
    try_to(&|| {
        let _ = (0..99).find(|_| !later.step());
    });
    for subscription in kept.into_inner().unwrap() {
        try_to_drop(subscription);
    }
    try_to_drop(forward);
    try_to_drop(stream);
}

fn try_to_drop<T>(value: T) {
    drop(catch_unwind(AssertUnwindSafe(|| drop(value))));
}

/// The topic still works.
fn assert_works(topic: &Topic<Hostile>, is_cached: bool) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let watch = topic.subscribe().key(key(77)).start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            log.lock().unwrap().push(event.key.number);
        }
    });
    assert_eq!(topic.publish(plain(77)).delivered, 1);
    assert_eq!(*heard.lock().unwrap(), [77]);
    assert_eq!(topic.get(&key(77)).is_some(), is_cached);
    drop(watch);
    assert_eq!(topic.stats().subscriber_count, 0);
    assert_eq!(topic.publish(plain(77)).delivered, 0);
}

#[test]
fn everything_that_user_code_does_within_the_bus_ends() {
    for kind in ["plain", "cached", "folding"] {
        for place in PLACES {
            let scene = Scene::new(kind);
            for (name, deed) in deeds(&scene.topic, &scene.other) {
                let scene = Scene {
                    topic: scene.topic.clone(),
                    other: scene.other.clone(),
                };
                let case = format!("{name} in {place:?} of a {kind} topic");
                watched(case, || {
                    use_everything(&scene, place, &deed);
                    assert_works(&scene.topic, kind != "plain");
                });
            }
        }
    }
}

/// No subscription and one key, so each publish takes the fast path; from the 129th
/// publish on, it uses the memory of an event that is dropped then.
#[test]
fn everything_that_the_drop_of_a_replaced_event_does_ends() {
    let scene = Scene::new("cached");
    for (name, deed) in deeds(&scene.topic, &scene.other) {
        let topic = scene.topic.clone();
        let done = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&done);
        let counted = Deed::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            deed.0.iter().for_each(|deed| deed());
        });
        watched(format!("{name} in the drop of a replaced event"), || {
            let publish = || {
                let publish = || topic.publish(armed(1, Place::Drop, &counted));
                let _panicked = catch_unwind(AssertUnwindSafe(publish));
            };
            (0..400).for_each(|_| publish());
            // While a thread reads any topic of the process, replaced events are
            // kept.
            until(|| {
                publish();
                done.load(Ordering::Relaxed) > 200
            });
            let _panicked = catch_unwind(AssertUnwindSafe(|| topic.publish(plain(1))));
            let _panicked = catch_unwind(AssertUnwindSafe(|| topic.stats()));
            assert_works(&topic, true);
        });
    }
}
