//! Futures that wait for room in a serializer's queue.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use busyhour::{
    clock::{Clock, UnixTime},
    pool::{PushError, TaskPool},
    serializer::{Serializer, ShutdownGroup},
    task::Overflow,
};

fn simulated() -> (TaskPool, Serializer) {
    let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::default()));
    let calls = pool.serializer("calls").capacity(1).build().unwrap();
    (pool, calls)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled by hand.
struct Polled<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

impl<F: Future> Polled<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            wakes: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

#[test]
fn places_are_given_in_the_order_of_arrival() {
    let (pool, calls) = simulated();
    let (sender, receiver) = mpsc::channel();
    calls.push(|| ()).unwrap();
    let mut waiting: Vec<_> = (0..3)
        .map(|number| {
            let sender = sender.clone();
            Polled::new(calls.push_async(move || sender.send(number).unwrap()))
        })
        .collect();
    for future in &mut waiting {
        assert!(future.poll().is_pending());
    }
    for number in 0..3 {
        assert!(pool.step());
        let wakes: Vec<_> = waiting.iter().map(Polled::wakes).collect();
        assert_eq!(wakes.iter().sum::<usize>(), number + 1, "one at a time");
        assert_eq!(wakes[number], 1);
        assert!(calls.try_push(|| ()).is_err(), "the place is kept");
        for later in &mut waiting[number + 1..] {
            assert!(later.poll().is_pending());
        }
        assert_eq!(waiting[number].poll(), Poll::Ready(Ok(())));
    }
    while pool.step() {}
    assert!(receiver.try_iter().eq(0..3));
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (pool, calls) = simulated();
    calls.push(|| ()).unwrap();
    let mut first = Polled::new(calls.reserve());
    let mut second = Polled::new(calls.reserve());
    let mut third = Polled::new(calls.reserve());
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    drop(second); // while it waits
    assert!(pool.step());
    assert_eq!((first.wakes(), third.wakes()), (1, 0));
    drop(first); // after it was given the place
    assert_eq!(third.wakes(), 1);
    let Poll::Ready(Ok(permit)) = third.poll() else {
        panic!("it has the place");
    };
    drop(permit);
    calls.push(|| ()).unwrap();
    assert!(pool.step() && calls.is_idle());
}

#[test]
fn a_task_whose_future_is_dropped_does_not_run() {
    let (pool, calls) = simulated();
    let held = Arc::new(());
    let in_task = Arc::clone(&held);
    calls.push(|| ()).unwrap();
    let mut pushing = Polled::new(calls.push_async(move || drop(in_task)));
    assert!(pushing.poll().is_pending());
    drop(pushing);
    assert_eq!(Arc::strong_count(&held), 1);
    while pool.step() {}
    assert_eq!(calls.stats().processed, 1);
}

#[test]
fn a_place_is_kept_at_once_or_refused_and_counted() {
    let (pool, calls) = simulated();
    let place = calls.try_reserve().unwrap();
    assert_eq!(calls.try_reserve().unwrap_err(), PushError::Full);
    assert!(calls.try_push(|| ()).is_err(), "the place is kept");
    drop(place);
    let place = calls.try_reserve().unwrap();
    let mut waiting = Polled::new(calls.reserve());
    assert!(waiting.poll().is_pending());
    drop(place);
    assert_eq!(
        calls.try_reserve().unwrap_err(),
        PushError::Full,
        "who waits comes first"
    );
    let Poll::Ready(Ok(place)) = waiting.poll() else {
        panic!("the place is free again");
    };
    place.push(|| ()).unwrap();
    assert_eq!((calls.len(), calls.stats().rejected), (1, 3));
    pool.shutdown(Duration::from_secs(1));
    assert_eq!(calls.try_reserve().unwrap_err(), PushError::ShutDown);
}

#[test]
fn a_future_that_finds_no_room_is_dropped_and_counted_and_its_panic_caught() {
    struct Drops(Arc<AtomicUsize>);
    impl Drop for Drops {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose");
        }
    }
    let (pool, calls) = simulated();
    calls.push(|| ()).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let refused = || {
        let captured = Drops(Arc::clone(&dropped));
        async move { drop(captured) }
    };
    assert_eq!(calls.try_spawn(refused()).err(), Some(PushError::Full));
    assert_eq!(
        calls.spawn_exclusive(refused()).err(),
        Some(PushError::Full)
    );
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    assert_eq!((calls.stats().rejected, pool.stats().panicked), (2, 2));
    assert_eq!(pool.stats().rejected, 2);
}

#[test]
fn it_waits_whatever_the_policy_is() {
    for overflow in [
        Overflow::Reject,
        Overflow::Block,
        Overflow::DropOldest,
        Overflow::Conflate,
    ] {
        let pool = TaskPool::simulated(1, Clock::simulated(UnixTime::default()));
        let calls = pool.serializer("calls").capacity(1).overflow(overflow);
        let calls = calls.build().unwrap();
        calls.push(|| ()).unwrap();
        let mut pushing = Polled::new(calls.push_async(|| ()));
        assert!(pushing.poll().is_pending(), "{overflow:?}");
        while pool.step() {}
        assert_eq!(pushing.poll(), Poll::Ready(Ok(())), "{overflow:?}");
        while pool.step() {}
        let stats = calls.stats();
        assert_eq!((stats.processed, stats.dropped), (2, 0), "{overflow:?}");
    }
}

#[test]
fn a_shutdown_ends_the_waiting() {
    let (pool, calls) = simulated();
    calls.push(|| ()).unwrap();
    let suspension = calls.suspend();
    let mut waiting = Polled::new(calls.push_async(|| ()));
    assert!(waiting.poll().is_pending());
    pool.shutdown(Duration::ZERO);
    assert_eq!(waiting.wakes(), 1);
    assert_eq!(waiting.poll(), Poll::Ready(Err(PushError::ShutDown)));
    drop(suspension);

    let (pool, _) = simulated();
    let group = ShutdownGroup::new();
    let member = pool
        .serializer("member")
        .capacity(1)
        .group(&group)
        .build()
        .unwrap();
    let permit = pin!(member.reserve());
    let Poll::Ready(Ok(permit)) = permit.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("there is room");
    };
    let mut waiting = Polled::new(member.reserve());
    assert!(waiting.poll().is_pending());
    assert!(group.shutdown(Duration::ZERO).is_clean());
    assert!(matches!(
        waiting.poll(),
        Poll::Ready(Err(PushError::ShutDown))
    ));
    assert_eq!(permit.push(|| ()), Err(PushError::ShutDown));
}

#[test]
fn many_futures_push_through_a_short_queue() {
    const PUSHERS: usize = 50;
    const EACH: usize = 100;
    let pool = TaskPool::builder().workers(2).build().unwrap();
    // So that the last push waits for what is still queued by then.
    let calls = pool.serializer("calls").capacity(2);
    let calls = calls.overflow(Overflow::Block).build().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|_| {
            let (calls, count) = (calls.clone(), Arc::clone(&count));
            pool.spawn(async move {
                for _ in 0..EACH {
                    let count = Arc::clone(&count);
                    let task = move || _ = count.fetch_add(1, Ordering::SeqCst);
                    calls.push_async(task).await.unwrap();
                }
            })
        })
        .collect();
    for pusher in pushers {
        assert_eq!(pusher.wait(), Ok(()));
    }
    calls.push_wait(|| ()).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), PUSHERS * EACH);
    assert!(calls.stats().queued_high_water <= 2);
}
