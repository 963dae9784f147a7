//! An event that is small and needs no drop, so its first subscriber gets a copy; its
//! `Clone` is hostile.

use crate::{
    bombs::{pool, until},
    watchdog::watched,
};
use busyhour::{
    bus::{Delivery, Event, Subscription, Topic},
    pool::TaskPool,
};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// What a clone does. It lives as long as the process, so an event can refer to it
/// without needing a drop.
type Deed = &'static (dyn Fn() + Send + Sync);

struct Small {
    number: u32,
    on_clone: Option<Deed>,
}

const _: () = assert!(!std::mem::needs_drop::<Small>() && size_of::<Small>() <= 64);

thread_local!(static BUSY: Cell<bool> = const { Cell::new(false) });

impl Clone for Small {
    fn clone(&self) -> Self {
        if let Some(deed) = self.on_clone
            && !BUSY.replace(true)
        {
            let done = catch_unwind(AssertUnwindSafe(deed));
            BUSY.set(false);
            if let Err(panic) = done {
                std::panic::resume_unwind(panic);
            }
        }
        Self { ..*self }
    }
}

impl Event for Small {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.number
    }
}

fn small(number: u32, on_clone: Option<Deed>) -> Small {
    Small { number, on_clone }
}

struct Scene {
    topic: Topic<Small>,
    heard: Arc<AtomicU32>,
    watch: Mutex<Vec<Subscription<Small>>>,
    pool: TaskPool,
}

impl Scene {
    /// One subscription on a worker and one on the publisher's thread.
    fn new(cached: bool) -> &'static Self {
        let topic = Topic::builder("small");
        let topic = match cached {
            true => topic.cached().build(),
            false => topic.build(),
        };
        let (heard, pool) = (Arc::new(AtomicU32::new(0)), pool(1));
        let hear = || {
            let heard = Arc::clone(&heard);
            move |delivery: Delivery<'_, Small>| {
                if let Delivery::Event(..) = delivery {
                    heard.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let watch = vec![
            topic.subscribe().key(1).on(&pool).start(hear()),
            topic.subscribe().start(hear()),
        ];
        let watch = Mutex::new(watch);
        Box::leak(Box::new(Self {
            topic,
            heard,
            watch,
            pool,
        }))
    }

    fn heard(&self) -> u32 {
        self.heard.load(Ordering::Relaxed)
    }

    fn unsubscribe(&self) {
        let watch = std::mem::take(&mut *self.watch.lock().unwrap_or_else(PoisonError::into_inner));
        drop(watch);
    }
}

fn deeds(scene: &'static Scene) -> [(&'static str, Deed); 7] {
    let deed = |deed: Box<dyn Fn() + Send + Sync>| -> Deed { Box::leak(deed) };
    [
        (
            "panics",
            deed(Box::new(|| panic!("on purpose, in a clone"))),
        ),
        (
            "publishes",
            deed(Box::new(|| {
                let _ = scene.topic.publish(small(1, None));
            })),
        ),
        (
            "removes",
            deed(Box::new(|| {
                let _ = scene.topic.remove(&1);
            })),
        ),
        (
            "looks",
            deed(Box::new(|| {
                let _ = (scene.topic.get(&1), scene.topic.snapshot());
            })),
        ),
        (
            "subscribes",
            deed(Box::new(|| {
                let more = scene.topic.subscribe().key(1).replay().start(|_| ());
                let mut watch = scene.watch.lock().unwrap_or_else(PoisonError::into_inner);
                watch.push(more);
            })),
        ),
        ("unsubscribes", deed(Box::new(|| scene.unsubscribe()))),
        (
            "stops the pool",
            deed(Box::new(|| {
                let _ = scene.pool.shutdown(Duration::from_secs(1));
            })),
        ),
    ]
}

/// A publish whose clone panics has no effect; all other publishes have. The topic
/// continues to work.
#[test]
fn a_copy_is_made_under_no_lock() {
    for cached in [false, true] {
        for index in 0..7 {
            let scene = Scene::new(cached);
            let _ = scene.topic.publish(small(1, None));
            until(|| scene.heard() == 2);
            let (name, deed) = deeds(scene)[index];
            watched(format!("a clone that {name}, cached: {cached}"), || {
                let publish = || scene.topic.publish(small(1, Some(deed)));
                let published = catch_unwind(AssertUnwindSafe(publish));
                assert_eq!(published.is_err(), name == "panics");
                scene.unsubscribe();
                let heard = Arc::new(AtomicU32::new(0));
                let hear = Arc::clone(&heard);
                let _watch = scene.topic.subscribe().key(1).start(move |_| {
                    hear.fetch_add(1, Ordering::Relaxed);
                });
                let published = scene.topic.publish(small(1, None));
                assert_eq!((published.delivered, heard.load(Ordering::Relaxed)), (1, 1));
            });
        }
    }
}
