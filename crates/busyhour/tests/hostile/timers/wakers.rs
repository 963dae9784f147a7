//! Hostile wakers, which the driver's thread calls, and hostile hooks of
//! `on_earlier_deadline`, which the thread that adds a timer calls.

use super::{Hand, assert_works, ignore, one_shard, pass};
use crate::watchdog::watched;
use busyhour::{
    clock::Instant,
    pool::TaskPool,
    timer::{Driver, Timers},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// Calls its closure when it is woken.
struct Does<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Does(wake)))
}

fn poll(future: &mut (impl Future + Unpin), waker: &Waker) -> bool {
    let mut context = Context::from_waker(waker);
    Pin::new(future).poll(&mut context).is_ready()
}

/// Every second waker panics, so within a batch others come before and after it.
#[test]
fn wakers_that_panic_leave_the_others_and_the_driver_working() {
    watched("wakers that panic", || {
        let timers = Timers::builder().shards(1).build();
        let (woken, count) = (mpsc::channel(), Arc::new(AtomicUsize::new(0)));
        let sender = Mutex::new(woken.0);
        let good = waker(move || sender.lock().unwrap().send(()).unwrap());
        let counted = Arc::clone(&count);
        let bad = waker(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose, in a waker");
        });
        let due = timers.clock().now() + Duration::from_millis(1);
        let mut sleeps: Vec<_> = (0..200).map(|_| timers.sleep_until(due)).collect();
        // They are added before any thread drives, so that all are in one
        // batch.
        for (index, sleep) in sleeps.iter_mut().enumerate() {
            let _may_be_due = poll(sleep, if index % 2 == 0 { &bad } else { &good });
        }
        let added = timers.stats().pending_count;
        let _driver = timers.spawn_driver().unwrap();
        (0..added / 2).for_each(|_| woken.1.recv().unwrap());
        let mut late = timers.sleep(Duration::from_millis(1));
        if !poll(&mut late, &good) {
            woken.1.recv().expect("the driver's thread still runs");
        }
        assert_eq!(timers.stats().panicked, added.div_ceil(2));
        assert_eq!(count.load(Ordering::Relaxed) as u64, added.div_ceil(2));
    });
}

#[test]
fn a_waker_may_do_anything() {
    type Deed = fn(&Timers);
    let deeds: &[(&'static str, Deed)] = &[
        ("panics", |_| panic!("on purpose, in a waker")),
        ("adds", |timers| {
            ignore(timers.after(SECOND, &Hand::default(), || ()))
        }),
        ("clears all", |timers| ignore(timers.cancel_label("async"))),
        ("drives", |timers| {
            assert_eq!(timers.run_due(Instant::FAR_FUTURE), 0)
        }),
        ("closes", |timers| ignore(timers.close())),
        ("looks", |timers| {
            ignore((timers.stats(), timers.next_wait()))
        }),
        ("sleeps", |timers| {
            let _pending = poll(&mut timers.sleep(SECOND), Waker::noop());
        }),
    ];
    for &(name, deed) in deeds {
        watched(name, || {
            let timers = one_shard();
            let inner = timers.clone();
            let hostile = waker(move || deed(&inner));
            let (count, mut sleeps) = (Arc::new(AtomicUsize::new(0)), Vec::new());
            let woken = Arc::clone(&count);
            let good = waker(move || {
                woken.fetch_add(1, Ordering::Relaxed);
            });
            for index in 0..20 {
                let mut sleep = timers.sleep(SECOND);
                assert!(!poll(
                    &mut sleep,
                    if index == 10 { &hostile } else { &good }
                ));
                sleeps.push(sleep);
            }
            pass(&timers, 1);
            assert_eq!(
                count.load(Ordering::Relaxed),
                19,
                "{name}: the others are woken"
            );
            assert!(sleeps.iter_mut().all(|sleep| poll(sleep, &good)));
            if timers.try_sleep(Duration::ZERO).is_ok() {
                assert_works(&timers);
            }
        });
    }
}

#[test]
fn a_close_wakes_every_sleep_though_wakers_panic() {
    watched("a close among wakers that panic", || {
        let timers = one_shard();
        let count = Arc::new(AtomicUsize::new(0));
        let woken = Arc::clone(&count);
        let hostile = waker(move || {
            woken.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose, in a waker");
        });
        let mut sleeps: Vec<_> = (0..200).map(|_| timers.sleep(SECOND)).collect();
        assert!(sleeps.iter_mut().all(|sleep| !poll(sleep, &hostile)));
        assert_eq!(timers.close(), 200);
        assert_eq!(count.load(Ordering::Relaxed), 200);
        assert_eq!(timers.stats().panicked, 200);
    });
}

#[test]
fn a_waker_may_drop_the_driver_or_shut_the_pool_down() {
    watched("a waker that drops the driver", || {
        let timers = Timers::builder().build();
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let driver = Arc::new(Mutex::new(None::<Driver>));
        let (dropped, waiting) = mpsc::channel();
        let (slot, dropped) = (Arc::clone(&driver), Mutex::new(dropped));
        let hostile = waker(move || {
            drop(slot.lock().unwrap().take());
            assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
            dropped.lock().unwrap().send(()).unwrap();
        });
        let mut sleep = timers.sleep(Duration::from_millis(100));
        let is_due = poll(&mut sleep, &hostile);
        *driver.lock().unwrap() = Some(timers.spawn_driver().unwrap());
        if !is_due {
            waiting.recv().unwrap();
            assert!(driver.lock().unwrap().is_none());
        }
    });
}

/// A close stops a loop around a tick or a sleep: the loop must not keep its worker
/// busy.
#[test]
fn a_loop_of_ticks_ends_with_the_service() {
    watched("a loop of ticks", || {
        let timers = Timers::builder().build();
        let _driver = timers.spawn_driver().unwrap();
        let pool = TaskPool::builder().workers(1).build().unwrap();
        let ticks = Arc::new(AtomicUsize::new(0));
        let (counted, inner, began) = (Arc::clone(&ticks), timers.clone(), mpsc::channel());
        let _ticker = pool.spawn(async move {
            let mut interval = inner.interval(Duration::from_millis(1));
            loop {
                interval.tick().await;
                counted.fetch_add(1, Ordering::Relaxed);
                let _ended = began.0.send(());
            }
        });
        began.1.recv().unwrap();
        let inner = timers.clone();
        let _sleeper = pool.spawn(async move {
            loop {
                inner.sleep(Duration::from_secs(3600)).await;
            }
        });
        timers.close();
        let report = pool.shutdown(Duration::from_secs(60));
        assert_eq!(report.unfinished_workers, 0);
        assert!(began.1.recv().is_err() || ticks.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn a_hook_may_panic_and_call_the_service() {
    watched("a hook that panics", || {
        let timers = one_shard();
        let count = Arc::new(AtomicUsize::new(0));
        let (inner, rung) = (timers.clone(), Arc::clone(&count));
        assert!(timers.on_earlier_deadline(move || {
            rung.fetch_add(1, Ordering::Relaxed);
            inner.after(Duration::from_millis(1), &Hand::default(), || ());
            let _looked = (inner.next_wait(), inner.stats());
            inner.run_due(inner.clock().now());
            panic!("on purpose, in a hook");
        }));
        let hand = Hand::default();
        assert_eq!(timers.next_wait(), None);
        let timer = timers.after(3 * SECOND, &hand, || ());
        assert!(timers.time_left(&timer).is_some(), "the add went through");
        assert_eq!(timers.next_wait(), Some(Duration::from_millis(1)));
        timers.after(Duration::ZERO, &hand, || ());
        assert!(
            count.load(Ordering::Relaxed) >= 2,
            "called again after a panic"
        );
        assert_eq!(
            timers.stats().panicked,
            count.load(Ordering::Relaxed) as u64
        );
        assert_works(&timers);
    });
}
