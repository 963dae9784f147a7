//! Inline runners: threads outside of the pool that run its tasks between their
//! own waits.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, ThreadId},
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{InlineRunner, PushError, TaskPool},
    stats::PoolStats,
};

/// A limit that only a failing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// Its clock stands still, so that every inline run counts as short.
fn pool(workers: usize) -> TaskPool {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(workers).clock(clock);
    pool.build().unwrap()
}

/// Waits until all workers sleep; otherwise the inline runner leaves all tasks
/// to them.
fn await_sleep(pool: &TaskPool) {
    let is_awake = |stats: PoolStats| stats.idle_worker_count < stats.worker_count;
    while is_awake(pool.stats()) {
        thread::yield_now();
    }
}

/// Runs one task in an inline run; returns the thread on which it ran.
fn visit(runner: &mut InlineRunner, pool: &TaskPool) -> ThreadId {
    await_sleep(pool);
    let (sender, receiver) = mpsc::channel();
    runner.run(|| {
        let send = move || sender.send(thread::current().id()).unwrap();
        pool.push(send).unwrap();
    });
    receiver.recv_timeout(LONG).unwrap()
}

fn here() -> ThreadId {
    thread::current().id()
}

#[test]
fn what_an_inline_runner_pushes_has_run_on_its_thread_when_run_returns() {
    let pool = pool(2);
    let serializer = pool.serializer("calls").build().unwrap();
    let mut runner = pool.inline_runner();
    for number in 0..100 {
        await_sleep(&pool);
        let (sender, receiver) = mpsc::channel();
        runner.run(|| {
            let task = move || sender.send((number, here())).unwrap();
            match number % 2 {
                0 => serializer.push(task).unwrap(),
                _ => pool.push(task).unwrap(),
            }
        });
        assert_eq!(receiver.try_recv(), Ok((number, here())));
    }
    let report = pool.shutdown(LONG);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(pool.stats().processed, 100);
}

#[test]
fn a_task_that_waits_for_another_of_its_inline_run_does_not_wait_for_ever() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    let (sender, receiver) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    await_sleep(&pool);
    runner.run(|| {
        let wait = move || done.send(receiver.recv_timeout(LONG)).unwrap();
        pool.push(wait).unwrap();
        pool.push(move || sender.send(7).unwrap()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(LONG), Ok(Ok(7)));
}

#[test]
fn a_task_that_waits_for_what_it_pushes_does_not_wait_for_ever() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    let (done, is_done) = mpsc::channel();
    let inner = pool.clone();
    let task = move || {
        let (sender, receiver) = mpsc::channel();
        inner.push(move || sender.send(7).unwrap()).unwrap();
        done.send(receiver.recv_timeout(LONG)).unwrap();
    };
    await_sleep(&pool);
    runner.run(|| pool.push(task).unwrap());
    assert_eq!(is_done.recv_timeout(LONG), Ok(Ok(7)));
}

#[test]
fn a_task_that_is_awaited_may_wait_for_what_was_collected_before() {
    let pool = pool(1);
    let serializer = pool.serializer("calls").build().unwrap();
    let mut runner = pool.inline_runner();
    for is_ordered in [false, true] {
        let (sender, receiver) = mpsc::channel();
        let wait = move || receiver.recv_timeout(LONG);
        await_sleep(&pool);
        let mut heard = None;
        runner.run(|| {
            pool.push(move || sender.send(7).unwrap()).unwrap();
            heard = Some(match is_ordered {
                true => serializer.push_wait(wait),
                false => pool.push_wait(wait),
            });
        });
        assert_eq!(heard, Some(Ok(Ok(7))));
    }
}

#[test]
fn what_an_inline_runner_pushes_to_another_pool_wakes_that_one() {
    let (home, abroad) = (pool(1), pool(1));
    let mut runner = home.inline_runner();
    let (sender, receiver) = mpsc::channel();
    await_sleep(&home);
    await_sleep(&abroad);
    runner.run(|| {
        abroad.push(move || sender.send(7).unwrap()).unwrap();
        assert_eq!(receiver.recv_timeout(LONG), Ok(7));
        assert_eq!(abroad.push_wait(|| 8), Ok(8));
    });
}

#[test]
fn while_no_worker_sleeps_all_tasks_are_left_to_the_workers() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    let (release, released) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    pool.push(move || {
        started.send(()).unwrap();
        let _sender_is_gone = released.recv();
    })
    .unwrap();
    has_started.recv_timeout(LONG).unwrap();
    let (sender, receiver) = mpsc::channel();
    runner.run(|| pool.push(move || sender.send(here()).unwrap()).unwrap());
    assert!(receiver.try_recv().is_err(), "its only worker is busy");
    drop(release);
    assert_ne!(receiver.recv_timeout(LONG).unwrap(), here());
}

#[test]
fn no_wait_is_counted_while_nothing_was_pushed() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let serializer = pool.serializer("calls").build().unwrap();
    let mut runner = pool.inline_runner();
    for _ in 0..3 {
        clock
            .as_virtual()
            .unwrap()
            .advance(Duration::from_secs(3600));
        await_sleep(&pool);
        runner.run(|| serializer.push(|| ()).unwrap());
    }
    let stats = pool.stats();
    assert_eq!((stats.processed, stats.wait_ns.count()), (3, 3));
    assert!(stats.wait_ns.quantile_ns(1.0) < 1_000);
}

#[test]
fn an_inline_runner_may_wait_for_its_own_task_by_push_wait() {
    let pool = pool(1);
    let serializer = pool.serializer("calls").build().unwrap();
    let mut runner = pool.inline_runner();
    let mut answers = Vec::new();
    await_sleep(&pool);
    runner.run(|| {
        serializer.push(|| ()).unwrap();
        answers.push(serializer.push_wait(|| 1).unwrap());
        answers.push(pool.push_wait(|| 2).unwrap());
    });
    assert_eq!(answers, [1, 2]);
}

#[test]
fn a_panic_of_a_task_is_counted_and_does_not_reach_the_host() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    await_sleep(&pool);
    runner.run(|| pool.push(|| resume_unwind(Box::new("on purpose"))).unwrap());
    assert_eq!(pool.stats().panicked, 1);
    assert_eq!(visit(&mut runner, &pool), here());
}

#[test]
fn tasks_pushed_before_a_panic_of_the_host_are_left_to_the_workers() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    let (sender, receiver) = mpsc::channel();
    await_sleep(&pool);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        runner.run(|| {
            pool.push(move || sender.send(here()).unwrap()).unwrap();
            resume_unwind(Box::new("on purpose"));
        });
    }));
    assert!(panicked.is_err());
    assert_ne!(receiver.recv_timeout(LONG).unwrap(), here());
    assert_eq!(visit(&mut runner, &pool), here());
    assert!(pool.shutdown(LONG).is_clean());
}

#[test]
fn one_inline_runner_too_many_leaves_its_tasks_to_the_workers() {
    let pool = pool(1);
    let mut runners: Vec<_> = (0..9).map(|_| pool.inline_runner()).collect();
    let ninth = runners.last_mut().unwrap();
    assert_ne!(visit(ninth, &pool), here());
    runners.truncate(7);
    assert_eq!(visit(&mut pool.inline_runner(), &pool), here());
}

#[test]
fn a_simulated_pool_treats_pushes_of_an_inline_runner_as_any_others() {
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)));
    pool.inline_runner().run(|| pool.push(|| ()).unwrap());
    assert_eq!(pool.stats().processed, 0);
    assert!(pool.step());
    assert_eq!(pool.stats().processed, 1);
}

#[test]
fn inside_a_task_an_inline_runner_only_collects() {
    let pool = pool(2);
    let (sender, receiver) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let inner = pool.clone();
    let task = move || {
        while inner.stats().idle_worker_count == 0 {
            thread::yield_now();
        }
        let mut nested = inner.inline_runner();
        nested.run(|| inner.push(move || sender.send(here()).unwrap()).unwrap());
        let ran_on = receiver.try_recv();
        done.send(ran_on == Ok(here())).unwrap();
    };
    pool.push(task).unwrap();
    let ran_inside_the_other = is_done.recv_timeout(LONG).unwrap();
    assert!(!ran_inside_the_other);
    assert!(pool.shutdown(LONG).is_clean());
}

#[test]
fn tasks_that_an_inline_runner_leaves_run_after_it_is_gone() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let serializer = pool.serializer("calls").build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut runner = pool.inline_runner();
    await_sleep(&pool);
    runner.run(|| {
        for number in 0..3 {
            let (clock, sender) = (clock.clone(), sender.clone());
            let task = move || {
                clock
                    .as_virtual()
                    .unwrap()
                    .advance(Duration::from_millis(1));
                sender.send(number).unwrap();
            };
            serializer.push(task).unwrap();
        }
    });
    drop(runner);
    let ran = (0..3).map(|_| receiver.recv_timeout(LONG).unwrap());
    assert!(ran.eq(0..3));
}

#[test]
fn after_a_long_run_the_workers_do_the_work_for_a_while() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let mut runner = pool.inline_runner();
    let pass = |time| {
        let clock = clock.clone();
        move || clock.as_virtual().unwrap().advance(time)
    };
    await_sleep(&pool);
    runner.run(|| pool.push(pass(Duration::from_micros(900))).unwrap());
    assert_eq!(visit(&mut runner, &pool), here());
    await_sleep(&pool);
    runner.run(|| pool.push(pass(Duration::from_millis(2))).unwrap());
    assert_ne!(visit(&mut runner, &pool), here());
    pass(Duration::from_millis(100))();
    assert_eq!(visit(&mut runner, &pool), here());
}

#[test]
fn an_inline_run_ends_and_leaves_the_rest_to_the_workers_in_order() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(2).clock(clock.clone());
    let pool = pool.build().unwrap();
    let serializer = pool.serializer("calls").build().unwrap();
    let mut runner = pool.inline_runner();
    let (sender, receiver) = mpsc::channel();
    await_sleep(&pool);
    runner.run(|| {
        for number in 0..20 {
            let (clock, sender) = (clock.clone(), sender.clone());
            let task = move || {
                clock
                    .as_virtual()
                    .unwrap()
                    .advance(Duration::from_micros(150));
                sender.send((number, here())).unwrap();
            };
            serializer.push(task).unwrap();
        }
    });
    let ran: Vec<_> = (0..20)
        .map(|_| receiver.recv_timeout(LONG).unwrap())
        .collect();
    assert!(ran.iter().map(|(number, _)| *number).eq(0..20));
    assert_ne!(ran[19].1, here());
    assert!(pool.shutdown(LONG).is_clean());
}

#[test]
fn a_shutdown_waits_for_the_task_of_an_inline_runner() {
    let pool = pool(1);
    let (started, has_started) = mpsc::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let host = {
        let (pool, ended) = (pool.clone(), Arc::clone(&ended));
        thread::spawn(move || {
            let mut runner = pool.inline_runner();
            await_sleep(&pool);
            let inner = pool.clone();
            let task = move || {
                started.send(()).unwrap();
                await_refusal(&inner);
                inner.push(move || ended.store(true, SeqCst)).unwrap();
            };
            runner.run(|| pool.push(task).unwrap());
        })
    };
    has_started.recv_timeout(LONG).unwrap();
    let report = pool.shutdown(LONG);
    assert!(ended.load(SeqCst), "{report:?}");
    assert!(report.is_clean(), "{report:?}");
    host.join().unwrap();
}

/// Waits until the pool accepts nothing from outside.
fn await_refusal(pool: &TaskPool) {
    let pool = pool.clone();
    let outside = thread::spawn(move || {
        while pool.push(|| ()) != Err(PushError::ShutDown) {
            thread::yield_now();
        }
    });
    outside.join().unwrap();
}

#[test]
fn a_shutdown_from_the_task_of_an_inline_runner_does_not_wait_for_itself() {
    let pool = pool(2);
    let mut runner = pool.inline_runner();
    let (sender, receiver) = mpsc::channel();
    let inner = pool.clone();
    let task = move || sender.send(inner.shutdown(LONG)).unwrap();
    await_sleep(&pool);
    runner.run(|| pool.push(task).unwrap());
    let report = receiver.try_recv().unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(pool.push(|| ()), Err(PushError::ShutDown));
}

#[test]
fn a_shutdown_while_collecting_does_not_wait_for_itself() {
    let pool = pool(2);
    let mut runner = pool.inline_runner();
    await_sleep(&pool);
    let mut report = None;
    runner.run(|| report = Some(pool.shutdown(LONG)));
    assert!(report.unwrap().is_clean());
}

#[test]
fn after_a_shutdown_an_inline_runner_collects_and_is_refused() {
    let pool = pool(1);
    let mut runner = pool.inline_runner();
    assert!(pool.shutdown(LONG).is_clean());
    let mut outcome = Ok(());
    runner.run(|| outcome = pool.push(|| ()));
    assert_eq!(outcome, Err(PushError::ShutDown));
}

#[test]
fn an_inline_runner_does_not_keep_a_pool_from_ending() {
    let (sender, receiver) = mpsc::channel::<()>();
    let pool = TaskPool::builder().workers(1);
    let pool = pool
        .on_thread_stop(move || {
            let _nobody_waits = sender.send(());
        })
        .build()
        .unwrap();
    let mut runner = pool.inline_runner();
    await_sleep(&pool);
    runner.run(|| drop(pool));
    assert_eq!(receiver.recv_timeout(LONG), Ok(()));
}
