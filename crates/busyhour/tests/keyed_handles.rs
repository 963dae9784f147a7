//! A key by its handle, as an executor, and places in its queue.

use busyhour::{
    bus::{Delivery, Event, Topic},
    keyed::{Keyed, KeyedError},
    pool::{JoinError, PushError},
    runtime::Runtime,
    task::{Executor, Overflow, Reason, Task},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const MINUTE: Duration = Duration::from_secs(60);

fn keys(capacity: usize) -> (Runtime, Keyed<u32, Vec<u32>>) {
    let runtime = Runtime::simulated(1);
    let template = runtime.serializer("key").capacity(capacity);
    let template = template.template().unwrap();
    let keyed = Keyed::<u32>::builder(&template, runtime.timers());
    let keyed = keyed.idle_after(MINUTE).with_state(|_| Vec::new()).build();
    (runtime, keyed)
}

fn run_for(runtime: &Runtime, time: Duration) {
    runtime.simulation().unwrap().run_for(time);
}

#[test]
fn a_handle_keeps_its_key_and_its_order() {
    let (runtime, keyed) = keys(100);
    let key = keyed.key(&7).unwrap();
    assert_eq!(key.key(), &7);
    key.push(|steps| steps.push(1)).unwrap();
    keyed.push(&7, |steps| steps.push(2)).unwrap();
    key.try_push(|steps| steps.push(3)).unwrap();
    run_for(&runtime, 10 * MINUTE);
    assert!(keyed.contains(&7), "it is in use");
    let steps = key.run(|steps| steps.clone()).unwrap();
    assert_eq!(steps.wait().unwrap(), [1, 2, 3]);
    drop(key);
    run_for(&runtime, 3 * MINUTE);
    assert!(!keyed.contains(&7));
}

/// The task of a timer counts as a use, so no second serializer of the key runs
/// tasks beside it.
#[test]
fn a_task_of_an_executor_keeps_its_key_until_it_has_run() {
    let (runtime, keyed) = keys(100);
    let key = keyed.key(&7).unwrap();
    keyed.push(&7, |steps| steps.push(1)).unwrap();
    assert!(keyed.evict(&7));
    let pushing = keyed.clone();
    let task = Task::labelled(&"probe", move || {
        pushing.push(&7, |steps| steps.push(2)).unwrap();
    });
    key.execute(task).unwrap();
    drop(key);
    keyed.push(&7, |steps| steps.push(3)).unwrap();
    run_for(&runtime, Duration::from_millis(1));
    assert_eq!(keyed.stats().created, 1, "the eviction came before a task");
    assert_eq!(keyed.push_wait(&7, |steps| steps.clone()), Ok(vec![3, 2]));
}

#[test]
fn a_refused_task_comes_back_with_its_label() {
    let (_runtime, keyed) = keys(1);
    let key = keyed.key(&7).unwrap();
    key.push(|_| ()).unwrap();
    let ran = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&ran);
    let task = Task::labelled(&"probe", move || *counting.lock().unwrap() += 1);
    let refused = key.execute(task).unwrap_err();
    assert_eq!(refused.reason, Reason::Full);
    assert_eq!(refused.task.label(), Some("probe"));
    refused.task.run();
    assert_eq!(*ran.lock().unwrap(), 1);
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
fn timers_and_subscriptions_run_in_the_order_of_a_key() {
    let (runtime, keyed) = keys(100);
    let ticks = Topic::<Tick>::builder("ticks").build();
    let key = keyed.key(&7).unwrap();
    let (on_tick, on_timer) = (key.clone(), key.clone());
    let _subscription = ticks.subscribe().on(&key).start(move |delivery| {
        if let Delivery::Event(Tick(number), _) = delivery {
            let number = *number;
            on_tick.push(move |steps| steps.push(number)).unwrap();
        }
    });
    let timer = runtime.timers().after(MINUTE, &key, move || {
        on_timer.push(|steps| steps.push(100)).unwrap();
    });
    assert!(runtime.timers().get(&timer).is_some());
    _ = ticks.publish(Tick(1));
    run_for(&runtime, 2 * MINUTE);
    _ = ticks.publish(Tick(2));
    run_for(&runtime, MINUTE);
    assert_eq!(
        keyed.push_wait(&7, |steps| steps.clone()),
        Ok(vec![1, 100, 2])
    );
}

#[test]
fn a_place_is_kept_and_given_back() {
    let (_runtime, keyed) = keys(1);
    let reserve = || {
        let mut reserve = Box::pin(keyed.reserve(&7));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match reserve.as_mut().poll(&mut context) {
            std::task::Poll::Ready(place) => Some(place.unwrap()),
            std::task::Poll::Pending => None,
        }
    };
    let place = reserve().expect("there is room");
    let full = keyed.push(&7, |_| ());
    assert_eq!(full, Err(KeyedError::Serializer(PushError::Full)));
    assert!(reserve().is_none());
    drop(place);
    reserve().unwrap().push(|steps| steps.push(1)).unwrap();
    assert_eq!(
        keyed.try_push(&7, |_| ()).err().map(reason),
        Some(Reason::Full)
    );
    assert_eq!(keyed.push_wait(&8, |steps| steps.len()), Ok(0));
}

fn reason(error: KeyedError<busyhour::task::Rejected>) -> Reason {
    match error {
        KeyedError::Serializer(rejected) => rejected.reason,
        other => panic!("{other}"),
    }
}

/// `run` and `try_spawn` keep to the bound; `spawn` does not, and says so.
#[test]
fn what_is_bounded_is_refused_and_dropped() {
    let (runtime, keyed) = keys(1);
    let pool = runtime.pool();
    let narrow = runtime.serializer("narrow").capacity(1).build().unwrap();
    let witness = Arc::new(());
    let held = || Arc::clone(&witness);
    let (one, two) = (held(), held());
    let first = narrow.run(move || drop(one)).unwrap();
    assert_eq!(narrow.run(move || drop(two)).err(), Some(PushError::Full));
    let three = held();
    let refused = narrow.try_spawn(async move { drop(three) });
    assert_eq!(refused.err(), Some(PushError::Full));
    assert_eq!(Arc::strong_count(&witness), 2, "the refused are dropped");
    let beyond = narrow.spawn(async { 1 });
    keyed.push(&7, |_| ()).unwrap();
    assert!(keyed.run(&7, |_| ()).is_err());
    assert!(keyed.try_spawn(&7, async {}).is_err());
    assert_eq!(keyed.spawn(&7, async { 2 }).unwrap().wait(), Ok(2));
    assert_eq!((first.wait(), beyond.wait()), (Ok(()), Ok(1)));
    assert_eq!(pool.stats().rejected, 4);
}

/// A waiting closure whose handle is dropped does not run, if that was wanted.
#[test]
fn a_handle_aborts_on_drop_only_if_told_to() {
    let runtime = Runtime::simulated(1);
    let calls = runtime.serializer("calls").build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u32| {
        let ran = Arc::clone(&ran);
        move || ran.lock().unwrap().push(number)
    };
    drop(calls.run(note(1)).unwrap());
    drop(calls.run(note(2)).unwrap().abort_on_drop());
    let awaited = calls.run(note(3)).unwrap().abort_on_drop();
    assert_eq!(awaited.wait(), Ok(()));
    run_for(&runtime, MINUTE);
    assert_eq!(*ran.lock().unwrap(), [1, 3]);
}

/// The first poll is a task as any other; what follows is never dropped.
#[test]
fn dropping_the_oldest_may_drop_a_first_poll() {
    let runtime = Runtime::simulated(1);
    let narrow = runtime.serializer("narrow").capacity(1);
    let narrow = narrow.overflow(Overflow::DropOldest).build().unwrap();
    let displaced = narrow.try_spawn(async { 1 }).unwrap();
    let kept = narrow.spawn(async { 2 });
    narrow.push(|| ()).unwrap();
    assert_eq!(displaced.wait(), Err(JoinError::Dropped));
    assert_eq!(kept.wait(), Ok(2));
}
