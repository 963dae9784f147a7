//! Schedules of a topic with publishers, subscribers and threads that remove
//! keys; each is too large for loom.

use super::{Delivery, Event, NodeId, Subscription, Topic};
use crate::{
    pool::TaskPool,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        lock,
        scheduled::explore,
        thread,
    },
    task::Overflow,
};
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    key: u64,
    number: u64,
}

impl Event for Level {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

/// What a subscriber received for one key, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Value(u64),
    Gone,
    Replayed,
    Lost(u64),
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Told>>>);

impl Heard {
    fn tell(&self, delivery: Delivery<'_, Level>) {
        let told = match delivery {
            Delivery::Event(level, _) => Told::Value(level.number),
            Delivery::Removed(..) => Told::Gone,
            Delivery::Replayed => Told::Replayed,
            Delivery::Lost(count) => Told::Lost(count),
        };
        lock(&self.0).push(told);
    }

    fn listen(&self, topic: &Topic<Level>, pool: &TaskPool) -> Subscription<Level> {
        let heard = self.clone();
        let builder = topic.subscribe().replay().on(pool);
        builder.start(move |delivery| heard.tell(delivery))
    }

    fn all(&self) -> Vec<Told> {
        lock(&self.0).clone()
    }

    /// The value that the subscriber ends with.
    fn last(&self) -> Option<u64> {
        let told = self.all();
        let last = told
            .iter()
            .rfind(|told| matches!(told, Told::Value(_) | Told::Gone));
        match last {
            Some(Told::Value(number)) => Some(*number),
            _ => None,
        }
    }
}

fn topic() -> Topic<Level> {
    Topic::builder("model").cached().small().build()
}

fn publish(topic: &Topic<Level>, number: u64) {
    let published = topic.publish(Level { key: 7, number });
    assert_eq!((published.lost, published.refused), (0, false));
}

fn pool() -> TaskPool {
    TaskPool::builder().workers(1).build().unwrap()
}

/// A subscriber that starts while others publish receives the current state
/// once and then each change in order.
#[test]
fn shuttle_a_replay_meets_publishers() {
    explore(1_000, || {
        let (topic, pool, heard) = (topic(), pool(), Heard::default());
        publish(&topic, 1);
        let publisher = {
            let topic = topic.clone();
            thread::spawn(move || (2..=4).for_each(|number| publish(&topic, number)))
        };
        let watch = heard.listen(&topic, &pool);
        publisher.join().unwrap();
        let report = pool.shutdown(Duration::MAX);
        assert_eq!(report.not_delivered, 0);
        let told = heard.all();
        let numbers = told.iter().filter_map(|told| match told {
            Told::Value(number) => Some(*number),
            _ => None,
        });
        let numbers: Vec<u64> = numbers.collect();
        assert!(
            [1, 2, 3, 4].ends_with(&numbers) && !numbers.is_empty(),
            "{told:?}"
        );
        let replays = told.iter().filter(|told| **told == Told::Replayed);
        assert_eq!(replays.count(), 1, "{told:?}");
        drop(watch);
    });
}

/// Two publishers, a thread that removes, and subscribers that read from the cache: each of them
/// ends with what the topic holds, and none is left asleep.
#[test]
fn shuttle_readers_of_the_cache_meet_publishers_and_a_remover() {
    explore(1_000, || {
        let (topic, pool) = (topic(), pool());
        let heard = [(); 2].map(|()| Heard::default());
        let watches = heard.each_ref().map(|heard| {
            let told = heard.clone();
            let reader = topic.subscribe().replay().conflate().on(&pool);
            reader.start(move |delivery| told.tell(delivery))
        });
        let publisher = {
            let topic = topic.clone();
            thread::spawn(move || (1..=3).for_each(|number| publish(&topic, number)))
        };
        let remover = {
            let topic = topic.clone();
            thread::spawn(move || topic.remove(&7))
        };
        publish(&topic, 4);
        publisher.join().unwrap();
        let _may_be_nothing = remover.join().unwrap();
        let last = topic.get(&7).map(|level| level.number);
        let report = pool.shutdown(Duration::MAX);
        assert_eq!(report.not_delivered, 0);
        for heard in &heard {
            assert_eq!(heard.last(), last, "{:?}", heard.all());
            let told = heard.all();
            let replays = told.iter().filter(|told| **told == Told::Replayed);
            assert_eq!(replays.count(), 1, "{told:?}");
        }
        drop(watches);
    });
}

/// Two publishers and a thread that removes: every subscriber (early, late, or
/// conflating) ends with what the topic holds.
#[test]
fn shuttle_publishers_meet_a_remover() {
    explore(1_000, || {
        let (topic, pool) = (topic(), pool());
        let [early, late, newest] = [(); 3].map(|()| Heard::default());
        let watch = heard_early(&topic, &pool, &early, &newest);
        let publisher = {
            let topic = topic.clone();
            thread::spawn(move || (1..=2).for_each(|number| publish(&topic, number)))
        };
        let remover = {
            let topic = topic.clone();
            thread::spawn(move || topic.remove(&7))
        };
        let late_watch = late.listen(&topic, &pool);
        publish(&topic, 3);
        publisher.join().unwrap();
        let _removed = remover.join().unwrap();
        let report = pool.shutdown(Duration::MAX);
        assert_eq!(report.not_delivered, 0);
        let held = topic.get(&7).map(|level| level.number);
        for (name, heard) in [("early", early), ("late", late), ("newest", newest)] {
            assert_eq!(heard.last(), held, "{name}: {:?}", heard.all());
        }
        drop((watch, late_watch));
    });
}

fn heard_early(
    topic: &Topic<Level>,
    pool: &TaskPool,
    each: &Heard,
    newest: &Heard,
) -> [Subscription<Level>; 2] {
    let told = newest.clone();
    let conflating = topic.subscribe().conflate().on(pool);
    let conflating = conflating.start(move |delivery| told.tell(delivery));
    [each.listen(topic, pool), conflating]
}

/// Several nodes publish one key, and one of them removes its state in between:
/// the result is the fold of each node's last state.
#[test]
fn shuttle_a_fold_has_the_last_state_of_each_node() {
    let level = |number| Level { key: 7, number };
    explore(1_000, move || {
        let sum = move |parts: &[(NodeId, Level)]| {
            level(parts.iter().map(|(_, level)| level.number).sum())
        };
        let builder = Topic::builder("model").fold(NodeId(1), sum);
        let topic = builder.small().build();
        publish(&topic, 1);
        let _ = topic.publish_from(NodeId(2), level(10));
        let speak = |origin: NodeId, withdraws: bool, numbers: [u64; 2]| {
            let topic = topic.clone();
            thread::spawn(move || {
                for number in numbers {
                    let _ = topic.publish_from(origin, level(number));
                    if withdraws && number == numbers[0] {
                        let _ = topic.remove_from(origin, &7);
                    }
                }
            })
        };
        let nodes = [
            speak(NodeId(1), false, [2, 3]),
            speak(NodeId(2), false, [20, 30]),
            speak(NodeId(3), true, [100, 200]),
        ];
        let _ended = nodes.map(|node| node.join().unwrap());
        assert_eq!(topic.get(&7), Some(level(3 + 30 + 200)));
        for (origin, number) in [(1, 3), (2, 30), (3, 200)] {
            assert_eq!(topic.get_from(NodeId(origin), &7), Some(level(number)));
        }
    });
}

/// When `unsubscribe` has returned, no worker is in the callback, and none
/// enters it; also if it was called during a callback.
#[test]
fn shuttle_nothing_is_called_after_unsubscribe() {
    for awaits_call in [false, true] {
        explore(1_000, move || {
            let (topic, pool) = (topic(), pool());
            let [begun, ended, late] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
            let told = [&begun, &ended, &late].map(Arc::clone);
            let watch = topic.subscribe().on(&pool).start(move |_| {
                let [begun, ended, late] = &told;
                begun.store(true, Ordering::SeqCst);
                // Several steps, so that the end can happen meanwhile.
                (0..40).for_each(|_| thread::yield_now());
                // A panic would stop at the pool.
                if ended.load(Ordering::SeqCst) {
                    late.store(true, Ordering::SeqCst);
                }
            });
            let publisher = {
                let topic = topic.clone();
                thread::spawn(move || (1..=2).for_each(|number| publish(&topic, number)))
            };
            while awaits_call && !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            watch.unsubscribe();
            ended.store(true, Ordering::SeqCst);
            publisher.join().unwrap();
            let report = pool.shutdown(Duration::MAX);
            assert_eq!(report.not_delivered, 0);
            assert!(!late.load(Ordering::SeqCst), "a callback after the end");
        });
    }
}

/// A publisher that waits for room continues when there is room, or when the
/// subscription has ended; no event is lost while the subscription lives.
#[test]
fn shuttle_a_publisher_that_waits_for_room_is_woken() {
    for unsubscribes in [false, true] {
        explore(1_000, move || {
            let (topic, pool, heard) = (
                Topic::builder("model").small().build(),
                pool(),
                Heard::default(),
            );
            let told = heard.clone();
            let builder = topic
                .subscribe()
                .on(&pool)
                .capacity(1)
                .overflow(Overflow::Block);
            let watch = builder.start(move |delivery| told.tell(delivery));
            let publishers = [1, 3].map(|first| {
                let topic = topic.clone();
                thread::spawn(move || {
                    for number in first..first + 2 {
                        let _told = topic.publish(Level { key: 7, number });
                    }
                })
            });
            let kept = if unsubscribes {
                watch.unsubscribe();
                None
            } else {
                Some(watch)
            };
            let _ended = publishers.map(|publisher| publisher.join().unwrap());
            let report = pool.shutdown(Duration::MAX);
            assert_eq!(report.not_delivered, 0);
            if kept.is_some() {
                assert_eq!(heard.all().len(), 4, "{:?}", heard.all());
            }
        });
    }
}

/// Futures on two workers that wait for room: each publishes, whichever of them
/// is woken and one that is dropped notwithstanding, and nothing is lost.
#[test]
fn shuttle_futures_that_wait_for_room_are_woken() {
    explore(1_000, || {
        let pool = TaskPool::builder().workers(2).build().unwrap();
        let (topic, heard) = (Topic::builder("model").small().build(), Heard::default());
        let told = heard.clone();
        let slow = pool.serializer("slow").build().unwrap();
        let builder = topic.subscribe().on(&slow).capacity(1);
        let builder = builder.overflow(Overflow::Block);
        let watch = builder.start(move |delivery| told.tell(delivery));
        let publishing = [1, 3, 5].map(|first| {
            let topic = topic.clone();
            pool.spawn(async move {
                for number in first..first + 2 {
                    let published = topic.publish_async(Level { key: 7, number }).await;
                    assert_eq!((published.lost, published.refused), (0, false));
                }
            })
        });
        let [first, second, dropped] = publishing;
        dropped.abort();
        assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
        let report = pool.shutdown(Duration::MAX);
        assert_eq!(report.not_delivered, 0);
        let told = heard.all();
        for first in [1, 3] {
            let of =
                |told: &&Told| matches!(told, Told::Value(it) if (first..first + 2).contains(it));
            let of: Vec<Told> = told.iter().filter(of).copied().collect();
            assert_eq!(of, [Told::Value(first), Told::Value(first + 1)], "{told:?}");
        }
        drop(watch);
    });
}
