//! Topics that are forwarded to others: which thread hands the events over, and who is
//! woken meanwhile.

use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, Forward, Topic},
    pool::TaskPool,
    task::Overflow,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const DEADLINE: Duration = Duration::from_secs(30);

/// One topic that is forwarded to another.
fn forwarded() -> (Topic<Level>, Topic<Level>, Forward<Level>) {
    let from = cached();
    let to = Topic::builder("to").build();
    let forward = from.forward_to(&to).unwrap();
    (from, to, forward)
}

fn wait_until(is_reached: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_reached() && began.elapsed() < DEADLINE {
        thread::yield_now();
    }
    is_reached()
}

/// While one publisher hands events over without end, their subscribers run.
#[test]
fn a_subscriber_is_woken_while_more_is_forwarded() {
    const LAST: u32 = 1_000;
    let (from, to, _forward) = forwarded();
    let pool = TaskPool::builder().workers(1).maximum(1).build().unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let _watch = to.subscribe().on(&pool).start(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let was_heard = Arc::new(AtomicBool::new(false));
    let (more, note) = (from.clone(), Arc::clone(&was_heard));
    let brings_more = move |event: &Level| {
        if event.level < LAST {
            let _ = more.publish(level(1, event.level + 1));
        } else {
            let is_heard = wait_until(|| heard.load(Ordering::Relaxed) > 0);
            note.store(is_heard, Ordering::Relaxed);
        }
        false
    };
    let _endless = to.subscribe().matching(brings_more).start(|_| ());
    let _ = from.publish(level(1, 1));
    assert!(was_heard.load(Ordering::Relaxed));
}

/// However many events are published meanwhile, a publisher hands over a
/// limited number, and returns when another publisher can go on.
#[test]
fn a_publisher_is_relieved_by_the_next_one() {
    let (from, to, _forward) = forwarded();
    let returned = Arc::new(AtomicBool::new(false));
    let (more, is_over, began) = (from.clone(), Arc::clone(&returned), Instant::now());
    let is_late = Arc::new(AtomicBool::new(false));
    let late = Arc::clone(&is_late);
    let (began_to_serve, serves) = mpsc::channel();
    let brings_more = move |_: &Level| {
        let _ = began_to_serve.send(());
        late.fetch_or(began.elapsed() > DEADLINE, Ordering::Relaxed);
        if !is_over.load(Ordering::Relaxed) && !late.load(Ordering::Relaxed) {
            let _ = more.publish(level(1, 1));
        }
        false
    };
    let _endless = to.subscribe().matching(brings_more).start(|_| ());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = from.publish(level(1, 1));
            returned.store(true, Ordering::Relaxed);
        });
        serves.recv_timeout(DEADLINE).unwrap();
        while !returned.load(Ordering::Relaxed) {
            assert_eq!(from.publish(level(1, 2)), delivered(0));
        }
    });
    assert!(!is_late.load(Ordering::Relaxed));
}

/// A turn for the full queue is sent after the predicate has returned, so a
/// publish made by the predicate must not wait for that turn.
#[test]
fn a_predicate_of_the_other_topic_does_not_wait_for_a_turn_that_its_own_thread_sends() {
    let (from, to, _forward) = forwarded();
    let pool = TaskPool::builder().workers(1).maximum(1).build().unwrap();
    let (hear, heard) = mpsc::channel();
    let slow = from.subscribe().on(&pool).capacity(1);
    let _slow = slow.overflow(Overflow::Block).start(move |delivery| {
        if let Delivery::Event(event, _) = delivery {
            let _ = hear.send(event.level);
        }
    });
    let more = from.clone();
    let publishes = move |event: &Level| {
        if event.level == 1 {
            let _ = more.publish(level(1, 2));
        }
        false
    };
    let _publishes = to.subscribe().matching(publishes).start(|_| ());
    thread::spawn(move || from.publish(level(1, 1)));
    assert_eq!(heard.recv_timeout(DEADLINE), Ok(1));
    assert_eq!(heard.recv_timeout(DEADLINE), Ok(2));
}
