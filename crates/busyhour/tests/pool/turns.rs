//! A turn ends: whatever a worker runs, other entities wait for a bounded time. The tests
//! measure virtual time, which the tasks themselves advance, on one worker.

use busyhour::{
    bus::{Event, Topic},
    clock::{Clock, Instant, UnixTime},
    pool::{TaskPool, consume_budget},
    run_queue::{Class, Priority, RealTimePriority},
    serializer::Serializer,
    timer::{MissedTicks, Timers},
};
use futures_core::Stream;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

/// The longest task of these tests.
const TASK: Duration = Duration::from_micros(100);
/// How much longer than that others may wait.
const WAIT_MAX: Duration = Duration::from_millis(2);

fn virtual_pool() -> (TaskPool, Clock) {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = TaskPool::builder().workers(1).clock(clock.clone());
    (pool.build().expect("a pool"), clock)
}

/// Measures the waits of a serializer that sometimes has one task.
#[derive(Clone)]
struct Light {
    serializer: Serializer,
    clock: Clock,
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Light {
    fn new(pool: &TaskPool, clock: &Clock) -> Self {
        Self {
            serializer: pool.serializer("light").build().expect("a serializer"),
            clock: clock.clone(),
            waits: Arc::default(),
        }
    }

    fn push(&self) {
        let (clock, waits, pushed) = (
            self.clock.clone(),
            Arc::clone(&self.waits),
            self.clock.now(),
        );
        let wait = move || clock.now() - pushed;
        let note = move || waits.lock().expect("no panic").push(wait());
        self.serializer.push(note).expect("room");
    }

    fn longest(&self, count: usize) -> Duration {
        let waits = self.waits.lock().expect("no panic");
        assert_eq!(waits.len(), count);
        waits.iter().max().copied().unwrap_or_default()
    }
}

fn work(clock: &Clock, time: Duration) {
    clock.as_virtual().expect("virtual").advance(time);
}

/// Pushes tasks that take no time, then `count` tasks that take `time` each; after every
/// 50 of them, a task of the light serializer.
fn flood(light: &Light, count: usize, time: Duration, push: impl Fn(Box<dyn FnOnce() + Send>)) {
    (0..5_000).for_each(|_| push(Box::new(|| ())));
    for number in 0..count {
        let light = light.clone();
        push(Box::new(move || {
            if number % 50 == 0 {
                light.push();
            }
            work(&light.clock, time);
        }));
    }
}

/// Blocks the only worker while `prepare` pushes. A worker that is not yet blocked may take
/// an entity together with the task that blocks it, and run the entity first.
fn held(pool: &TaskPool, prepare: impl FnOnce()) {
    let (release, held) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    pool.push(move || {
        begins.send(()).expect("the test waits");
        held.recv().ok();
    })
    .expect("room");
    begun.recv().expect("it runs");
    prepare();
    drop(release);
}

/// Each link of the chain creates the next one, an entity of its own.
#[derive(Clone)]
struct Chain {
    pool: TaskPool,
    clock: Clock,
    begun: Arc<AtomicU64>,
    of_futures: bool,
}

impl Chain {
    fn add(&self, left: u32) {
        let chain = self.clone();
        let link = move || {
            chain.begun.fetch_add(1, Ordering::Relaxed);
            if left > 0 {
                chain.add(left - 1);
            }
            work(&chain.clock, TASK);
        };
        if self.of_futures {
            let _detached = self.pool.spawn_as(Class::default(), async move { link() });
        } else {
            self.pool.ephemeral().push(link).expect("room");
        }
    }
}

/// A new entity shares the counter of the one that creates it. If it had a full one, an
/// entity that has used up its own would wait until no more are created.
#[test]
fn a_used_up_serializer_gets_its_turn_beside_entities_that_create_others() {
    for of_futures in [true, false] {
        let (pool, clock) = virtual_pool();
        let heavy = pool.serializer("heavy").build().expect("a serializer");
        let begun = Arc::new(AtomicU64::new(0));
        let (beside, seen) = mpsc::channel();
        held(&pool, || {
            let chain = Chain {
                pool: pool.clone(),
                clock: clock.clone(),
                begun: Arc::clone(&begun),
                of_futures,
            };
            let use_up = move || work(&clock, 30 * TASK);
            let look = move || beside.send(begun.load(Ordering::Relaxed)).expect("a test");
            heavy.push(use_up).expect("room");
            heavy.push(look).expect("room");
            chain.add(20_000);
        });
        let beside = seen.recv().expect("its turn");
        assert!(beside <= 10, "it waited for {beside} new entities");
        assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
    }
}

#[test]
fn a_serializer_with_a_hundred_thousand_tasks_lets_others_run() {
    for time in [Duration::from_micros(10), TASK] {
        let (pool, clock) = virtual_pool();
        let light = Light::new(&pool, &clock);
        let heavy = pool.serializer("heavy").capacity(200_000).build();
        let heavy = heavy.expect("a serializer");
        held(&pool, || {
            flood(&light, 100_000, time, |task| {
                heavy.push(task).expect("room")
            });
        });
        assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
        let longest = light.longest(2_000);
        assert!(
            longest <= time + WAIT_MAX,
            "waited {longest:?} beside tasks of {time:?}"
        );
    }
}

#[test]
fn a_hundred_thousand_plain_tasks_let_others_run() {
    for time in [Duration::from_micros(10), TASK] {
        let (pool, clock) = virtual_pool();
        let light = Light::new(&pool, &clock);
        held(&pool, || {
            flood(&light, 100_000, time, |task| pool.push(task).expect("room"));
        });
        assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
        let longest = light.longest(2_000);
        assert!(
            longest <= time + WAIT_MAX,
            "waited {longest:?} beside tasks of {time:?}"
        );
    }
}

/// Waits until `count` tasks have run: a shutdown would refuse pushes from outside.
fn await_tasks(pool: &TaskPool, count: u64) {
    while pool.stats().processed < count {
        std::thread::yield_now();
    }
}

/// Pushes from a thread that is no worker, while the calling task continues.
fn push_from_outside(light: &Light) {
    std::thread::scope(|scope| {
        scope.spawn(|| light.push());
    });
}

/// The lane is long, and its tasks have been short so far.
#[test]
fn a_serializer_that_is_pushed_to_from_outside_waits_for_no_lane() {
    let (pool, clock) = virtual_pool();
    let light = Light::new(&pool, &clock);
    held(&pool, || {
        (0..5_000).for_each(|_| pool.push(|| ()).expect("room"));
        for number in 0..2_000 {
            let light = light.clone();
            let task = move || {
                if number % 50 == 0 {
                    push_from_outside(&light);
                }
                work(&light.clock, TASK);
            };
            pool.push(task).expect("room");
        }
    });
    await_tasks(&pool, 1 + 5_000 + 2_000 + 40);
    let longest = light.longest(40);
    assert!(longest <= TASK + WAIT_MAX, "waited {longest:?}");
}

/// As before, beside tasks that take longer than a turn.
#[test]
fn a_serializer_that_is_pushed_to_from_outside_waits_for_one_long_task() {
    let (pool, clock) = virtual_pool();
    let (light, long) = (Light::new(&pool, &clock), Duration::from_millis(10));
    held(&pool, || {
        for number in 0..2_000 {
            let light = light.clone();
            let task = move || {
                if number % 50 == 49 {
                    push_from_outside(&light);
                }
                work(&light.clock, long);
            };
            pool.push(task).expect("room");
        }
    });
    await_tasks(&pool, 1 + 2_000 + 40);
    let longest = light.longest(40);
    assert!(longest <= long + WAIT_MAX, "waited {longest:?}");
}

#[test]
fn an_inline_runner_with_many_tasks_lets_others_run() {
    let (pool, clock) = virtual_pool();
    let light = Light::new(&pool, &clock);
    let heavy = pool.serializer("heavy").capacity(20_000).build();
    let heavy = heavy.expect("a serializer");
    let mut runner = pool.inline_runner();
    while pool.stats().idle_worker_count < 1 {
        std::thread::yield_now();
    }
    runner.run(|| flood(&light, 10_000, TASK, |task| heavy.push(task).expect("room")));
    assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
    let longest = light.longest(200);
    assert!(longest <= TASK + WAIT_MAX, "waited {longest:?}");
}

/// How many steps of a future run before the light task that its first step pushes, for
/// each way to spawn the future.
#[test]
fn a_future_whose_steps_are_always_ready_lets_others_run() {
    for (step, steps_max) in [
        (Duration::from_micros(10), 200),
        (Duration::from_millis(1), 3),
    ] {
        for is_entity in [false, true] {
            let (pool, clock) = virtual_pool();
            let light = Light::new(&pool, &clock);
            let inner = light.clone();
            let steps = async move {
                for number in 0..1_000 {
                    if number % 50 == 0 {
                        inner.push();
                    }
                    work(&inner.clock, step);
                    consume_budget().await;
                }
            };
            let handle = match is_entity {
                true => pool.spawn_as(Class::default(), steps),
                false => pool.spawn(steps),
            };
            handle.wait().expect("it ends");
            assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
            let longest = light.longest(20);
            let allowed = (step * steps_max).min(step + WAIT_MAX);
            assert!(
                longest <= allowed,
                "waited {longest:?} beside steps of {step:?}"
            );
        }
    }
}

/// A stream that always has another item, and an interval all of whose ticks
/// are late.
#[test]
fn a_future_that_always_has_the_next_item_lets_others_run() {
    let (pool, clock) = virtual_pool();
    let light = Light::new(&pool, &clock);
    let topic = Topic::<Number>::builder("numbers").build();
    let mut stream = topic.subscribe().capacity(1_000).stream();
    for number in 0..1_000 {
        assert_eq!(topic.publish(Number(number)).lost, 0);
    }
    let inner = light.clone();
    let events = async move {
        for number in 0..1_000 {
            poll_fn(|context| Pin::new(&mut stream).poll_next(context))
                .await
                .expect("an event");
            if number % 50 == 0 {
                inner.push();
            }
            work(&inner.clock, TASK);
        }
    };
    let timers = Timers::builder().clock(clock.clone()).build();
    let mut interval = timers
        .interval(Duration::from_micros(10))
        .missed(MissedTicks::Burst);
    let inner = light.clone();
    let ticks = async move {
        for number in 0..1_000 {
            interval.tick().await;
            if number % 50 == 0 {
                inner.push();
            }
            work(&inner.clock, TASK);
        }
    };
    pool.spawn(events).wait().expect("it ends");
    pool.spawn(ticks).wait().expect("it ends");
    assert!(pool.shutdown(Duration::from_secs(600)).is_clean());
    let longest = light.longest(40);
    assert!(longest <= TASK + WAIT_MAX, "waited {longest:?}");
}

#[derive(Clone)]
struct Number(u32);

impl Event for Number {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}

/// The only worker runs another serializer's tasks, since its own task waits for one of
/// them. Its own queues are served meanwhile: the last of those tasks waits for a task in
/// them.
#[test]
fn a_worker_that_helps_for_long_has_a_stand_in() {
    let (pool, clock) = virtual_pool();
    let awaited = pool.serializer("awaited").build().expect("a serializer");
    let light = pool.serializer("light").build().expect("a serializer");
    let (sender, receiver) = mpsc::channel();
    held(&pool, || {
        for _ in 0..1_000 {
            let clock = clock.clone();
            awaited.push(move || work(&clock, TASK)).expect("room");
        }
        let suspension = awaited.suspend();
        let inner = awaited.clone();
        let waits = pool.serializer("waits").build().expect("a serializer");
        let waiter = move || {
            light
                .push(move || sender.send(()).expect("it is waited for"))
                .expect("room");
            drop(suspension);
            inner.push_wait(move || receiver.recv_timeout(Duration::from_secs(60)))
        };
        let (results, result) = mpsc::channel();
        waits
            .push(move || results.send(waiter()).expect("the test waits"))
            .expect("room");
        std::thread::spawn(move || {
            result
                .recv()
                .expect("a result")
                .expect("it ran")
                .expect("the light serializer ran")
        });
    });
    assert!(pool.shutdown(Duration::from_secs(120)).is_clean());
}

/// A turn must not end early because the pool was idle before: the clock is read when the
/// turn begins.
#[test]
fn idle_time_is_charged_to_no_entity() {
    let (pool, clock) = virtual_pool();
    let calls = pool.serializer("calls").build().expect("a serializer");
    for _ in 0..100 {
        work(&clock, Duration::from_secs(1));
        calls.push_wait(|| ()).expect("it runs");
    }
    assert_eq!(clock.now() - Instant::ZERO, Duration::from_secs(100));
}

/// The order in which two serializers run eight tasks each; `renice` gets the second one
/// before any task was pushed, and in its first task.
fn order(renice: impl Fn(&Serializer, bool) + Clone + Send + 'static) -> String {
    let (pool, _clock) = virtual_pool();
    let both = ["a", "b"].map(|name| (name, pool.serializer(name).build().expect("a serializer")));
    let (ran, all_ran) = mpsc::channel();
    renice(&both[1].1, true);
    held(&pool, || {
        for number in 0..8 {
            for (name, serializer) in both.iter().map(|(name, it)| (*name, it)) {
                let (ran, renice, same) = (ran.clone(), renice.clone(), serializer.clone());
                let task = move || {
                    ran.send(name).expect("a test");
                    if name == "b" && number == 0 {
                        renice(&same, false);
                    }
                };
                serializer.push(task).expect("room");
            }
        }
    });
    drop(ran);
    all_ran.iter().collect()
}

#[test]
fn a_live_serializer_changes_its_class() {
    let real_time = Class::RealTime(RealTimePriority::new(1));
    let untouched = order(|_, _| ());
    assert!(untouched.starts_with("ab"), "{untouched}");
    let before = order(|b, is_idle| {
        if is_idle {
            b.set_priority(Priority::MAX);
        }
    });
    assert!(before.starts_with("bbbbbbbb"), "{before}");
    let meanwhile = order(move |b, is_idle| {
        if !is_idle {
            b.set_class(real_time);
        }
    });
    assert_eq!(meanwhile, "abbbbbbbbaaaaaaa");
}

/// A plain task that pushes itself until all tasks from outside have run, or a great many of its like.
#[derive(Clone)]
struct Requeued {
    pool: TaskPool,
    ran: Arc<AtomicU64>,
    left_outside: Arc<AtomicU64>,
    ended: mpsc::Sender<()>,
}

impl Requeued {
    fn run(self) {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed);
        if self.left_outside.load(Ordering::Relaxed) > 0 && ran < 10_000_000 {
            let next = self.clone();
            self.pool.push(move || next.run()).expect("room");
        }
    }
}

#[test]
fn tasks_from_outside_run_although_a_long_fifo_fills_itself_again_and_again() {
    let (pool, _clock) = virtual_pool();
    let (ended, all_ended) = mpsc::channel();
    let requeued = Requeued {
        pool: pool.clone(),
        ran: Arc::default(),
        left_outside: Arc::new(AtomicU64::new(1_000)),
        ended,
    };
    let (ran, left_outside) = (
        Arc::clone(&requeued.ran),
        Arc::clone(&requeued.left_outside),
    );
    held(&pool, || {
        let first = requeued.clone();
        let begin = move || (0..300).for_each(|_| first.clone().run());
        pool.push(begin).expect("room");
        for _ in 0..1_000 {
            let (left, ended) = (Arc::clone(&requeued.left_outside), requeued.ended.clone());
            let run = move || {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    ended.send(()).expect("the test waits");
                }
            };
            pool.push(run).expect("room");
        }
    });
    drop(requeued);
    assert_eq!(all_ended.recv(), Ok(()), "{left_outside:?} have not run");
    let ran = ran.load(Ordering::Relaxed);
    assert!(ran < 10_000, "{ran} others ran first");
}
