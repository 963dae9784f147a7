//! The list of pending timers, and cancelling those that a predicate wants.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::TaskPool,
    task::{Executor, Rejected, Task},
    timer::{Cancel, PendingPhase, PendingTimer, TimerHandle, TimerKind, Timers},
};

/// Keeps what it is given until it is asked to run it.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Task>>>);

impl Executor for Kept {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }

    fn name(&self) -> String {
        "kept".to_owned()
    }
}

impl Kept {
    fn run(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        tasks.into_iter().for_each(Task::run);
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn service(shards: usize) -> Timers {
    let clock = Clock::simulated(UnixTime::default());
    Timers::builder().clock(clock).shards(shards).build()
}

fn pass(timers: &Timers, seconds: u64) {
    let clock = timers.clock();
    clock.as_virtual().unwrap().advance(secs(seconds));
    timers.run_due(clock.now());
}

fn only(timers: &Timers) -> PendingTimer {
    let all: Vec<PendingTimer> = timers.pending().collect();
    assert_eq!(all.len(), 1);
    assert_eq!(timers.get(&all[0].handle).as_ref(), Some(&all[0]));
    all[0].clone()
}

#[test]
fn the_list_says_what_each_timer_is() {
    let (timers, kept) = (service(1), Kept::default());
    let timer = || timers.timer().label("class").owner(7).on(&kept);
    let (start, every, rest) = (timers.clock().now(), secs(30), secs(40));
    let handles = [
        timers.after(secs(20), &kept, || ()),
        timer().run_every(every, || ()).unwrap(),
        timer().run_with_fixed_delay(rest, || ()).unwrap(),
        timer().run_with_next_delay(|| secs(1)).unwrap(),
    ];
    let kinds = [
        (TimerKind::Once, 20),
        (TimerKind::Every(every), 30),
        (TimerKind::FixedDelay(rest), 40),
        (TimerKind::NextDelay, 0),
    ];
    let all: Vec<PendingTimer> = timers.pending().collect();
    assert_eq!(all.len(), 4);
    for (index, (handle, (kind, seconds))) in handles.into_iter().zip(kinds).enumerate() {
        let listed = timers.get(&handle).unwrap();
        assert!(all.contains(&listed));
        assert_eq!(listed.handle, handle);
        assert_eq!(listed.kind, Some(kind));
        assert_eq!(listed.due, Some(start + secs(seconds)));
        assert_eq!(listed.phase, PendingPhase::Waiting);
        assert_eq!(listed.executor, "kept");
        let (label, owner) = if index == 0 {
            ("", None)
        } else {
            ("class", Some(7))
        };
        assert_eq!((listed.label, listed.owner), (label, owner));
    }
    let numbers: HashSet<String> = handles.iter().map(TimerHandle::to_string).collect();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn a_future_s_timer_is_listed() {
    let (timers, pool) = (service(1), TaskPool::builder().workers(1).build().unwrap());
    let sleep = timers.sleep(secs(9));
    let _joined = pool.spawn(sleep);
    while timers.stats().pending_count == 0 {
        thread::yield_now();
    }
    let listed = only(&timers);
    assert_eq!(
        (listed.label, listed.kind),
        ("async", Some(TimerKind::Future))
    );
    assert_eq!(listed.executor, "");
    pass(&timers, 9);
    assert_eq!(timers.pending().count(), 0);
}

#[test]
fn the_list_follows_a_timer_from_phase_to_phase() {
    let (timers, kept) = (service(1), Kept::default());
    let (seen, other) = (Arc::new(Mutex::new(None)), timers.clone());
    let inside = Arc::clone(&seen);
    let note = move || *inside.lock().unwrap() = Some(only(&other));
    let handle = timers.every(secs(5), &kept, note);
    let moved = timers.clock().now() + secs(6);
    assert!(timers.reschedule(&handle, moved));
    assert_eq!(only(&timers).due, Some(moved));
    pass(&timers, 6);
    let delivered = only(&timers);
    assert_eq!(
        (delivered.phase, delivered.due),
        (PendingPhase::Delivered, None)
    );
    assert_eq!(delivered.executor, "kept");
    kept.run();
    let running = seen.lock().unwrap().take().unwrap();
    assert_eq!((running.phase, running.due), (PendingPhase::Running, None));
    assert_eq!((running.kind, running.handle), (None, handle));
    assert_eq!(only(&timers).phase, PendingPhase::Waiting);
    assert_eq!(timers.cancel(&handle), Cancel::Prevented);
    assert!(timers.get(&handle).is_none());
    assert_eq!(timers.pending().count(), 0);
}

#[test]
fn each_timer_that_stays_is_listed_exactly_once_whatever_comes_and_goes() {
    let (timers, kept) = (service(4), Kept::default());
    let add = |count: u64| -> Vec<TimerHandle> {
        let add = |number| timers.timer().owner(number).after(secs(60)).on(&kept);
        (0..count)
            .map(|number| add(number).run(|| ()).unwrap())
            .collect()
    };
    let fleeting = add(3_000);
    let staying: HashSet<u64> = (10_000..13_000).collect();
    thread::scope(|scope| {
        for part in 0..4 {
            let (timers, kept) = (&timers, &kept);
            scope.spawn(move || {
                for number in (10_000..13_000).skip(part).step_by(4) {
                    let timer = timers.timer().owner(number).after(secs(90)).on(kept);
                    timer.run(|| ()).unwrap();
                }
            });
        }
    });
    let (mut listed, mut goes) = (Vec::new(), fleeting.iter());
    for timer in timers.pending() {
        listed.extend(timer.owner.filter(|owner| staying.contains(owner)));
        if let Some(fleeting) = goes.next() {
            _ = timers.cancel(fleeting);
            timers.after(secs(1), &kept, || ());
        }
        timers.reschedule(&timer.handle, timers.clock().now() + secs(70));
    }
    assert_eq!(listed.len(), 3_000);
    assert_eq!(listed.into_iter().collect::<HashSet<_>>(), staying);
}

#[test]
fn a_list_does_not_follow_what_is_added_meanwhile() {
    let (timers, kept) = (service(1), Kept::default());
    let mut listed = 0;
    timers.after(secs(1), &kept, || ());
    for _ in timers.pending() {
        listed += 1;
        if listed <= 20 {
            (0..600).for_each(|_| _ = timers.after(secs(1), &kept, || ()));
        }
    }
    assert!((1..5_000).contains(&listed), "of 12,001: {listed}");
}

#[test]
fn a_handle_of_another_service_leads_to_nothing() {
    let (timers, other) = (service(1), service(1));
    let handle = other.after(secs(1), &Kept::default(), || ());
    timers.after(secs(1), &Kept::default(), || ());
    assert!(timers.get(&handle).is_none());
    assert!(other.get(&handle).is_some());
}

#[test]
fn those_that_a_predicate_wants_are_cancelled_and_no_others() {
    let (timers, kept) = (service(4), Kept::default());
    let (sender, receiver) = mpsc::channel();
    for number in 0..1_000_u64 {
        let (sender, timer) = (sender.clone(), timers.timer().owner(number));
        let timer = timer.after(secs(number)).on(&kept);
        timer.run(move || sender.send(number).unwrap()).unwrap();
    }
    let mut asked = HashSet::new();
    let late = timers.clock().now() + secs(900);
    let cancelled = timers.cancel_where(|timer| {
        let owner = timer.owner.unwrap();
        assert!(asked.insert(owner), "each is asked about once");
        owner % 2 == 1 || timer.due >= Some(late)
    });
    assert_eq!(asked.len(), 1_000);
    assert_eq!((cancelled, timers.stats().cancelled), (550, 550));
    while timers.next_deadline().is_some() {
        pass(&timers, 500);
    }
    kept.run();
    let ran: Vec<u64> = receiver.try_iter().collect();
    assert_eq!(ran, (0..900).step_by(2).collect::<Vec<u64>>());
}

#[test]
fn a_predicate_may_panic_and_may_use_the_timers() {
    let (timers, kept) = (service(1), Kept::default());
    for owner in 0..10 {
        let timer = timers.timer().owner(owner).after(secs(9)).on(&kept);
        timer.run(|| ()).unwrap();
    }
    let cancelled = timers.cancel_where(|timer| {
        timers.after(secs(1), &kept, || ());
        assert_ne!(timer.owner, Some(4), "the predicate panics");
        assert_eq!(timers.cancel_where(|_| false), 0);
        timer.owner.is_some()
    });
    assert_eq!((cancelled, timers.stats().panicked), (9, 1));
    assert_eq!(
        timers
            .pending()
            .filter(|timer| timer.owner.is_some())
            .count(),
        1
    );
}

/// A name that panics, or a drop of the last reference to an executor, is
/// foreign code in the middle of a list.
#[derive(Clone)]
struct Unnamed;

impl Executor for Unnamed {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }

    fn name(&self) -> String {
        panic!("it has no name")
    }
}

#[test]
fn an_executor_without_a_name_does_not_end_the_list() {
    let timers = service(1);
    timers.after(secs(1), &Unnamed, || ());
    timers.after(secs(1), &Kept::default(), || ());
    let mut names: Vec<String> = timers.pending().map(|timer| timer.executor).collect();
    names.sort();
    assert_eq!(names, ["", "kept"]);
    assert_eq!(timers.stats().panicked, 1);
}
