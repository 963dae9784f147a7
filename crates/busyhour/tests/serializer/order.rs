//! What a serializer promises: order, one task at a time, and a report of each
//! loss.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{PushError, TaskPool, WaitError},
    serializer::{Serializer, SerializerBuildError, ShutdownGroup, Watermark},
    task::Overflow,
};

const LONG: Duration = Duration::from_secs(60);

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

fn simulated(seed: u64) -> TaskPool {
    TaskPool::simulated(seed, Clock::simulated(UnixTime::from_secs(0)))
}

/// Pushes a task that appends `number` to the returned list.
fn record(
    serializer: &Serializer,
    list: &Arc<Mutex<Vec<u64>>>,
    number: u64,
) -> Result<(), PushError> {
    let list = Arc::clone(list);
    serializer.push(move || list.lock().unwrap().push(number))
}

/// Tasks with the state and tasks without it have one order; a panic leaves the
/// state as it was.
#[test]
fn a_state_belongs_to_the_tasks_of_its_serializer() {
    let pool = TaskPool::builder().workers(2).build().unwrap();
    let plain = pool.serializer("stateful").build().unwrap();
    let stateful = plain.clone().with_state(Vec::new());
    for number in 0..1_000 {
        stateful.push(move |seen| seen.push(number)).unwrap();
    }
    plain.push_wait(|| ()).unwrap();
    let lost = stateful.push_wait(|seen| {
        seen.clear();
        panic!("on purpose")
    });
    assert_eq!(lost, Err::<(), _>(WaitError::Panicked));
    assert_eq!(stateful.push_wait(|seen| seen.len()), Ok(0));
    let witness = Arc::new(());
    let held = stateful
        .serializer()
        .clone()
        .with_state(Arc::clone(&witness));
    held.push(|_| ()).unwrap();
    drop(held);
    plain.push_wait(|| ()).unwrap();
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn each_producers_order_is_kept_and_tasks_never_overlap() {
    let pool = pool(3);
    let serializer = pool.serializer("calls").build().unwrap();
    let is_inside = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for producer in 0..4_u64 {
            let (serializer, is_inside, seen) = (&serializer, &is_inside, &seen);
            scope.spawn(move || {
                for number in 0..1000_u64 {
                    let (is_inside, seen) = (Arc::clone(is_inside), Arc::clone(seen));
                    serializer
                        .push(move || {
                            assert!(!is_inside.swap(true, Ordering::SeqCst));
                            seen.lock().unwrap().push((producer, number));
                            assert!(is_inside.swap(false, Ordering::SeqCst));
                        })
                        .unwrap();
                }
            });
        }
    });
    assert!(pool.shutdown(LONG).is_clean());
    assert_eq!(pool.stats().panicked, 0);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4000);
    for producer in 0..4 {
        let numbers = seen
            .iter()
            .filter(|(by, _)| *by == producer)
            .map(|(_, number)| *number);
        assert!(numbers.eq(0..1000));
    }
}

#[test]
fn order_is_kept_when_the_producers_change_workers() {
    // Each task of the first serializer pushes to the second. Any worker may
    // run the first, from task to task.
    let pool = pool(3);
    let (first, second) = (pool.ephemeral(), pool.ephemeral());
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..5000 {
        let (second, seen) = (second.clone(), Arc::clone(&seen));
        first
            .push(move || record(&second, &seen, number).unwrap())
            .unwrap();
        pool.push(thread::yield_now).unwrap();
    }
    assert!(pool.shutdown(LONG).is_clean());
    assert!(seen.lock().unwrap().iter().copied().eq(0..5000));
}

#[test]
fn names_are_unique_while_the_owner_lives() {
    let pool = pool(1);
    let first = pool.serializer("calls").build().unwrap();
    let taken = pool.serializer("calls").build().unwrap_err();
    assert_eq!(taken, SerializerBuildError::NameTaken("calls".to_owned()));
    drop(first);
    assert!(pool.serializer("calls").build().is_ok());
    let names: Vec<_> = pool
        .serializer_stats()
        .into_iter()
        .map(|stats| stats.name)
        .collect();
    assert!(names.is_empty(), "the owner of the name is gone: {names:?}");
}

#[test]
fn impossible_options_are_refused() {
    let pool = pool(1);
    assert_eq!(
        pool.serializer("").build().unwrap_err(),
        SerializerBuildError::NameEmpty
    );
    let zero = pool.serializer("zero").capacity(0).build();
    assert_eq!(
        zero.unwrap_err(),
        SerializerBuildError::CapacityZero("zero".to_owned())
    );
    let marks = pool
        .serializer("marks")
        .capacity(9)
        .on_alert(2, 10, |_| ())
        .build();
    assert_eq!(
        marks.unwrap_err(),
        SerializerBuildError::Watermarks("marks".to_owned())
    );
    let equal = pool.serializer("equal").capacity(9).on_alert(3, 3, |_| ());
    assert_eq!(
        equal.build().unwrap_err(),
        SerializerBuildError::Watermarks("equal".to_owned())
    );
    let widest = pool.serializer("widest").capacity(9).on_alert(0, 9, |_| ());
    assert!(widest.build().is_ok());
}

#[test]
fn reject_keeps_the_oldest() {
    let pool = simulated(1);
    let serializer = pool.serializer("calls").capacity(3).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let results: Vec<_> = (0..5)
        .map(|number| record(&serializer, &seen, number))
        .collect();
    while pool.step() {}
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 2);
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    assert_eq!(serializer.stats().rejected, 2);
}

#[test]
fn drop_oldest_keeps_the_newest() {
    let pool = simulated(1);
    let serializer = (pool.serializer("calls").capacity(3))
        .overflow(Overflow::DropOldest)
        .build()
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    (0..5).for_each(|number| record(&serializer, &seen, number).unwrap());
    while pool.step() {}
    assert_eq!(*seen.lock().unwrap(), [2, 3, 4]);
    let (own, all) = (serializer.stats(), pool.stats());
    assert_eq!((own.dropped, all.dropped), (2, 2));
    assert_eq!(all.pushed, all.processed + all.dropped);
}

#[test]
fn conflate_keeps_the_newest_of_each_key_in_the_place_of_the_oldest() {
    let pool = simulated(1);
    let serializer = (pool.serializer("states").capacity(2))
        .overflow(Overflow::Conflate)
        .build()
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let push = |key, number| {
        let seen = Arc::clone(&seen);
        serializer.push_keyed(key, move || seen.lock().unwrap().push(number))
    };
    push(1, 10).unwrap();
    push(2, 20).unwrap();
    push(1, 11).unwrap();
    assert_eq!(push(3, 30), Err(PushError::Full));
    push(2, 21).unwrap();
    while pool.step() {}
    assert_eq!(*seen.lock().unwrap(), [11, 21]);
    let stats = serializer.stats();
    assert_eq!(
        (stats.conflated, stats.rejected, stats.processed),
        (2, 1, 2)
    );
}

#[test]
fn tasks_without_a_key_keep_their_places_among_those_with_one() {
    for policy in [Overflow::Conflate, Overflow::Reject] {
        let pool = simulated(1);
        let states = pool.serializer("states").overflow(policy);
        let serializer = states.build().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let push_keyed = |key, number| {
            let seen = Arc::clone(&seen);
            serializer.push_keyed(key, move || seen.lock().unwrap().push(number))
        };
        record(&serializer, &seen, 0).unwrap();
        record(&serializer, &seen, 1).unwrap();
        push_keyed(7, 2).unwrap();
        record(&serializer, &seen, 3).unwrap();
        push_keyed(7, 4).unwrap();
        while pool.step() {}
        let expected = match policy {
            Overflow::Conflate => vec![0, 1, 4, 3],
            _ => vec![0, 1, 2, 3, 4],
        };
        assert_eq!(*seen.lock().unwrap(), expected, "{policy:?}");
    }
}

#[test]
fn block_makes_the_producer_wait_for_room() {
    let pool = pool(1);
    let serializer = (pool.serializer("calls").capacity(2))
        .overflow(Overflow::Block)
        .build()
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    (0..2000).for_each(|number| record(&serializer, &seen, number).unwrap());
    assert!(pool.shutdown(LONG).is_clean());
    assert!(seen.lock().unwrap().iter().copied().eq(0..2000));
    assert!(serializer.stats().queued_high_water <= 2);
}

#[test]
fn block_from_a_worker_runs_the_waiting_tasks_itself() {
    let pool = pool(1);
    let serializer = (pool.serializer("calls").capacity(2))
        .overflow(Overflow::Block)
        .build()
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (target, list) = (serializer.clone(), Arc::clone(&seen));
    let pushed =
        pool.push_wait(move || (0..100).all(|number| record(&target, &list, number).is_ok()));
    assert_eq!(pushed, Ok(true));
    assert!(pool.shutdown(LONG).is_clean());
    assert!(seen.lock().unwrap().iter().copied().eq(0..100));
}

#[test]
fn block_on_ones_own_full_queue_is_refused() {
    let pool = pool(1);
    let serializer = (pool.serializer("calls").capacity(1))
        .overflow(Overflow::Block)
        .build()
        .unwrap();
    let own = serializer.clone();
    let results = serializer.push_wait(move || [own.push(|| ()), own.push(|| ())]);
    assert_eq!(results, Ok([Ok(()), Err(PushError::Full)]));
}

#[test]
fn suspensions_nest() {
    for pool in [pool(2), simulated(9)] {
        let serializer = pool.serializer("calls").build().unwrap();
        let (one, two) = (serializer.suspend(), serializer.suspend());
        serializer.push(|| ()).unwrap();
        one.resume();
        while pool.step() {}
        assert_eq!((serializer.len(), serializer.stats().suspend_count), (1, 1));
        drop(two);
        serializer.push_wait(|| ()).unwrap();
        assert_eq!(serializer.len(), 0);
    }
}

#[test]
fn a_suspended_serializers_tasks_are_reported_by_a_shutdown() {
    let pool = pool(1);
    let serializer = pool.serializer("held").build().unwrap();
    let _suspension = serializer.suspend();
    (0..3).for_each(|_| serializer.push(|| ()).unwrap());
    let report = pool.shutdown(LONG);
    assert_eq!(report.not_run, 3);
    assert_eq!(report.left.len(), 1);
    assert_eq!(
        (report.left[0].serializer.as_str(), report.left[0].not_run),
        ("held", 3)
    );
}

#[test]
fn a_cycle_of_synchronous_pushes_is_named() {
    for pool in [pool(1), pool(4), simulated(3)] {
        let one = pool.serializer("one").build().unwrap();
        let two = pool.serializer("two").build().unwrap();
        let (first, second) = (one.clone(), two.clone());
        let outcome = one.push_wait(move || second.push_wait(move || first.push_wait(|| ())));
        let Ok(Ok(Err(WaitError::Deadlock(cycle)))) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(cycle.names(), ["two", "one"]);
    }
}

#[test]
fn synchronous_pushes_need_no_spare_worker() {
    for pool in [pool(1), simulated(4)] {
        let chain: Vec<_> = (0..5).map(|_| pool.ephemeral()).collect();
        fn descend(chain: &[Serializer]) -> usize {
            let Some((first, rest)) = chain.split_first() else {
                return 0;
            };
            let rest = rest.to_vec();
            1 + first.push_wait(move || descend(&rest)).unwrap()
        }
        assert_eq!(descend(&chain), 5);
    }
}

#[test]
fn a_serializer_continues_after_a_panic() {
    let pool = pool(1);
    let serializer = pool.serializer("calls").build().unwrap();
    let panicked = serializer.push_wait(|| panic!("on purpose"));
    assert_eq!(panicked, Err(WaitError::Panicked));
    assert_eq!(serializer.push_wait(|| 3), Ok(3));
    assert_eq!(serializer.stats().panicked, 1);
}

#[test]
fn watermarks_are_reported_once_for_each_crossing() {
    let pool = simulated(2);
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let serializer = (pool.serializer("calls"))
        .on_alert(1, 4, move |water| {
            hook.lock().unwrap().push((water.mark, water.queued_len))
        })
        .build()
        .unwrap();
    for _ in 0..2 {
        (0..6).for_each(|_| serializer.push(|| ()).unwrap());
        while pool.step() {}
    }
    let (high, low) = ((Watermark::High, 4), (Watermark::Low, 1));
    assert_eq!(*told.lock().unwrap(), [high, low, high, low]);
}

#[test]
fn a_group_ends_without_its_pool() {
    for pool in [pool(2), simulated(8)] {
        let group = ShutdownGroup::new();
        let member = pool.serializer("member").group(&group).build().unwrap();
        let outsider = pool.serializer("outsider").build().unwrap();
        (0..10).for_each(|_| member.push(|| ()).unwrap());
        let report = group.shutdown(LONG);
        assert!(report.is_clean());
        assert_eq!(member.stats().processed, 10);
        assert_eq!(member.push(|| ()), Err(PushError::ShutDown));
        assert_eq!(outsider.push(|| ()), Ok(()));
        let late = pool.serializer("late").group(&group).build().unwrap();
        assert_eq!(late.push(|| ()), Err(PushError::ShutDown));
    }
}

#[test]
fn a_group_counts_its_living_members() {
    let pool = pool(1);
    let group = ShutdownGroup::new();
    assert!(group.is_empty());
    let member = |name| pool.serializer(name).group(&group).build().unwrap();
    let (first, second) = (member("first"), member("second"));
    assert_eq!((group.len(), group.is_empty()), (2, false));
    drop(first);
    assert_eq!((group.len(), group.is_empty()), (1, false));
    drop(second);
    assert_eq!((group.len(), group.is_empty()), (0, true));
}

#[test]
fn futures_keep_the_serializers_order() {
    let pool = pool(2);
    let serializer = pool.serializer("calls").build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let first = sender.clone();
    let spawned = serializer.spawn(async move {
        first.send(1).unwrap();
        Serializer::current().unwrap().name().to_owned()
    });
    serializer.push(move || sender.send(2).unwrap()).unwrap();
    assert_eq!(spawned.wait().as_deref(), Ok("calls"));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_dropped_pool_still_runs_what_was_queued() {
    let pool = pool(1);
    let runs = Arc::new(AtomicU64::new(0));
    for _ in 0..100 {
        let runs = Arc::clone(&runs);
        pool.push(move || {
            runs.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    }
    drop(pool);
    while Arc::strong_count(&runs) > 1 {
        thread::yield_now();
    }
    assert_eq!(runs.load(Ordering::Relaxed), 100);
}

#[test]
fn handles_of_one_serializer_are_equal() {
    let pool = pool(1);
    let [one, other] = ["one", "other"].map(|name| pool.serializer(name).build().unwrap());
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
}
