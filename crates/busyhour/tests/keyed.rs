//! Serializers by key: order, states, eviction, limits.

use busyhour::{
    keyed::{Keyed, KeyedError, TooManyKeys},
    pool::{PushError, WaitError},
    runtime::Runtime,
    serializer::SerializerTemplate,
    task::Overflow,
};
use proptest::prelude::*;
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const MINUTE: Duration = Duration::from_secs(60);

fn template(runtime: &Runtime) -> SerializerTemplate {
    runtime.serializer("key").template().unwrap()
}

/// A simulated runtime, and keys whose state is how many tasks they had.
fn counting(idle_after: Option<Duration>, max_keys: usize) -> (Runtime, Keyed<u32, u32>) {
    let runtime = Runtime::simulated(1);
    let mut builder =
        Keyed::<u32>::builder(&template(&runtime), runtime.timers()).max_keys(max_keys);
    if let Some(period) = idle_after {
        builder = builder.idle_after(period);
    }
    let keyed = builder.with_state(|_| 0).build();
    (runtime, keyed)
}

fn run_for(runtime: &Runtime, time: Duration) {
    runtime.simulation().unwrap().run_for(time);
}

fn settle(runtime: &Runtime) {
    run_for(runtime, Duration::from_millis(1));
}

/// Many threads push to few keys, which are evicted all the time; what a hook
/// saves is what the next state begins with.
#[test]
fn a_key_keeps_its_order_and_its_state_through_eviction_and_return() {
    const THREADS: usize = 4;
    const KEYS: usize = 40;
    const PUSHES: usize = 3_000;
    type State = [usize; THREADS];
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let saved = Arc::new(Mutex::new(HashMap::<usize, State>::new()));
    let (loading, saving) = (Arc::clone(&saved), Arc::clone(&saved));
    let made = Arc::new(AtomicUsize::new(0));
    let making = Arc::clone(&made);
    let keyed = Keyed::<usize>::builder(&template(&runtime), runtime.timers())
        .idle_after(Duration::from_micros(50))
        .max_keys(KEYS)
        .with_state(move |key| {
            making.fetch_add(1, Ordering::Relaxed);
            loading.lock().unwrap().remove(key).unwrap_or_default()
        })
        .on_evict(move |key, state| {
            let before = saving.lock().unwrap().insert(*key, state);
            assert!(before.is_none(), "two states of {key}");
        })
        .build();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let keyed = keyed.clone();
            scope.spawn(move || {
                let mut numbers = [0; KEYS];
                for push in 0..PUSHES {
                    let key = (push * (thread + 1) + push / KEYS) % KEYS;
                    let number = numbers[key];
                    numbers[key] += 1;
                    let step = move |state: &mut State| {
                        assert_eq!(state[thread], number, "key {key} of thread {thread}");
                        state[thread] += 1;
                    };
                    keyed.push(&key, step).unwrap();
                    if push % 64 == 0 {
                        thread::sleep(Duration::from_micros(200));
                    }
                }
            });
        }
    });
    let done: usize = (0..KEYS)
        .map(|key| {
            keyed
                .push_wait(&key, |state| state.iter().sum::<usize>())
                .unwrap()
        })
        .sum();
    assert_eq!(done, THREADS * PUSHES);
    assert_eq!(runtime.stats().pool.panicked, 0);
    let stats = keyed.stats();
    assert!(stats.evicted > 0, "nothing was evicted: {stats:?}");
    // A key that was evicted while somebody used it again has a new state and is not a new key.
    assert!(
        stats.created <= made.load(Ordering::Relaxed) as u64,
        "{stats:?}"
    );
    assert!(runtime.shutdown(Duration::from_secs(60)).is_clean());
}

#[test]
fn an_idle_key_is_evicted_after_one_to_two_periods() {
    let (runtime, keyed) = counting(Some(MINUTE), 10);
    keyed.push(&1, |count| *count += 1).unwrap();
    run_for(&runtime, MINUTE + Duration::from_secs(1));
    assert!(keyed.contains(&1), "it was new when the timer looked");
    keyed.push(&1, |count| *count += 1).unwrap();
    run_for(&runtime, MINUTE);
    assert!(keyed.contains(&1), "it was used since");
    run_for(&runtime, MINUTE);
    assert!(!keyed.contains(&1));
    assert_eq!(keyed.stats().evicted, 1);
    // It comes back with a new state.
    assert_eq!(keyed.push_wait(&1, |count| *count), Ok(0));
}

#[test]
fn a_key_with_a_task_that_waits_is_not_evicted() {
    let runtime = Runtime::simulated(1);
    let keyed = Keyed::<u32>::builder(&template(&runtime), runtime.timers())
        .idle_after(MINUTE)
        .build();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let handle = keyed
        .spawn(&1, async move { receiver.await.is_ok() })
        .unwrap();
    run_for(&runtime, 10 * MINUTE);
    assert!(keyed.contains(&1), "its future has not ended");
    sender.send(()).unwrap();
    run_for(&runtime, 3 * MINUTE);
    assert!(handle.is_finished());
    assert!(!keyed.contains(&1));
}

#[test]
fn the_last_of_so_many_keys_is_refused_while_all_are_in_use() {
    let (runtime, keyed) = counting(None, 8);
    for key in 0..8 {
        keyed.push(&key, |_| ()).unwrap();
    }
    let refused = keyed.push(&8, |_| ());
    assert_eq!(
        refused,
        Err(KeyedError::TooManyKeys(TooManyKeys { max: 8 }))
    );
    assert!(refused.unwrap_err().to_string().contains("raise max_keys"));
    assert_eq!(keyed.stats().refused, 1);
    // Those that are there go on.
    keyed.push(&7, |_| ()).unwrap();
    settle(&runtime);
    // The next attempt evicts idle ones, and then there is room.
    _ = keyed.push(&8, |_| ());
    settle(&runtime);
    keyed.push(&8, |_| ()).unwrap();
    let there = (0..=8).filter(|key| keyed.contains(key)).count();
    let stats = keyed.stats();
    assert_eq!((stats.key_count, stats.created), (there as u64, 9));
}

#[test]
fn few_keys_make_room_for_each_other() {
    for max in 1..=9 {
        let (runtime, keyed) = counting(None, max);
        for key in 0..50 {
            // At first the idle ones may be there still.
            _ = keyed.push(&key, |_| ());
            settle(&runtime);
            assert_eq!(keyed.push(&key, |_| ()), Ok(()), "key {key} of {max}");
            settle(&runtime);
            assert!(keyed.len() <= max);
        }
    }
}

/// A stream of new keys does not push out the ones that are used all the time.
#[test]
fn keys_that_are_used_stay_while_others_come_and_go() {
    let (runtime, keyed) = counting(None, 64);
    for round in 0..2_000 {
        for key in 0..8 {
            keyed.push(&key, |count| *count += 1).unwrap();
        }
        keyed.push(&(1_000 + round), |count| *count += 1).unwrap();
        settle(&runtime);
        assert!(keyed.len() <= 64);
    }
    for key in 0..8 {
        assert_eq!(
            keyed.push_wait(&key, |count| *count),
            Ok(2_000),
            "key {key}"
        );
    }
    assert_eq!(keyed.stats().refused, 0);
}

#[test]
fn each_key_has_the_capacity_of_the_template() {
    let runtime = Runtime::simulated(1);
    let template = runtime.serializer("key").capacity(2).template().unwrap();
    let keyed = Keyed::<String>::builder(&template, runtime.timers()).build();
    for _ in 0..2 {
        keyed.push("alice", |()| ()).unwrap();
    }
    let full = keyed.push("alice", |()| ());
    assert_eq!(full, Err(KeyedError::Serializer(PushError::Full)));
    keyed.push("bob", |()| ()).unwrap();
}

/// What an overflow policy drops is no use of the key any more.
#[test]
fn dropped_tasks_do_not_keep_a_key() {
    let runtime = Runtime::simulated(1);
    let template = runtime.serializer("key").capacity(1);
    let template = template.overflow(Overflow::DropOldest).template().unwrap();
    let keyed = Keyed::<u32>::builder(&template, runtime.timers())
        .idle_after(MINUTE)
        .build();
    (0..100).for_each(|_| keyed.push(&1, |()| ()).unwrap());
    run_for(&runtime, 3 * MINUTE);
    assert!(keyed.is_empty());
}

#[test]
fn evict_all_hands_over_each_state_behind_what_was_pushed() {
    let runtime = Runtime::simulated(1);
    let evicted = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&evicted);
    let keyed = Keyed::<u32>::builder(&template(&runtime), runtime.timers())
        .with_state(|_| 0)
        .on_evict(move |key, count| noting.lock().unwrap().push((*key, count)))
        .build();
    for key in 0..5 {
        (0..key).for_each(|_| keyed.push(&key, |count| *count += 1).unwrap());
    }
    // Key 0 has not been used: there is no state to hand over.
    assert_eq!(keyed.evict_all(), 4);
    keyed.push(&4, |count| *count += 1).unwrap();
    settle(&runtime);
    let mut states = evicted.lock().unwrap().clone();
    states.sort_unstable();
    assert_eq!(states, [(1, 1), (2, 2), (3, 3), (4, 4)]);
    // What came behind has a new state.
    assert_eq!(keyed.push_wait(&4, |count| *count), Ok(1));
    assert!(!keyed.evict(&77));
}

#[test]
fn a_panic_ends_one_task_and_no_key() {
    let runtime = Runtime::simulated(1);
    let attempts = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&attempts);
    let keyed = Keyed::<u32>::builder(&template(&runtime), runtime.timers())
        .idle_after(MINUTE)
        .with_state(move |_| match counting.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("the first state, on purpose"),
            _ => 10,
        })
        .on_evict(|_, _| panic!("the hook, on purpose"))
        .build();
    let lost = keyed.push_wait(&1, |state| *state);
    assert_eq!(lost, Err(KeyedError::Serializer(WaitError::Panicked)));
    let panicked = keyed.push_wait(&1, |state| {
        *state += 1;
        panic!("a task, on purpose")
    });
    assert_eq!(
        panicked,
        Err::<(), _>(KeyedError::Serializer(WaitError::Panicked))
    );
    assert_eq!(
        keyed.push_wait(&1, |state| *state),
        Ok(11),
        "as the task left it"
    );
    run_for(&runtime, 3 * MINUTE);
    assert!(
        keyed.is_empty(),
        "the panic of the hook does not keep the key"
    );
    assert_eq!(keyed.push_wait(&1, |state| *state), Ok(10));
}

#[test]
fn a_task_that_waits_for_its_own_key_is_told() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let keyed = Keyed::<u32>::builder(&template(&runtime), runtime.timers()).build();
    let same = keyed.clone();
    let inner = keyed
        .push_wait(&1, move |()| same.push_wait(&1, |()| ()))
        .unwrap();
    let told = matches!(inner, Err(KeyedError::Serializer(WaitError::Deadlock(_))));
    assert!(told, "{inner:?}");
}

/// All hashes are equal, so only `Eq` tells the keys apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Crowded(u32);

impl Hash for Crowded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(0);
    }
}

#[test]
fn keys_with_equal_hashes_are_told_apart() {
    let runtime = Runtime::simulated(1);
    let keyed = Keyed::<Crowded>::builder(&template(&runtime), runtime.timers())
        .with_state(|key| key.0)
        .build();
    for key in 0..50 {
        assert_eq!(keyed.push_wait(&Crowded(key), |state| *state), Ok(key));
    }
    assert_eq!(keyed.len(), 50);
    assert!(keyed.evict(&Crowded(25)));
    settle(&runtime);
    assert!(!keyed.contains(&Crowded(25)));
    assert!((0..50).filter(|key| keyed.contains(&Crowded(*key))).count() == 49);
}

#[test]
fn keys_and_states_are_dropped_once_and_timers_with_them() {
    let runtime = Runtime::simulated(1);
    let witness = Arc::new(());
    let held = Arc::clone(&witness);
    let keyed = Keyed::<u32>::builder(&template(&runtime), runtime.timers())
        .idle_after(MINUTE)
        .with_state(move |_| Arc::clone(&held))
        .build();
    for key in 0..100 {
        keyed.push(&key, |_| ()).unwrap();
    }
    settle(&runtime);
    assert_eq!(
        Arc::strong_count(&witness),
        102,
        "one in each state, and in the closure"
    );
    assert_eq!(runtime.timers().stats().pending_count, 100);
    keyed.push(&1, |_| ()).unwrap();
    drop(keyed);
    assert_eq!(
        runtime.timers().stats().pending_count,
        1,
        "of the key in use"
    );
    settle(&runtime);
    assert_eq!(Arc::strong_count(&witness), 1);
    assert_eq!(runtime.timers().stats().pending_count, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8),
    Evict(u8),
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_u8).prop_map(Step::Push),
        1 => (0..12_u8).prop_map(Step::Evict),
        3 => (1..90_u16).prop_map(Step::Pass),
    ]
}

proptest! {
    /// The naive model: each key has the count that was saved when it was evicted,
    /// plus its pushes.
    #[test]
    fn any_steps_agree_with_a_map(steps in prop::collection::vec(step(), 1..200), seed: u64) {
        let runtime = Runtime::simulated(seed);
        let saved = Arc::new(Mutex::new(HashMap::new()));
        let (loading, saving) = (Arc::clone(&saved), Arc::clone(&saved));
        let keyed = Keyed::<u8>::builder(&template(&runtime), runtime.timers())
            .idle_after(MINUTE)
            .max_keys(10)
            .with_state(move |key| loading.lock().unwrap().remove(key).unwrap_or(0_u32))
            .on_evict(move |key, count| _ = saving.lock().unwrap().insert(*key, count))
            .build();
        let mut model = HashMap::<u8, u32>::new();
        for step in steps {
            match step {
                Step::Push(key) => {
                    if keyed.push(&key, |count| *count += 1).is_ok() {
                        *model.entry(key).or_default() += 1;
                    }
                }
                Step::Evict(key) => _ = keyed.evict(&key),
                Step::Pass(seconds) => run_for(&runtime, Duration::from_secs(seconds.into())),
            }
            prop_assert!(keyed.len() <= 10);
        }
        run_for(&runtime, 3 * MINUTE);
        prop_assert!(keyed.is_empty(), "all are idle");
        model.retain(|_, count| *count > 0);
        prop_assert_eq!(&*saved.lock().unwrap(), &model);
    }
}
