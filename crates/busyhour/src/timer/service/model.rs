//! Loom models of what the service promises across threads; the README beside
//! this has the arguments in prose.

use super::{
    record::{DeliveryBound, OtherWork, Repeat, Work},
    timer_service::{Add, Service},
};
use crate::{
    clock::{Clock, Instant, UnixTime},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        lock,
    },
    task::{Executor, Rejected, Task},
    timer::{
        handle::{Cancel, TimerHandle},
        rule::Rule,
    },
};
use loom::thread;
use std::{sync::Arc, time::Duration};

/// An executor whose tasks the model runs when it chooses.
#[derive(Default)]
struct Hand {
    tasks: Mutex<Vec<Task>>,
}

impl Executor for Hand {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        lock(&self.tasks).push(task);
        Ok(())
    }
}

impl Hand {
    fn run_one(&self) {
        let task = lock(&self.tasks).pop();
        if let Some(task) = task {
            task.run();
        }
    }
}

/// What a callback records for the model.
#[derive(Default)]
struct Trace {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

struct CountsDrop(Arc<Trace>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

struct World {
    service: Arc<Service>,
    hand: Arc<Hand>,
    trace: Arc<Trace>,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated(UnixTime::default());
        Self {
            service: Arc::new(Service::new(0, clock, 1, 8)),
            hand: Arc::default(),
            trace: Arc::default(),
        }
    }

    fn add_due(&self) -> TimerHandle {
        let trace = Arc::clone(&self.trace);
        let callback = move || {
            trace.begun.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            trace.ended.fetch_add(1, Ordering::SeqCst);
        };
        let executor: Arc<dyn Executor> = Arc::clone(&self.hand) as _;
        let work = (self.service).work_of(callback, executor, DeliveryBound::Bounded);
        add(&self.service, 0, work)
    }

    /// A periodic timer whose callback counts its own drop as an end.
    fn add_periodic(&self) -> TimerHandle {
        let held = CountsDrop(Arc::clone(&self.trace));
        let repeat = Repeat {
            run: Box::new(move || {
                held.0.begun.fetch_add(1, Ordering::SeqCst);
                Duration::from_secs(1)
            }),
            executor: Arc::clone(&self.hand) as _,
            rule: Rule::ReturnedDelay,
            due: Instant::ZERO,
            slack: Duration::ZERO,
        };
        let work = Work::Other(OtherWork::Repeat(Box::new(repeat)));
        add(&self.service, 0, work)
    }

    /// Cancels and waits, and checks the promises for this moment and
    /// afterwards.
    fn cancel_and_check(&self, timer: TimerHandle, meanwhile: thread::JoinHandle<()>) {
        let outcome = self.service.cancel_and_wait(&timer);
        let begun = self.trace.begun.load(Ordering::SeqCst);
        let ended = self.trace.ended.load(Ordering::SeqCst);
        assert_eq!(begun, ended, "it runs after a cancel that waited");
        match outcome {
            Cancel::Prevented => assert_eq!(begun, 0),
            Cancel::AlreadyRan => assert_eq!(begun, 1),
            Cancel::Running => panic!("nobody else waits"),
        }
        meanwhile.join().unwrap();
        self.hand.run_one();
        let later = self.trace.begun.load(Ordering::SeqCst);
        assert_eq!(begun, later, "it began after a cancel that waited");
    }
}

fn add(service: &Service, deadline_ns: u64, work: Work) -> TimerHandle {
    let add = Add {
        deadline: Instant::from_nanos(deadline_ns),
        work,
        label: "",
        owner: None,
    };
    service.add(add).unwrap()
}

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn loom_timer_cancelled_and_waited_never_runs_later() {
    model(move || {
        let world = World::new();
        let timer = world.add_due();
        assert_eq!(world.service.run_due(Instant::ZERO), 1);
        let hand = Arc::clone(&world.hand);
        let worker = thread::spawn(move || hand.run_one());
        world.cancel_and_check(timer, worker);
    });
}

#[test]
fn loom_timer_cancelled_while_it_is_delivered_never_runs_later() {
    model(move || {
        let world = World::new();
        let timer = world.add_due();
        let (service, hand) = (Arc::clone(&world.service), Arc::clone(&world.hand));
        let driver = thread::spawn(move || {
            service.run_due(Instant::ZERO);
            hand.run_one();
        });
        world.cancel_and_check(timer, driver);
    });
}

#[test]
fn loom_timer_cancelled_and_waited_has_dropped_its_captures() {
    model(|| {
        let world = World::new();
        let timer = world.add_periodic();
        assert_eq!(world.service.run_due(Instant::ZERO), 1);
        let hand = Arc::clone(&world.hand);
        let worker = thread::spawn(move || hand.run_one());
        let outcome = world.service.cancel_and_wait(&timer);
        assert_ne!(outcome, Cancel::Running, "nobody else waits");
        let dropped = world.trace.ended.load(Ordering::SeqCst);
        assert_eq!(dropped, 1, "the captures outlive a cancel that waited");
        worker.join().unwrap();
    });
}

/// A driver announces its sleep while other threads add timers, one of which
/// also looks and drives; checks that the hook is called.
fn earlier_deadlines_wake(deadlines: &'static [u64], has_other: bool) {
    model(move || {
        let world = World::new();
        let rung = Arc::new(AtomicBool::new(false));
        let bell = Arc::clone(&rung);
        let installed = (world.service.driver_waker).install(Box::new(move || {
            bell.store(true, Ordering::SeqCst);
        }));
        assert!(installed);
        let adders: Vec<_> = deadlines
            .iter()
            .map(|&deadline_ns| {
                let service = Arc::clone(&world.service);
                let waker = std::task::Waker::noop().clone();
                let work = Work::Other(OtherWork::Wake(waker));
                thread::spawn(move || {
                    add(&service, deadline_ns, work);
                })
            })
            .collect();
        let other = has_other.then(|| {
            let service = Arc::clone(&world.service);
            thread::spawn(move || {
                service.run_due(Instant::ZERO);
                service.driver_waker.prepare_sleep(|| service.earliest());
            })
        });
        let service = &world.service;
        let until = service.driver_waker.prepare_sleep(|| service.earliest());
        other.into_iter().for_each(|other| other.join().unwrap());
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        let earliest = Instant::from_nanos(*deadlines.iter().min().unwrap());
        let slept_past = until > earliest && !rung.load(Ordering::SeqCst);
        assert!(!slept_past, "the driver sleeps past a deadline");
    });
}

#[test]
fn loom_timer_earlier_deadline_is_never_slept_past() {
    earlier_deadlines_wake(&[5], false);
}

#[test]
fn loom_timer_earliest_of_two_deadlines_is_never_slept_past() {
    earlier_deadlines_wake(&[5, 3], false);
}

#[test]
fn loom_timer_deadline_is_not_hidden_by_another_thread_that_looks() {
    earlier_deadlines_wake(&[5], true);
}
