//! Shutdown from inside of a group, watermarks under contention, turns
//! inherited by a wait, conflation among many keys.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{PushError, TaskPool},
    run_queue::{Class, Priority},
    runtime::Runtime,
    serializer::{ShutdownGroup, Watermark},
    task::Overflow,
};

const LONG: Duration = Duration::from_secs(60);
/// Longer than any test runs: a test that needs it hangs.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

fn pool(workers: usize) -> TaskPool {
    TaskPool::builder().workers(workers).build().unwrap()
}

#[test]
fn a_group_can_be_ended_by_its_own_member() {
    let pool = pool(1);
    let group = ShutdownGroup::new();
    let build = |name| pool.serializer(name).group(&group).build().unwrap();
    let (closer, other) = (build("closer"), build("other"));
    let (first, later) = (group.clone(), closer.clone());
    let report = closer
        .push_wait(move || {
            later.push(|| ()).unwrap();
            other.push(|| ()).unwrap();
            first.shutdown(FOR_EVER)
        })
        .unwrap();
    assert_eq!((report.not_run, report.unfinished_workers), (1, 0));
    assert_eq!(report.left[0].serializer, "closer");
    assert!(closer.push(|| ()).is_err());
}

#[test]
fn a_group_can_be_ended_by_a_task_that_a_member_waits_for() {
    let pool = pool(1);
    let group = ShutdownGroup::new();
    let member = pool.serializer("member").group(&group).build().unwrap();
    let second = pool.serializer("second").build().unwrap();
    let report = member
        .push_wait(move || second.push_wait(move || group.shutdown(FOR_EVER)))
        .unwrap();
    assert!(report.unwrap().is_clean());
}

#[test]
fn watermarks_are_reported_in_the_order_in_which_they_were_crossed() {
    let pool = pool(2);
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let calls = (pool.serializer("calls"))
        .on_alert(1, 4, move |water| hook.lock().unwrap().push(water.clone()))
        .build()
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20_000).for_each(|_| calls.push(|| ()).unwrap_or(())));
        }
    });
    calls.push_wait(|| ()).unwrap();
    assert!(pool.shutdown(LONG).is_clean());
    let told = told.lock().unwrap();
    for (index, water) in told.iter().enumerate() {
        let expected = [Watermark::High, Watermark::Low][index % 2];
        assert_eq!(water.mark, expected, "crossing {index}");
        assert_eq!(water.missed_before % 2, 0);
        match water.mark {
            Watermark::High => assert!(water.queued_len >= 4),
            Watermark::Low => assert!(water.queued_len <= 1),
        }
    }
    assert_eq!(told.len() % 2, 0, "it is empty now, so low was told last");
}

#[test]
fn a_runtime_publishes_crossed_watermarks_on_a_topic() {
    let runtime = Runtime::simulated(3);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let listener = runtime.serializer("listener").build().unwrap();
    let _subscription = (runtime.queue_alerts().subscribe().on(&listener)).start(move |delivery| {
        if let busyhour::bus::Delivery::Event(water, _) = delivery {
            hears
                .lock()
                .unwrap()
                .push((water.serializer.clone(), water.mark));
        }
    });
    let calls = runtime
        .serializer("calls")
        .watermarks(1, 4)
        .build()
        .unwrap();
    (0..6).for_each(|_| calls.push(|| ()).unwrap());
    runtime.simulation().unwrap().run_until_idle();
    let expected = [Watermark::High, Watermark::Low].map(|mark| ("calls".into(), mark));
    assert_eq!(*heard.lock().unwrap(), expected);
    assert!(
        runtime
            .stats()
            .topics
            .iter()
            .any(|topic| topic.name == "serializer.alerts")
    );
}

/// A caller that waits lends its turn: what it waits for runs before other
/// entities, whatever their priority.
#[test]
fn a_serializer_that_a_task_waits_for_inherits_its_turn() {
    let pool = pool(1);
    let (open, gate) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel();
    let wait = move || {
        enter.send(()).unwrap();
        gate.recv().unwrap_or(())
    };
    pool.push(wait).unwrap();
    // A worker that finds it together with a serializer may run that first.
    entered.recv().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let build = |name: &str, priority| {
        let options = pool.serializer(name).priority(Priority::new(priority));
        options.build().unwrap()
    };
    let (low, middle, high) = (build("low", 1), build("middle", 20), build("high", 40));
    (0..3).for_each(|_| low.push(note("low")).unwrap());
    (0..3).for_each(|_| middle.push(note("middle")).unwrap());
    let (awaited, task, done) = (low.clone(), note("awaited"), note("high"));
    high.push(move || {
        awaited.push_wait(task).unwrap();
        done();
    })
    .unwrap();
    drop(open);
    assert!(pool.shutdown(LONG).is_clean());
    let expected = [
        "low", "low", "low", "awaited", "high", "middle", "middle", "middle",
    ];
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn conflation_finds_its_key_among_very_many() {
    const KEYS: u64 = 60_000;
    let pool = TaskPool::simulated(5, Clock::simulated(UnixTime::from_secs(0)));
    let calls = (pool.serializer("calls"))
        .capacity(KEYS as usize + 1)
        .overflow(Overflow::Conflate)
        .build()
        .unwrap();
    let latest = Arc::new(Mutex::new(Vec::new()));
    for round in 0..3 {
        for key in 0..KEYS {
            let latest = Arc::clone(&latest);
            let task = move || latest.lock().unwrap().push((key, round));
            calls.push_keyed(key, task).unwrap();
        }
    }
    assert_eq!(calls.len() as u64, KEYS);
    while pool.step() {}
    assert!(
        latest
            .lock()
            .unwrap()
            .iter()
            .copied()
            .eq((0..KEYS).map(|key| (key, 2)))
    );
    assert_eq!(calls.stats().conflated, 2 * KEYS);
}

/// In virtual time, one worker has a heavy serializer, whose tasks take a
/// millisecond each, and a thousand light ones with tasks of a microsecond.
#[test]
fn a_heavy_entity_keeps_no_light_one_waiting_for_long() {
    use busyhour::run_queue::{QueueEnd, RunQueue, SchedState, WorkerId};
    const LIGHT: usize = 1000;
    let (heavy_turn, light_turn) = (Duration::from_millis(1), Duration::from_micros(1));
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut sched_states: Vec<_> = (0..=LIGHT)
        .map(|_| SchedState::new(Class::default()))
        .collect();
    let (mut now, mut woken_at) = (Duration::ZERO, vec![Duration::ZERO; LIGHT + 1]);
    for (entity, sched_state) in sched_states.iter_mut().enumerate() {
        queue.wake(entity, sched_state, QueueEnd::Back);
    }
    let mut waits = Vec::new();
    for turn in 0..200_000_usize {
        let Some(entity) = queue.pick() else { break };
        let is_heavy = entity == LIGHT;
        if !is_heavy {
            waits.push(now - woken_at[entity]);
        }
        let ran = if is_heavy { heavy_turn } else { light_turn };
        now += ran;
        if is_heavy {
            queue.put_back(entity, &mut sched_states[entity], ran);
        } else {
            queue.charge(&mut sched_states[entity], ran);
            // Its next task arrives while others run.
            let next = (turn * 7919) % LIGHT;
            let sleeps = next != entity && woken_at[next] == Duration::MAX;
            woken_at[entity] = Duration::MAX;
            for wakes in [Some(entity), sleeps.then_some(next)].into_iter().flatten() {
                woken_at[wakes] = now;
                queue.wake(wakes, &mut sched_states[wakes], QueueEnd::Back);
            }
        }
    }
    waits.sort_unstable();
    let p99 = waits[waits.len() * 99 / 100];
    assert!(p99 <= Duration::from_millis(3), "{p99:?}");
}

/// Of every kind of what may wait: the last handle of a simulated pool drops it, once.
#[test]
fn a_simulated_pool_drops_what_waits_with_its_last_handle() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let dropped = Arc::new(AtomicUsize::new(0));
    let task = |ran: Arc<AtomicUsize>| {
        let counted = Counted(Arc::clone(&dropped));
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
            drop(counted);
        }
    };
    let ran = Arc::new(AtomicUsize::new(0));
    let pool = TaskPool::simulated(5, Clock::simulated(UnixTime::from_secs(0)));
    let (named, ephemeral) = (pool.serializer("calls").build().unwrap(), pool.ephemeral());
    let suspended = pool.ephemeral();
    let suspension = suspended.suspend();
    for serializer in [&named, &ephemeral, &suspended] {
        for _ in 0..3 {
            serializer.push(task(ran.clone())).unwrap();
        }
    }
    // It also leads to itself.
    let (own, counted) = (named.clone(), task(ran.clone()));
    named.push(move || _ = own.push(counted)).unwrap();
    pool.push(task(ran.clone())).unwrap();
    let counted = task(ran.clone());
    let join = pool.spawn_as(Class::default(), async move { counted() });

    let other_handle = pool.clone();
    drop((pool, suspension, suspended, ephemeral));
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "a handle is left");
    assert!(other_handle.step(), "and runs what waits");
    let before = ran.load(Ordering::Relaxed);
    drop(other_handle);
    assert_eq!(ran.load(Ordering::Relaxed), before, "nobody can run it");
    assert_eq!(dropped.load(Ordering::Relaxed), 12);
    assert_eq!(named.push(|| ()), Err(PushError::ShutDown));
    assert!(join.wait().is_err());
}
