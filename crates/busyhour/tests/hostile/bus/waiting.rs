//! Publishers that wait for room in a subscription that waits for them.

use super::Number;
use crate::{
    bombs::{pool, receive, until, works},
    watchdog::watched,
};
use busyhour::{
    bus::{Subscription, Topic},
    pool::TaskPool,
    serializer::Serializer,
    task::Overflow,
};
use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

fn topic(name: &str) -> Topic<Number> {
    Topic::builder(name).build()
}

/// Where a subscription's turns run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Pool,
    Serializer,
    Publisher,
}

/// Subscribes to one topic; at its first event it publishes many events to another,
/// after both subscriptions have reached this point.
fn floods(
    (on, pool, serializer): (On, &TaskPool, &Serializer),
    (from, to): (&Topic<Number>, &Topic<Number>),
    (meet, heard): (&Arc<Barrier>, &Arc<AtomicU64>),
) -> Subscription<Number> {
    let (to, meet, heard) = (to.clone(), Arc::clone(meet), Arc::clone(heard));
    let options = from.subscribe().capacity(1).overflow(Overflow::Block);
    let options = match on {
        On::Pool => options.on(pool),
        On::Serializer => options.on(serializer),
        On::Publisher => options,
    };
    let mut is_first = true;
    options.start(move |_| {
        heard.fetch_add(1, Ordering::SeqCst);
        if std::mem::take(&mut is_first) {
            meet.wait();
            for number in 0..FLOOD {
                let _ = to.publish(Number(number));
            }
        }
    })
}

const FLOOD: u32 = 50;

/// Each callback waits for room in the queue of the other subscription, whose turn that
/// callback is: the publisher that closes the circle is not made to wait.
#[test]
fn two_subscribers_that_make_each_other_wait_go_on() {
    let pairs = [On::Pool, On::Serializer, On::Publisher];
    let pairs = pairs
        .iter()
        .flat_map(|one| pairs.iter().map(move |other| (*one, *other)));
    for (one, other) in pairs {
        watched(
            format!("{one:?} and {other:?} make each other wait"),
            || {
                let pool = pool(2);
                let (left, right) = (topic("left"), topic("right"));
                let serializers = [pool.ephemeral(), pool.ephemeral()];
                let (meet, heard) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU64::new(0)));
                let both = (&meet, &heard);
                let _left = floods((one, &pool, &serializers[0]), (&left, &right), both);
                let _right = floods((other, &pool, &serializers[1]), (&right, &left), both);
                thread::scope(|scope| {
                    scope.spawn(|| left.publish(Number(0)));
                    scope.spawn(|| right.publish(Number(0)));
                });
                until(|| heard.load(Ordering::SeqCst) == 2 * u64::from(FLOOD + 1));
                let refused = left.stats().refused_waits + right.stats().refused_waits;
                assert!(refused > 0, "no wait was refused");
                works(&pool, 2);
            },
        );
    }
}

/// The circle includes a serializer; a turn outside of any serializer waits for it.
#[test]
fn a_turn_that_waits_for_its_publisher_ends() {
    for on in [On::Pool, On::Publisher] {
        watched(format!("a turn on {on:?} waits for its publisher"), || {
            let (pool, topic) = (pool(2), topic("numbers"));
            let calls = pool.serializer("calls").build().expect("a serializer");
            let (begins, begun) = mpsc::channel();
            let inner = Mutex::new((calls.clone(), begins));
            let mut is_first = true;
            let options = topic.subscribe().capacity(1).overflow(Overflow::Block);
            let options = if on == On::Pool {
                options.on(&pool)
            } else {
                options
            };
            let _watch = options.start(move |_| {
                if std::mem::take(&mut is_first) {
                    let (calls, begins) = &*inner.lock().expect("no panic");
                    begins.send(()).expect("the test waits");
                    calls
                        .push_wait(|| ())
                        .expect("no thread waits for one that waits for it");
                }
            });
            let (go_on, told) = mpsc::channel::<()>();
            let published = topic.clone();
            let (done, ended) = mpsc::channel();
            let (starts, started) = mpsc::channel();
            calls
                .push(move || {
                    starts.send(()).expect("the test waits");
                    told.recv().ok();
                    (0..10).for_each(|number| {
                        let _ = published.publish(Number(number));
                    });
                    done.send(()).expect("the test waits");
                })
                .expect("room");
            let first = topic.clone();
            let publisher = thread::spawn(move || {
                let _ = first.publish(Number(0));
            });
            receive(&started);
            receive(&begun);
            // The turn waits for this; the task before it runs, so it waits no
            // longer.
            until(|| calls.len() == 1);
            drop(go_on);
            receive(&ended);
            publisher.join().expect("it ends");
            assert!(topic.stats().refused_waits > 0);
            until(|| calls.is_idle());
            assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
        });
    }
}
