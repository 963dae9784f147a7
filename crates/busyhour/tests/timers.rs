//! The timer service in virtual time, driven step by step.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use busyhour::{
    clock::{Clock, Instant, UnixTime},
    task::{Executor, Reason, Rejected, Task},
    timer::{AddError, Cancel, DriverError, MissedTicks, TimerHandle, Timers},
};

/// A queue that a test empties by hand.
#[derive(Clone, Default)]
struct Hand {
    tasks: Arc<Mutex<VecDeque<Task>>>,
    refusal: Arc<Mutex<Option<Reason>>>,
}

impl Executor for Hand {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        if let Some(reason) = *self.refusal.lock().unwrap() {
            return Err(Rejected { task, reason });
        }
        self.tasks.lock().unwrap().push_back(task);
        Ok(())
    }
}

impl Hand {
    fn refuse(&self, reason: Option<Reason>) {
        *self.refusal.lock().unwrap() = reason;
    }

    fn take(&self) -> Option<Task> {
        self.tasks.lock().unwrap().pop_front()
    }

    fn run_all(&self) {
        while let Some(task) = self.take() {
            task.run();
        }
    }
}

/// A service in virtual time, with a queue for its callbacks and a list of what
/// ran.
struct Bench {
    clock: Clock,
    timers: Timers,
    hand: Hand,
    log: Arc<Mutex<Vec<(u64, &'static str)>>>,
}

impl Bench {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(
        options: impl Fn(busyhour::timer::TimersBuilder) -> busyhour::timer::TimersBuilder,
    ) -> Self {
        let clock = Clock::simulated(UnixTime::from_secs(1_700_000_000));
        let builder = Timers::builder().clock(clock.clone()).shards(1);
        Self {
            timers: options(builder).build(),
            clock,
            hand: Hand::default(),
            log: Arc::default(),
        }
    }

    /// Returns a callback that records the virtual second in which it runs.
    fn note(&self, what: &'static str) -> impl FnMut() + Send + Clone + 'static {
        let (clock, log) = (self.clock.clone(), Arc::clone(&self.log));
        move || log.lock().unwrap().push((seconds(clock.now()), what))
    }

    fn log(&self) -> Vec<(u64, &'static str)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Sets the time to the given second, without running timers in between.
    fn jump_to(&self, second: u64) {
        self.clock.as_virtual().unwrap().advance_to(at(second));
    }

    /// Delivers and runs what is due now.
    fn run_now(&self) -> usize {
        let delivered = self.timers.run_due(self.clock.now());
        self.hand.run_all();
        delivered
    }

    /// Runs one timer after another, each at its time, up to the given second.
    fn run_until(&self, second: u64) {
        while let Some(deadline) = self.timers.next_deadline().filter(|&due| due <= at(second)) {
            self.clock.as_virtual().unwrap().advance_to(deadline);
            self.run_now();
        }
        self.jump_to(second);
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(second: u64) -> Instant {
    Instant::ZERO + secs(second)
}

fn seconds(instant: Instant) -> u64 {
    (instant - Instant::ZERO).as_secs()
}

#[test]
fn callbacks_run_in_the_order_of_their_deadlines_then_of_insertion() {
    let bench = Bench::new();
    bench
        .timers
        .after(secs(2), &bench.hand, bench.note("second"));
    bench
        .timers
        .after(secs(1), &bench.hand, bench.note("first"));
    bench
        .timers
        .after(secs(2), &bench.hand, bench.note("third"));
    bench.jump_to(5);
    assert_eq!(bench.run_now(), 3);
    assert_eq!(bench.log(), [(5, "first"), (5, "second"), (5, "third")]);
}

#[test]
fn several_shards_keep_the_order_of_deadlines() {
    let bench = Bench::with(|builder| builder.shards(8));
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..100 {
                    let clock = bench.clock.clone();
                    let (log, due) = (Arc::clone(&bench.log), 1 + n * 8 + thread);
                    let note = move || log.lock().unwrap().push((due, "due"));
                    bench.timers.at(at(due), &bench.hand, note);
                    drop(clock);
                }
            });
        }
    });
    bench.jump_to(1000);
    assert_eq!(bench.run_now(), 800);
    assert!(bench.log().into_iter().map(|(due, _)| due).eq(1..=800));
}

#[test]
fn zero_delay_and_past_deadlines_run_at_the_next_drive_and_not_within_the_add() {
    let bench = Bench::new();
    bench.jump_to(100);
    bench
        .timers
        .after(Duration::ZERO, &bench.hand, bench.note("now"));
    bench.timers.at(at(7), &bench.hand, bench.note("past"));
    bench
        .timers
        .at(Instant::ZERO, &bench.hand, bench.note("origin"));
    bench.hand.run_all();
    assert_eq!(bench.log(), []);
    assert_eq!(bench.timers.next_wait(), Some(Duration::ZERO));
    bench.run_now();
    assert_eq!(bench.log(), [(100, "origin"), (100, "past"), (100, "now")]);
}

#[test]
fn a_deadline_beyond_the_clock_waits_until_it_is_cancelled() {
    let bench = Bench::new();
    bench.jump_to(1);
    let never = bench
        .timers
        .after(Duration::MAX, &bench.hand, bench.note("never"));
    assert_eq!(bench.timers.next_wait(), None);
    bench.jump_to(500 * 365 * 86400);
    assert_eq!(bench.run_now(), 0);
    assert!(bench.timers.time_left(&never) > Some(secs(86400)));
    assert_eq!(bench.timers.cancel(&never), Cancel::Prevented);
}

#[test]
fn a_drive_with_an_older_now_does_nothing() {
    let bench = Bench::new();
    bench.jump_to(100);
    bench.timers.after(secs(1), &bench.hand, bench.note("due"));
    assert_eq!(bench.timers.run_due(at(50)), 0);
    assert_eq!(bench.timers.run_due(at(101)), 1);
    assert_eq!(bench.timers.run_due(at(99)), 0);
}

#[test]
fn cancel_reports_what_happened_to_the_callback() {
    let bench = Bench::new();
    let timer = bench
        .timers
        .after(secs(1), &bench.hand, bench.note("never"));
    assert_eq!(bench.timers.cancel(&timer), Cancel::Prevented);
    assert_eq!(bench.timers.cancel(&timer), Cancel::AlreadyRan);

    let ran = bench.timers.after(secs(1), &bench.hand, bench.note("ran"));
    bench.run_until(2);
    assert_eq!(bench.timers.cancel(&ran), Cancel::AlreadyRan);
    assert_eq!(bench.log(), [(1, "ran")]);
    assert_eq!(bench.timers.stats().cancelled, 1);
}

#[test]
fn a_timer_in_its_executors_queue_can_still_be_cancelled() {
    let bench = Bench::new();
    let captured = Arc::new(());
    let inside = Arc::clone(&captured);
    let timer = bench
        .timers
        .after(secs(1), &bench.hand, move || drop(inside));
    bench.jump_to(1);
    assert_eq!(bench.timers.run_due(at(1)), 1);
    assert_eq!(bench.timers.cancel(&timer), Cancel::Prevented);
    assert_eq!(Arc::strong_count(&captured), 1);
    bench.hand.run_all();
    assert_eq!(bench.timers.stats().lost, 0);
}

#[test]
fn a_callback_sees_that_it_is_running() {
    let bench = Bench::new();
    let handle = Arc::new(Mutex::new(None::<TimerHandle>));
    let (timers, own) = (bench.timers.clone(), Arc::clone(&handle));
    let outcome = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcome);
    let timer = bench.timers.every(secs(1), &bench.hand, move || {
        let own = own.lock().unwrap().unwrap();
        seen.lock().unwrap().push(timers.cancel(&own));
        seen.lock().unwrap().push(timers.cancel_and_wait(&own));
    });
    *handle.lock().unwrap() = Some(timer);
    bench.run_until(10);
    assert_eq!(*outcome.lock().unwrap(), [Cancel::Running, Cancel::Running]);
    assert_eq!(bench.timers.cancel(&timer), Cancel::AlreadyRan);
    assert_eq!(bench.timers.stats().pending_count, 0);
}

#[test]
fn a_callback_adds_and_cancels_others() {
    let bench = Bench::new();
    let victim = bench.timers.at(at(1), &bench.hand, bench.note("victim"));
    let (timers, hand) = (bench.timers.clone(), bench.hand.clone());
    let note = bench.note("added");
    bench.timers.at(Instant::ZERO, &bench.hand, move || {
        assert_eq!(timers.cancel(&victim), Cancel::Prevented);
        timers.after(secs(3), &hand, note);
    });
    bench.run_until(10);
    assert_eq!(bench.log(), [(3, "added")]);
}

#[test]
fn a_callback_that_keeps_adding_due_timers_does_not_prolong_the_drive() {
    #[derive(Clone)]
    struct Inline;

    impl Executor for Inline {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            task.run();
            Ok(())
        }
    }

    fn again(timers: &Timers) {
        let own = timers.clone();
        timers.after(Duration::ZERO, &Inline, move || again(&own));
    }

    let bench = Bench::new();
    again(&bench.timers);
    again(&bench.timers);
    assert_eq!(bench.timers.run_due(Instant::ZERO), 2);
    assert_eq!(bench.timers.run_due(Instant::ZERO), 2);
    assert_eq!(bench.timers.close(), 2);
}

#[test]
fn a_panic_ends_the_timer_and_reaches_the_executor() {
    let bench = Bench::new();
    let timer = bench
        .timers
        .every(secs(1), &bench.hand, || panic!("in the callback"));
    bench.jump_to(1);
    assert_eq!(bench.timers.run_due(at(1)), 1);
    let task = bench.hand.take().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| task.run())).is_err());
    assert_eq!(bench.timers.cancel(&timer), Cancel::AlreadyRan);
    let stats = bench.timers.stats();
    assert_eq!((stats.panicked, stats.pending_count), (1, 0));
}

#[test]
fn a_fixed_rate_keeps_its_ticks_and_follows_the_policy_for_missed_ones() {
    for (missed, expected, left_out) in [
        (MissedTicks::Burst, vec![10, 45, 45, 45, 50, 60], 0),
        (MissedTicks::Skip, vec![10, 45, 50, 60], 2),
        (MissedTicks::Delay, vec![10, 45, 55, 65], 2),
    ] {
        let bench = Bench::new();
        let timer = bench.timers.timer().missed(missed).on(&bench.hand);
        timer.run_every(secs(10), bench.note("tick")).unwrap();
        bench.run_until(15);
        bench.jump_to(45);
        bench.run_until(65);
        let ran: Vec<u64> = bench.log().into_iter().map(|(second, _)| second).collect();
        let ran: Vec<u64> = ran
            .into_iter()
            .filter(|&second| second <= expected[expected.len() - 1])
            .collect();
        assert_eq!(ran, expected, "{missed:?}");
        assert_eq!(bench.timers.stats().missed, left_out, "{missed:?}");
    }
}

#[test]
fn a_gap_counts_from_the_end_of_a_run() {
    let bench = Bench::new();
    let (clock, mut note) = (bench.clock.clone(), bench.note("run"));
    let timer = bench.timers.timer().on(&bench.hand);
    let slow = move || {
        note();
        clock.as_virtual().unwrap().advance(secs(3));
    };
    timer.run_with_fixed_delay(secs(10), slow).unwrap();
    bench.run_until(40);
    assert_eq!(bench.log(), [(10, "run"), (23, "run"), (36, "run")]);
}

#[test]
fn a_callback_decides_when_it_runs_again_and_zero_ends_it() {
    let bench = Bench::new();
    let (mut note, mut left) = (bench.note("run"), 3);
    let timer = bench.timers.timer().after(secs(1)).on(&bench.hand);
    let handle = timer.run_with_next_delay(move || {
        note();
        left -= 1;
        secs(left * 10)
    });
    bench.run_until(100);
    assert_eq!(bench.log(), [(1, "run"), (21, "run"), (31, "run")]);
    assert_eq!(bench.timers.cancel(&handle.unwrap()), Cancel::AlreadyRan);
}

#[test]
fn a_full_executor_delays_the_delivery_and_nothing_is_lost() {
    let bench = Bench::new();
    bench.timers.after(secs(1), &bench.hand, bench.note("once"));
    bench.timers.every(secs(1), &bench.hand, bench.note("tick"));
    bench.hand.refuse(Some(Reason::Full));
    bench.jump_to(1);
    bench.run_now();
    assert_eq!(bench.log(), []);
    assert_eq!(bench.timers.stats().deferred, 2);
    bench.hand.refuse(None);
    bench.run_until(2);
    assert_eq!(bench.log(), [(1, "once"), (1, "tick"), (2, "tick")]);
    assert_eq!(bench.timers.stats().lost, 0);
}

#[test]
fn an_executor_that_shut_down_ends_the_timer_and_counts_the_loss() {
    let bench = Bench::new();
    let once = bench.timers.after(secs(1), &bench.hand, bench.note("once"));
    let tick = bench.timers.every(secs(1), &bench.hand, bench.note("tick"));
    bench.hand.refuse(Some(Reason::ShutDown));
    bench.run_until(5);
    let stats = bench.timers.stats();
    assert_eq!((stats.lost, stats.pending_count), (2, 0));
    assert_eq!(bench.timers.cancel(&once), Cancel::AlreadyRan);
    assert_eq!(bench.timers.cancel(&tick), Cancel::AlreadyRan);
}

#[test]
fn a_delivery_dropped_from_the_queue_is_counted_and_later_ticks_still_run() {
    let bench = Bench::new();
    bench.timers.after(secs(1), &bench.hand, bench.note("once"));
    bench.timers.every(secs(1), &bench.hand, bench.note("tick"));
    bench.jump_to(1);
    bench.timers.run_due(at(1));
    while let Some(task) = bench.hand.take() {
        drop(task);
    }
    assert_eq!(bench.timers.stats().lost, 2);
    bench.run_until(2);
    assert_eq!(bench.log(), [(2, "tick")]);
}

#[test]
fn timers_are_cancelled_by_owner_and_by_label() {
    let bench = Bench::new();
    let add = |label, owner| {
        let timer = bench
            .timers
            .timer()
            .label(label)
            .owner(owner)
            .after(secs(1));
        timer.on(&bench.hand).run(|| ()).unwrap()
    };
    for owner in 0..10 {
        add("binding", owner);
        add("retry", owner);
    }
    assert_eq!(bench.timers.cancel_owner(3), 2);
    assert_eq!(bench.timers.cancel_owner(3), 0);
    assert_eq!(bench.timers.cancel_label("retry"), 9);
    assert_eq!(bench.timers.cancel_label("unheard of"), 0);
    let stats = bench.timers.stats();
    assert_eq!((stats.pending_count, stats.cancelled), (9, 11));
}

#[test]
fn cancelling_by_owner_is_exact_after_timers_have_come_and_gone() {
    let bench = Bench::with(|builder| builder.shards(4));
    let add = |label, owner, second| {
        let timer = bench.timers.timer().label(label).owner(owner);
        let timer = timer.at(at(second)).on(&bench.hand);
        timer.run(|| ()).unwrap()
    };
    for n in 0..2_000 {
        let timer = add(["a", "b", ""][n % 3], n as u64 % 5, 1 + n as u64 % 2);
        if n % 4 == 0 {
            assert_eq!(bench.timers.cancel(&timer), Cancel::Prevented);
        }
    }
    bench.run_until(1);
    let left = |chosen: fn(usize) -> bool| (0..2_000).filter(|n| n % 2 == 1 && chosen(*n)).count();
    assert_eq!(bench.timers.cancel_owner(3), left(|n| n % 5 == 3));
    assert_eq!(bench.timers.cancel_owner(3), 0);
    assert_eq!(
        bench.timers.cancel_label("a"),
        left(|n| n % 5 != 3 && n % 3 == 0)
    );
    assert_eq!(
        bench.timers.cancel_label(""),
        left(|n| n % 5 != 3 && n % 3 == 2)
    );
    assert_eq!(
        bench.timers.cancel_label("b"),
        left(|n| n % 5 != 3 && n % 3 == 1)
    );
    assert_eq!(bench.timers.stats().pending_count, 0);
}

#[test]
fn the_report_lists_each_label() {
    let bench = Bench::new();
    let timer = || bench.timers.timer().after(secs(1));
    for _ in 0..5 {
        timer().label("binding").on(&bench.hand).run(|| ()).unwrap();
    }
    let cancelled = timer().label("binding").on(&bench.hand).run(|| ()).unwrap();
    let _ = bench.timers.cancel(&cancelled);
    timer().on(&bench.hand).run(|| ()).unwrap();
    bench.jump_to(3);
    bench.run_now();
    let stats = bench.timers.stats();
    let names: Vec<&str> = stats
        .labels
        .iter()
        .map(|label| label.label.as_str())
        .collect();
    assert_eq!(names, ["", "binding"]);
    let binding = &stats.labels[1];
    assert_eq!(
        (binding.added, binding.cancelled, binding.expired),
        (6, 1, 5)
    );
    assert_eq!((binding.pending_count, binding.pending_high_water), (0, 6));
    assert_eq!(binding.lateness_max_ns, 2_000_000_000);
    assert!(binding.lateness_p50_ns.abs_diff(2_000_000_000) <= 500_000_000);
    assert_eq!((stats.added, stats.expired), (7, 6));
}

#[test]
fn timers_with_slack_share_a_wake_up() {
    let bench = Bench::new();
    for millis in 0..100 {
        let deadline = at(10) + Duration::from_millis(millis);
        let timer = bench.timers.timer().at(deadline).slack(secs(2));
        timer.on(&bench.hand).run(bench.note("due")).unwrap();
    }
    let mut wakes = 0;
    while let Some(deadline) = bench.timers.next_deadline() {
        assert!(deadline >= at(10) && deadline <= at(12));
        bench.clock.as_virtual().unwrap().advance_to(deadline);
        bench.run_now();
        wakes += 1;
    }
    assert!(wakes <= 2);
    assert_eq!(bench.log().len(), 100);
}

#[test]
fn reschedule_moves_only_what_waits() {
    let bench = Bench::new();
    let timer = bench
        .timers
        .after(secs(1), &bench.hand, bench.note("moved"));
    assert!(bench.timers.reschedule(&timer, at(9)));
    assert_eq!(bench.timers.time_left(&timer), Some(secs(9)));
    bench.run_until(9);
    assert_eq!(bench.log(), [(9, "moved")]);
    assert!(!bench.timers.reschedule(&timer, at(20)));
    assert_eq!(bench.timers.time_left(&timer), None);
}

#[test]
fn a_handle_of_another_service_names_nothing() {
    let (one, other) = (Bench::new(), Bench::new());
    let timer = one.timers.after(secs(1), &one.hand, || ());
    other.timers.after(secs(1), &other.hand, || ());
    assert_eq!(other.timers.cancel(&timer), Cancel::AlreadyRan);
    assert_eq!(other.timers.time_left(&timer), None);
    assert_eq!(one.timers.cancel(&timer), Cancel::Prevented);
}

#[test]
fn beyond_its_capacity_and_after_its_close_the_service_refuses() {
    let bench = Bench::with(|builder| builder.capacity(2));
    let add = || {
        bench
            .timers
            .timer()
            .after(secs(1))
            .on(&bench.hand)
            .run(|| ())
    };
    assert!(add().is_ok() && add().is_ok());
    assert_eq!(add(), Err(AddError::Full));
    let dropped = bench.timers.after(secs(1), &bench.hand, || ());
    assert_eq!(bench.timers.cancel(&dropped), Cancel::AlreadyRan);
    assert_eq!(bench.timers.close(), 2);
    assert_eq!(add(), Err(AddError::Closed));
    assert_eq!(bench.timers.stats().refused, 3);
}

#[test]
fn many_timers_at_one_instant_run_in_the_order_they_were_added() {
    let scale = std::env::var("BUSYHOUR_TEST_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok());
    let count = 20_000 * scale.unwrap_or(1);
    let bench = Bench::new();
    let next = Arc::new(AtomicUsize::new(0));
    for n in 0..count {
        let next = Arc::clone(&next);
        bench.timers.at(at(1), &bench.hand, move || {
            assert_eq!(next.fetch_add(1, Ordering::Relaxed), n);
        });
    }
    bench.run_until(1);
    assert_eq!(next.load(Ordering::Relaxed), count);
}

#[test]
fn cancel_and_wait_waits_for_the_end_of_the_run() {
    let bench = Bench::new();
    let (begun, may_end) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let timer = bench.timers.after(secs(1), &bench.hand, move || {
        begun.0.send(()).unwrap();
        may_end.1.recv().unwrap();
        ended.store(true, Ordering::Release);
    });
    bench.jump_to(1);
    bench.timers.run_due(at(1));
    std::thread::scope(|scope| {
        scope.spawn(|| bench.hand.run_all());
        begun.1.recv().unwrap();
        assert_eq!(bench.timers.cancel(&timer), Cancel::Running);
        may_end.0.send(()).unwrap();
        assert_eq!(bench.timers.cancel_and_wait(&timer), Cancel::AlreadyRan);
        assert!(over.load(Ordering::Acquire));
    });
}

#[test]
fn callbacks_that_wait_for_each_other_are_refused_the_wait() {
    let bench = Bench::new();
    let handles = Arc::new(Mutex::new(Vec::<TimerHandle>::new()));
    let both_run = Arc::new(std::sync::Barrier::new(2));
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    for own in 0..2 {
        let timers = bench.timers.clone();
        let (handles, both_run) = (Arc::clone(&handles), Arc::clone(&both_run));
        let (outcomes, shared) = (Arc::clone(&outcomes), Arc::clone(&handles));
        let timer = bench.timers.after(secs(1), &bench.hand, move || {
            both_run.wait();
            let other = handles.lock().unwrap()[1 - own];
            let outcome = timers.cancel_and_wait(&other);
            outcomes.lock().unwrap().push(outcome);
        });
        shared.lock().unwrap().push(timer);
    }
    bench.jump_to(1);
    bench.timers.run_due(at(1));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| bench.hand.take().unwrap().run());
        }
    });
    // One of them was refused its wait; the other waited for that one to end.
    assert_eq!(
        *outcomes.lock().unwrap(),
        [Cancel::Running, Cancel::AlreadyRan]
    );
}

#[test]
fn an_earlier_deadline_wakes_a_host_and_a_later_one_does_not() {
    let bench = Bench::new();
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rings);
    assert!(bench.timers.on_earlier_deadline(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    bench.timers.after(secs(60), &bench.hand, || ());
    assert_eq!(bench.timers.next_wait(), Some(secs(60)));
    bench.timers.after(secs(70), &bench.hand, || ());
    assert_eq!(rings.load(Ordering::Relaxed), 0);
    bench.timers.after(secs(50), &bench.hand, || ());
    assert_eq!(rings.load(Ordering::Relaxed), 1);
    // The host has been told; it is not told again until it has looked at the
    // timers.
    bench.timers.after(secs(40), &bench.hand, || ());
    assert_eq!(rings.load(Ordering::Relaxed), 1);
    assert_eq!(bench.timers.next_wait(), Some(secs(40)));
    bench.timers.after(secs(30), &bench.hand, || ());
    assert_eq!(rings.load(Ordering::Relaxed), 2);
}

#[test]
fn a_driver_thread_delivers_and_there_is_one_at_most() {
    let timers = Timers::builder().build();
    let driver = timers.spawn_driver().unwrap();
    assert!(matches!(timers.spawn_driver(), Err(DriverError::Driven)));
    let hand = Hand::default();
    let (sender, receiver) = std::sync::mpsc::channel();
    for n in (0..50u64).rev() {
        let (sender, timers) = (sender.clone(), timers.clone());
        let due = timers.clock().now() + Duration::from_micros(n * 100);
        timers.clone().at(due, &hand, move || {
            assert!(timers.clock().now() >= due);
            sender.send(n).unwrap();
        });
    }
    let mut ran = 0;
    while ran < 50 {
        hand.run_all();
        ran += receiver.try_iter().count();
        std::thread::yield_now();
    }
    driver.stop();
    assert_eq!(timers.stats().expired, 50);
}

#[test]
fn virtual_time_has_no_driver_thread() {
    let bench = Bench::new();
    assert!(matches!(
        bench.timers.spawn_driver(),
        Err(DriverError::VirtualClock)
    ));
}
