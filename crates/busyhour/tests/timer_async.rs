//! Sleeps, time limits and intervals: in virtual time that the test advances,
//! and inside tokio.

use std::{
    future::{Future, pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use busyhour::{
    clock::{Clock, Instant, UnixTime},
    timer::{AddError, Elapsed, MissedTicks, Timers},
};

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A service in virtual time, and a context to poll in.
struct Bench {
    timers: Timers,
    bell: Arc<Bell>,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::simulated(UnixTime::default());
        Self {
            timers: Timers::builder().clock(clock).shards(1).build(),
            bell: Arc::default(),
        }
    }

    fn jump_to(&self, second: u64) -> usize {
        let clock = self.timers.clock();
        clock.as_virtual().unwrap().advance_to(at(second));
        self.timers.run_due(clock.now())
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.bell));
        pin!(future).poll(&mut Context::from_waker(&waker))
    }

    fn rings(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }

    fn pending(&self) -> u64 {
        self.timers.stats().pending_count
    }
}

fn at(second: u64) -> Instant {
    Instant::ZERO + secs(second)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_sleep_wakes_at_its_deadline() {
    let bench = Bench::new();
    let mut sleep = bench.timers.sleep(secs(5));
    assert_eq!(bench.pending(), 0);
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    assert_eq!(bench.pending(), 1);
    bench.jump_to(4);
    assert_eq!((bench.rings(), bench.poll(&mut sleep)), (0, Poll::Pending));
    assert_eq!(bench.jump_to(5), 1);
    assert_eq!(
        (bench.rings(), bench.poll(&mut sleep)),
        (1, Poll::Ready(()))
    );
}

#[test]
fn a_dropped_sleep_leaves_no_timer() {
    let bench = Bench::new();
    let mut sleep = bench.timers.sleep(secs(5));
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    drop(sleep);
    assert_eq!(bench.pending(), 0);
    assert_eq!(Arc::strong_count(&bench.bell), 1);
}

#[test]
fn a_sleep_can_be_moved_and_used_again() {
    let bench = Bench::new();
    let mut sleep = bench.timers.sleep(secs(5));
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    sleep.reset(at(9));
    bench.jump_to(8);
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    bench.jump_to(9);
    assert_eq!(bench.poll(&mut sleep), Poll::Ready(()));
    sleep.reset(at(10));
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    bench.jump_to(10);
    assert_eq!(
        (bench.rings(), bench.poll(&mut sleep)),
        (2, Poll::Ready(()))
    );
}

#[test]
fn a_zero_delay_completes_at_once() {
    let bench = Bench::new();
    assert_eq!(
        bench.poll(&mut bench.timers.sleep(Duration::ZERO)),
        Poll::Ready(())
    );
}

#[test]
fn a_sleep_in_a_closed_service_never_completes() {
    let bench = Bench::new();
    let mut sleep = bench.timers.sleep(secs(5));
    let mut interval = bench.timers.interval_at(at(1), secs(1));
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    assert_eq!(bench.timers.close(), 1);
    assert_eq!((bench.rings(), bench.poll(&mut sleep)), (1, Poll::Pending));
    let mut later = bench.timers.sleep(secs(5));
    assert_eq!(bench.poll(&mut later), Poll::Pending);
    let mut limited = pin!(bench.timers.timeout(secs(5), pending::<()>()));
    assert_eq!(bench.poll(&mut limited), Poll::Pending);
    for _ in 0..10 {
        assert_eq!(bench.poll(&mut pin!(interval.tick())), Poll::Pending);
    }
    let elapsed = bench.timers.try_timeout(secs(5), pending::<()>());
    assert_eq!(elapsed.err(), Some(AddError::Closed));
    assert_eq!(
        bench.timers.try_sleep(secs(5)).err(),
        Some(AddError::Closed)
    );
    // Nothing wakes the remaining futures, and nothing keeps their wakers.
    assert_eq!(bench.rings(), 1);
    assert_eq!(Arc::strong_count(&bench.bell), 1);
}

#[test]
fn a_full_service_refuses_only_futures_that_ask_for_an_error() {
    let clock = Clock::simulated(UnixTime::default());
    let timers = Timers::builder().clock(clock).shards(1).capacity(1);
    let bench = Bench {
        timers: timers.build(),
        bell: Arc::default(),
    };
    let mut tried = bench.timers.try_sleep(secs(5)).unwrap();
    assert_eq!(bench.pending(), 1, "taken before the first poll");
    assert_eq!(bench.timers.try_sleep(secs(5)).err(), Some(AddError::Full));
    let refused = bench.timers.try_timeout(secs(5), ready(()));
    assert_eq!(refused.err(), Some(AddError::Full));
    let mut sleep = bench.timers.sleep(secs(5));
    assert_eq!(
        bench.poll(&mut sleep),
        Poll::Pending,
        "five seconds have not passed"
    );
    assert_eq!(bench.poll(&mut tried), Poll::Pending);
    bench.jump_to(5);
    assert_eq!(bench.rings(), 2);
    assert_eq!(bench.poll(&mut sleep), Poll::Ready(()));
    assert_eq!(bench.poll(&mut tried), Poll::Ready(()));
    assert_eq!(bench.timers.stats().refused, 2);
}

#[test]
fn a_sleep_whose_timer_is_cancelled_by_its_label_still_completes() {
    let bench = Bench::new();
    let mut sleep = bench.timers.sleep(secs(5));
    assert_eq!(bench.poll(&mut sleep), Poll::Pending);
    assert_eq!(bench.timers.cancel_label("async"), 1);
    assert_eq!((bench.rings(), bench.poll(&mut sleep)), (1, Poll::Pending));
    bench.jump_to(5);
    assert_eq!(
        (bench.rings(), bench.poll(&mut sleep)),
        (2, Poll::Ready(()))
    );
}

#[test]
fn a_timeout_returns_the_output_or_that_the_time_has_passed() {
    let bench = Bench::new();
    let mut quick = pin!(bench.timers.timeout(secs(1), ready(7)));
    assert_eq!(bench.poll(&mut quick), Poll::Ready(Ok(7)));
    let mut slow = pin!(bench.timers.timeout(secs(1), pending::<()>()));
    assert_eq!(bench.poll(&mut slow), Poll::Pending);
    bench.jump_to(1);
    assert_eq!(
        (bench.rings(), bench.poll(&mut slow)),
        (1, Poll::Ready(Err(Elapsed)))
    );
    assert_eq!(bench.pending(), 0);
}

#[test]
fn an_interval_keeps_its_ticks_and_follows_its_policy() {
    let bench = Bench::new();
    let mut interval = bench.timers.interval(secs(10)).missed(MissedTicks::Skip);
    let mut tick = || {
        let mut tick = pin!(interval.tick());
        bench.poll(&mut tick)
    };
    assert_eq!(tick(), Poll::Ready(at(0)));
    assert_eq!(tick(), Poll::Pending);
    bench.jump_to(10);
    assert_eq!(tick(), Poll::Ready(at(10)));
    bench.jump_to(45);
    assert_eq!(tick(), Poll::Ready(at(20)));
    assert_eq!(tick(), Poll::Pending);
    bench.jump_to(50);
    assert_eq!(tick(), Poll::Ready(at(50)));
    assert_eq!(interval.missed_count(), 2);
}

#[test]
fn futures_work_inside_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let timers = Timers::builder().build();
    let _driver = timers.spawn_driver().unwrap();
    runtime.block_on(async {
        let began = timers.clock().now();
        timers.sleep(Duration::from_millis(2)).await;
        assert!(timers.clock().now() - began >= Duration::from_millis(2));

        let own = timers.clone();
        let sleeper = tokio::spawn(async move {
            let mut interval = own.interval(Duration::from_millis(1));
            for _ in 0..5 {
                interval.tick().await;
            }
        });
        assert!(
            timers
                .timeout(Duration::from_secs(600), sleeper)
                .await
                .is_ok()
        );
        let late = timers.timeout(Duration::from_millis(1), pending::<()>());
        assert_eq!(late.await, Err(Elapsed));
    });
    assert_eq!(timers.stats().pending_count, 0);
}
