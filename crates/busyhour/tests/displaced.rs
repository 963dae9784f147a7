//! What the library itself queues is not lost by an overflow policy: evictions,
//! idle looks, expiries, a future's polls.

use busyhour::{
    bus::{Event, Topic},
    keyed::Keyed,
    pool::JoinError,
    runtime::Runtime,
    serializer::Serializer,
    task::{Executor, Overflow, Task},
};
use std::{
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    time::Duration,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A simulated runtime and keys with room for one task each, of which the
/// oldest is dropped.
fn narrow(idle_after: Option<Duration>, max_keys: usize) -> (Runtime, Keyed<u32, u32>) {
    let runtime = Runtime::simulated(1);
    let template = runtime.serializer("key").capacity(1);
    let template = template.overflow(Overflow::DropOldest).template().unwrap();
    let mut builder = Keyed::<u32>::builder(&template, runtime.timers()).max_keys(max_keys);
    if let Some(period) = idle_after {
        builder = builder.idle_after(period);
    }
    let keyed = builder.with_state(|_| 0).build();
    (runtime, keyed)
}

fn settle(runtime: &Runtime) {
    let simulation = runtime.simulation().unwrap();
    simulation.run_for(Duration::from_millis(1));
}

fn dropping(runtime: &Runtime) -> Serializer {
    let serializer = runtime.serializer("narrow").capacity(1);
    serializer.overflow(Overflow::DropOldest).build().unwrap()
}

#[test]
fn an_eviction_that_was_promised_is_made() {
    let (runtime, keyed) = narrow(None, 10);
    keyed.push(&1, |count| *count += 1).unwrap();
    settle(&runtime);
    assert!(keyed.evict(&1));
    keyed.push(&1, |count| *count += 10).unwrap();
    settle(&runtime);
    assert_eq!(keyed.push_wait(&1, |count| *count), Ok(10), "a new state");
}

/// An eviction for room that meets a push must not be the last one of its key.
#[test]
fn a_key_that_was_to_make_room_can_be_asked_again() {
    let (runtime, keyed) = narrow(None, 8);
    (0..8).for_each(|key| keyed.push(&key, |_| ()).unwrap());
    settle(&runtime);
    // Each new key asks two idle ones for room; all are used before they leave.
    for new in 100..108 {
        assert!(keyed.push(&new, |_| ()).is_err());
        (0..8).for_each(|key| keyed.push(&key, |_| ()).unwrap());
        settle(&runtime);
    }
    for new in 200..240 {
        _ = keyed.push(&new, |_| ());
        settle(&runtime);
    }
    assert!((0..8).all(|key| !keyed.contains(&key)), "all were evicted");
}

#[test]
fn a_push_does_not_end_the_looks_for_idle_keys() {
    let (runtime, keyed) = narrow(Some(MINUTE), 10);
    keyed.push(&1, |_| ()).unwrap();
    settle(&runtime);
    let simulation = runtime.simulation().unwrap();
    // The look is queued, and not run.
    let due = runtime.timers().next_deadline().unwrap();
    simulation_to(&runtime, due);
    runtime.timers().run_due(runtime.clock().now());
    keyed.push(&1, |_| ()).unwrap();
    simulation.run_for(3 * MINUTE);
    assert!(keyed.is_empty());
}

fn simulation_to(runtime: &Runtime, instant: busyhour::clock::Instant) {
    runtime.clock().as_virtual().unwrap().advance_to(instant);
}

#[derive(Clone)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;
    fn key(&self) -> &u32 {
        &self.0
    }
}

#[test]
fn a_push_does_not_keep_an_event_for_ever() {
    let runtime = Runtime::simulated(1);
    let serializer = dropping(&runtime);
    let ticks = Topic::builder("ticks").cached();
    let ticks = ticks.with_ttl(runtime.timers(), &serializer).build();
    _ = ticks.publish_with_ttl(Tick(1), MINUTE).unwrap();
    simulation_to(&runtime, runtime.timers().next_deadline().unwrap());
    runtime.timers().run_due(runtime.clock().now());
    serializer.push(|| ()).unwrap();
    runtime.simulation().unwrap().run_for(MINUTE);
    assert!(ticks.is_empty());
}

#[test]
fn a_push_does_not_end_a_future() {
    let runtime = Runtime::simulated(1);
    let serializer = dropping(&runtime);
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let waits = Arc::clone(&waker);
    let mut polls = 0;
    let future = serializer.spawn(std::future::poll_fn(move |context| {
        polls += 1;
        *waits.lock().unwrap() = Some(context.waker().clone());
        match polls {
            3 => Poll::Ready(polls),
            _ => Poll::Pending,
        }
    }));
    serializer.push(|| ()).unwrap();
    settle(&runtime);
    for _ in 0..2 {
        let woken = waker.lock().unwrap().take();
        woken.expect("it was polled").wake();
        (0..5).for_each(|_| serializer.push(|| ()).unwrap());
        settle(&runtime);
    }
    assert_eq!(future.wait(), Ok::<_, JoinError>(3));
    assert_eq!(serializer.stats().dropped, 8);
}

/// The bound holds for plain tasks; what is beyond it keeps its place among
/// them.
#[test]
fn the_oldest_task_that_may_be_dropped_is_dropped() {
    let runtime = Runtime::simulated(1);
    let serializer = runtime.serializer("narrow").capacity(3);
    let serializer = serializer.overflow(Overflow::DropOldest).build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u32| {
        let ran = Arc::clone(&ran);
        move || ran.lock().unwrap().push(number)
    };
    for number in 0..12 {
        match number % 3 {
            0 => serializer
                .execute_unbounded(Task::new(note(number)))
                .unwrap(),
            _ => serializer.push(note(number)).unwrap(),
        }
    }
    settle(&runtime);
    assert_eq!(*ran.lock().unwrap(), [0, 3, 6, 9, 10, 11]);
}
