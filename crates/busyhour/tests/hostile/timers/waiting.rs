//! Waits that somebody must end: the driver's sleep, and who drives beside it.

use super::{Hand, ignore, one_shard};
use crate::watchdog::watched;
use busyhour::timer::Timers;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// A host has announced its sleep; others drive and look meanwhile. An earlier deadline must ring for the host.
#[test]
fn who_drives_or_looks_takes_no_ring_from_a_host_that_sleeps() {
    type Other = fn(&Timers);
    let others: &[(&'static str, Other)] = &[
        ("drives", |timers| {
            ignore(timers.run_due(timers.clock().now()))
        }),
        ("looks", |timers| ignore(timers.next_wait())),
        ("both", |timers| {
            timers.run_due(timers.clock().now());
            let _wait = timers.next_wait();
        }),
    ];
    for &(name, other) in others {
        watched(name, || {
            let (timers, hand) = (one_shard(), Hand::default());
            let rings = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&rings);
            assert!(timers.on_earlier(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            }));
            timers.after(3600 * SECOND, &hand, || ());
            assert_eq!(timers.next_wait(), Some(3600 * SECOND));
            other(&timers);
            timers.after(SECOND, &hand, || ());
            assert_eq!(rings.load(Ordering::Relaxed), 1, "{name}: the host is told");
        });
    }
}

/// The driver's thread sleeps; other threads drive and look all the time while timers are added.
#[test]
fn a_driver_is_woken_though_others_drive_and_look() {
    watched("a driver beside others", || {
        let timers = Timers::builder().build();
        let _driver = timers.spawn_driver().unwrap();
        let hand = Hand::default();
        timers.after(3600 * SECOND, &hand, || ());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        timers.run_due(timers.clock().now());
                        let _wait = timers.next_wait();
                        thread::yield_now();
                    }
                });
            }
            let (fired, waiting) = mpsc::channel();
            for _ in 0..200 {
                let fired = fired.clone();
                let done = move || fired.send(()).unwrap();
                timers.after(Duration::from_micros(200), &Inline, done);
                waiting.recv().expect("it fires");
            }
            over.store(true, Ordering::Relaxed);
        });
        // Now the driver alone must have been told of what they saw.
        let (fired, waiting) = mpsc::channel();
        timers.run_due(timers.clock().now());
        timers.after(Duration::from_millis(20), &Inline, move || {
            fired.send(()).unwrap()
        });
        waiting.recv().expect("the driver wakes");
    });
}

#[derive(Clone)]
struct Inline;

impl busyhour::task::Executor for Inline {
    fn execute(&self, task: busyhour::task::Task) -> Result<(), busyhour::task::Rejected> {
        task.run();
        Ok(())
    }
}
