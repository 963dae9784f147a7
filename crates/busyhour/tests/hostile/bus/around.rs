//! What a callback, a waker or an executor may do to everything around the topic that
//! calls it: to its own subscription, to the pool and the serializer that deliver, and to
//! the last handles of all of them.

use super::Number;
use crate::{
    bombs::{OnDrop, pool, until, works},
    watchdog::watched,
};
use busyhour::{
    bus::{Subscription, Topic},
    pool::{PushError, TaskPool},
    serializer::{Serializer, ShutdownGroup},
    task::{Executor, Overflow, Reason, Rejected, Task},
};
use futures_core::Stream;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

/// The only handles, besides those in use at the moment.
struct Handles {
    pool: TaskPool,
    topic: Topic<Number>,
    lane: Serializer,
    group: ShutdownGroup,
    watches: Vec<Subscription<Number>>,
}

#[derive(Clone)]
struct Scene(Arc<Mutex<Option<Handles>>>);

impl Scene {
    fn new() -> Self {
        let (pool, group) = (pool(2), ShutdownGroup::new());
        let lane = pool.serializer("lane").group(&group);
        let handles = Handles {
            lane: lane.build().expect("a serializer"),
            topic: Topic::builder("numbers").cached().build(),
            watches: Vec::new(),
            pool,
            group,
        };
        Self(Arc::new(Mutex::new(Some(handles))))
    }

    /// Calls `look` with the handles, unless they have been dropped. No user code runs
    /// meanwhile.
    fn with<R>(&self, look: impl FnOnce(&mut Handles) -> R) -> Option<R> {
        let mut handles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handles.as_mut().map(look)
    }

    fn take(&self) -> Option<Handles> {
        let mut handles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handles.take()
    }

    fn topic(&self) -> Option<Topic<Number>> {
        self.with(|all| all.topic.clone())
    }

    fn keep(&self, watch: Subscription<Number>) {
        self.with(|all| all.watches.push(watch))
            .expect("the handles are not dropped yet");
    }

    /// A panic of a callback that runs on this thread reaches the publisher.
    fn publish(&self, count: u32) {
        for number in 0..count {
            let publish = || {
                let topic = self.topic()?;
                Some(topic.publish(Number(number)))
            };
            let _panicked = catch_unwind(AssertUnwindSafe(publish));
        }
    }
}

type Deed = (&'static str, fn(&Scene));

const DEEDS: [Deed; 10] = [
    ("panics", |_| panic!("on purpose")),
    ("publishes", |scene| scene.publish(3)),
    ("clears", |scene| {
        scene.topic().map(|topic| topic.remove(&1));
    }),
    ("subscribes", |scene| {
        let watch = scene
            .topic()
            .map(|topic| topic.subscribe().replay().start(|_| ()));
        drop(watch);
    }),
    ("unsubscribes", |scene| {
        drop(scene.with(|all| std::mem::take(&mut all.watches)));
    }),
    ("waits for the pool", |scene| {
        let pool = scene.with(|all| all.pool.clone());
        pool.map(|pool| pool.push_wait(|| ()));
    }),
    ("waits for the serializer", |scene| {
        let lane = scene.with(|all| all.lane.clone());
        // On the serializer itself this is the deadlock that is refused.
        let _ = lane.map(|lane| lane.push_wait(|| ()));
    }),
    ("shuts the group down", |scene| {
        let group = scene.with(|all| all.group.clone());
        group.map(|group| group.shutdown(Duration::from_millis(1)));
    }),
    ("shuts the pool down", |scene| {
        let pool = scene.with(|all| all.pool.clone());
        pool.map(|pool| pool.shutdown(Duration::from_millis(1)));
    }),
    ("drops the last handles", |scene| drop(scene.take())),
];

/// Does the deed once.
#[derive(Clone)]
struct Act {
    scene: Scene,
    deed: fn(&Scene),
    is_begun: Arc<AtomicBool>,
    is_done: Arc<AtomicBool>,
}

impl Act {
    fn run(&self) {
        if !self.is_begun.swap(true, Ordering::SeqCst) {
            let is_done = Arc::clone(&self.is_done);
            let _also_after_a_panic = OnDrop(move || is_done.store(true, Ordering::SeqCst));
            (self.deed)(&self.scene);
        }
    }
}

impl Wake for Act {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

/// Does the deed when it is given a task, and then runs the task or refuses it.
#[derive(Clone)]
struct Acting {
    act: Act,
    refuses: bool,
}

impl Executor for Acting {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.act.run();
        if self.refuses {
            let reason = Reason::Full;
            return Err(Rejected { task, reason });
        }
        task.run();
        Ok(())
    }
}

/// Does the deed when its waker is woken or dropped.
fn wait_in_a_stream(scene: &Scene, waker: &Waker) {
    let mut stream = scene.topic().expect("it is there").subscribe().stream();
    let mut context = Context::from_waker(waker);
    assert!(Pin::new(&mut stream).poll_next(&mut context).is_pending());
    scene.publish(2);
    // A waker that was not woken is dropped with the stream.
    let _panicked = catch_unwind(AssertUnwindSafe(|| drop(stream)));
}

type Site = (&'static str, fn(&Scene, Act));

const SITES: [Site; 9] = [
    ("a callback on the pool", |scene, act| {
        let (topic, pool) = scene
            .with(|all| (all.topic.clone(), all.pool.clone()))
            .expect("there");
        scene.keep(topic.subscribe().on(&pool).start(move |_| act.run()));
        drop((topic, pool));
        scene.publish(3);
    }),
    ("a callback on a serializer", |scene, act| {
        let (topic, lane) = scene
            .with(|all| (all.topic.clone(), all.lane.clone()))
            .expect("there");
        scene.keep(topic.subscribe().on(&lane).start(move |_| act.run()));
        drop((topic, lane));
        scene.publish(3);
    }),
    ("a callback for which a publisher waits", |scene, act| {
        let (topic, lane) = scene
            .with(|all| (all.topic.clone(), all.lane.clone()))
            .expect("there");
        let blocks = topic
            .subscribe()
            .capacity(1)
            .overflow(Overflow::Block)
            .on(&lane);
        scene.keep(blocks.start(move |_| act.run()));
        drop((topic, lane));
        scene.publish(20);
    }),
    ("a callback on the publisher's thread", |scene, act| {
        let topic = scene.topic().expect("it is there");
        scene.keep(topic.subscribe().start(move |_| act.run()));
        drop(topic);
        scene.publish(3);
    }),
    ("an executor that runs at once", |scene, act| {
        let executor = Acting {
            act,
            refuses: false,
        };
        let topic = scene.topic().expect("it is there");
        scene.keep(topic.subscribe().on(&executor).start(|_| ()));
        drop(topic);
        scene.publish(3);
    }),
    ("an executor that refuses", |scene, act| {
        let executor = Acting { act, refuses: true };
        let topic = scene.topic().expect("it is there");
        let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
        scene.keep(blocks.on(&executor).start(|_| ()));
        drop(topic);
        scene.publish(20);
    }),
    ("a waker", |scene, act| {
        wait_in_a_stream(scene, &Waker::from(Arc::new(act)));
    }),
    ("the drop of a waker", |scene, act| {
        struct Silent(
            #[expect(dead_code, reason = "it is dropped")] OnDrop<Box<dyn FnMut() + Send + Sync>>,
        );
        impl Wake for Silent {
            fn wake(self: Arc<Self>) {}
        }
        let waker = Waker::from(Arc::new(Silent(OnDrop(Box::new(move || act.run())))));
        let mut stream = scene.topic().expect("it is there").subscribe().stream();
        let polled = Pin::new(&mut stream).poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        // The stream has the last event, and gets another one in its place.
        let next = || Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop()));
        let _panicked = catch_unwind(AssertUnwindSafe(next));
    }),
    ("the drop of a callback", |scene, act| {
        let held = OnDrop(move || act.run());
        let topic = scene.topic().expect("it is there");
        let watch = topic.subscribe().start(move |_| {
            let _held = &held;
        });
        drop(topic);
        let _panicked = catch_unwind(AssertUnwindSafe(|| drop(watch)));
    }),
];

/// The remaining parts of the scene work.
fn assert_works(deed: &str, handles: &Handles) {
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let watch = handles.topic.subscribe().key(77).start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let publish = || {
        let _ = handles.topic.publish(Number(77));
    };
    // A callback of the case that still waits may panic here, on this thread.
    let _panicked = catch_unwind(AssertUnwindSafe(publish));
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    drop(watch);
    match deed {
        "shuts the pool down" => {
            assert_eq!(handles.pool.push(|| ()), Err(PushError::ShutDown));
        }
        "shuts the group down" => {
            assert_eq!(handles.lane.push(|| ()), Err(PushError::ShutDown));
            works(&handles.pool, 2);
        }
        _ => {
            works(&handles.pool, 2);
            assert_eq!(handles.lane.push_wait(|| 7), Ok(7));
        }
    }
}

#[test]
fn called_user_code_may_do_anything_to_everything_around_it() {
    for (place, site) in SITES {
        for (name, deed) in DEEDS {
            watched(format!("{place} {name}"), || {
                let scene = Scene::new();
                let act = Act {
                    scene: scene.clone(),
                    deed,
                    is_begun: Arc::default(),
                    is_done: Arc::default(),
                };
                let is_done = Arc::clone(&act.is_done);
                site(&scene, act);
                until(|| is_done.load(Ordering::SeqCst));
                match scene.take() {
                    Some(handles) => {
                        assert_works(name, &handles);
                        let topic = handles.topic.clone();
                        drop(handles.watches);
                        until(|| topic.stats().subscriber_count == 0);
                        let report = handles.pool.shutdown(Duration::from_secs(60));
                        assert_eq!(report.unfinished_workers, 0, "{place} {name}");
                    }
                    None => assert_eq!(name, "drops the last handles"),
                }
            });
        }
    }
}
