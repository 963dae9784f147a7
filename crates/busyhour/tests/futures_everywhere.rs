//! Each future of the library inside each kind of host: tokio with one thread
//! and with several, smol's reactor, and none at all.

use std::{
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use busyhour::{
    bus::{Event, EventStream, Message, WatchClosed},
    keyed::Keyed,
    pool::JoinError,
    runtime::Runtime,
    task::Overflow,
    timer::{Elapsed, MissedTicks},
};
use futures_core::Stream;

type Check = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Long enough never to pass.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(1);

/// Runs a check to its end inside each host, each with a runtime of its own.
fn everywhere<F>(check: impl Fn(Runtime) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let hosts: [fn(Check); 4] = [
        in_tokio_with_one_thread,
        in_tokio_with_threads,
        |check| async_io::block_on(check),
        in_no_host,
    ];
    for host in hosts {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        host(Box::pin(check(runtime)));
    }
}

fn in_tokio_with_one_thread(check: Check) {
    let tokio = tokio::runtime::Builder::new_current_thread().build();
    tokio.unwrap().block_on(check);
}

fn in_tokio_with_threads(check: Check) {
    let mut tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = tokio.worker_threads(2).build().unwrap();
    let spawned = tokio.spawn(check);
    tokio.block_on(spawned).unwrap();
}

fn in_no_host(mut check: Check) {
    struct Unparks(Thread);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut context = Context::from_waker(&waker);
    while check.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tick(u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &0
    }
}

async fn next<E: Event>(stream: &mut EventStream<E>) -> Option<Message<E>> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn handles_of_futures_and_closures() {
    everywhere(|runtime| async move {
        let (pool, calls) = (runtime.pool(), runtime.serializer("calls").build().unwrap());
        let stateful = runtime.serializer("sum").build().unwrap().with_state(1);
        assert_eq!(pool.spawn(async { 1 }).await, Ok(1));
        assert_eq!(pool.run(|| 2).unwrap().await, Ok(2));
        assert_eq!(calls.spawn(async { 3 }).await, Ok(3));
        assert_eq!(calls.run(|| 4).unwrap().await, Ok(4));
        assert_eq!(stateful.run(|sum| *sum + 4).unwrap().await, Ok(5));
        let place = calls.reserve().await.unwrap();
        assert_eq!(place.run(|| 6).unwrap().await, Ok(6));
        let never = pool.spawn(runtime.timers().sleep(LONG));
        never.abort();
        assert_eq!(never.await, Err(JoinError::Aborted));
        let panics = pool.run(|| std::panic::panic_any(7_u8)).unwrap();
        let payload = panics.await.unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref(), Some(&7_u8));
    });
}

#[test]
fn sleeps_limits_and_intervals() {
    everywhere(|runtime| async move {
        let timers = runtime.timers();
        timers.sleep(SHORT).await;
        assert_eq!(timers.timeout(LONG, async { 1 }).await, Ok(1));
        let never = timers.timeout(SHORT, pending::<()>());
        assert_eq!(never.await, Err(Elapsed));
        let mut interval = timers.interval(SHORT).missed(MissedTicks::Burst);
        let first = interval.tick().await;
        let mut ticks = pin!(interval);
        let second = poll_fn(|context| ticks.as_mut().poll_next(context)).await;
        assert_eq!(second, Some(first + SHORT));
    });
}

#[test]
fn room_in_a_serializer() {
    everywhere(|runtime| async move {
        let narrow = runtime.serializer("narrow").capacity(1).build().unwrap();
        let ran = Arc::new(AtomicU32::new(0));
        for _ in 0..100 {
            let ran = Arc::clone(&ran);
            let push = narrow.push_async(move || _ = ran.fetch_add(1, Ordering::Relaxed));
            push.await.unwrap();
        }
        let place = narrow.reserve().await.unwrap();
        let all = place.run(move || ran.load(Ordering::Relaxed)).unwrap();
        assert_eq!(all.await, Ok(100));
    });
}

#[test]
fn keys() {
    everywhere(|runtime| async move {
        let template = runtime.serializer("key").capacity(1).template().unwrap();
        let keyed = Keyed::<u32>::builder(&template, runtime.timers());
        let keyed = keyed.with_state(|_| 0).build();
        for _ in 0..100 {
            keyed.push_async(&7, |count| *count += 1).await.unwrap();
        }
        let place = keyed.reserve(&7).await.unwrap();
        place.push(|count| *count += 1).unwrap();
        let place = keyed.reserve(&7).await.unwrap();
        let exclusive = place.spawn_exclusive(|count| Box::pin(async move { *count += 1 }));
        exclusive.unwrap().await.unwrap();
        assert_eq!(keyed.spawn(&7, async { 1 }).unwrap().await, Ok(1));
        assert_eq!(keyed.run(&7, |count| *count).unwrap().await, Ok(102));
        let key = keyed.key(&7).unwrap();
        assert_eq!(key.run(|count| *count).unwrap().await, Ok(102));
    });
}

#[test]
fn exclusive_sections() {
    everywhere(|runtime| async move {
        let account = runtime.serializer("account").build().unwrap();
        let account = account.with_state(Vec::new());
        let timers = runtime.timers().clone();
        let section = account.spawn_exclusive(move |steps| {
            Box::pin(async move {
                steps.push(1);
                timers.sleep(SHORT).await;
                steps.push(2);
            })
        });
        account.push(|steps| steps.push(3)).unwrap();
        section.unwrap().await.unwrap();
        let steps = account.run(|steps| steps.clone()).unwrap().await;
        assert_eq!(steps.unwrap(), [1, 2, 3]);
    });
}

#[test]
fn streams() {
    everywhere(|runtime| async move {
        let topic = runtime.topic::<Tick>("ticks").cached().build();
        let mut stream = topic.subscribe().stream();
        let publishing = topic.clone();
        let publishes = runtime.pool().run(move || {
            (0..100).for_each(|number| assert_eq!(publishing.publish(Tick(number)).lost, 0));
            publishing.close();
        });
        for number in 0..100 {
            let message = next(&mut stream).await;
            assert!(matches!(message, Some(Message::Event(Tick(found), _)) if found == number));
        }
        assert!(next(&mut stream).await.is_none());
        publishes.unwrap().await.unwrap();
    });
}

#[test]
fn watches() {
    everywhere(|runtime| async move {
        let topic = runtime.topic::<Tick>("ticks").cached().build();
        let mut watch = topic.watch(0);
        let publishing = topic.clone();
        let publishes = runtime.pool().run(move || {
            (0..100).for_each(|number| _ = publishing.publish(Tick(number)));
        });
        while watch.latest() != Some(&Tick(99)) {
            assert_eq!(watch.changed().await, Ok(()));
        }
        publishes.unwrap().await.unwrap();
        topic.close();
        assert_eq!(watch.changed().await, Err(WatchClosed));
    });
}

#[test]
fn publishers_that_wait() {
    everywhere(|runtime| async move {
        let topic = runtime.topic::<Tick>("ticks").build();
        let slow = topic.subscribe().capacity(1).overflow(Overflow::Block);
        let received = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&received);
        let counts = runtime.serializer("slow").build().unwrap();
        let _slow = slow.on(&counts).start(move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
        });
        for number in 0..100 {
            assert_eq!(topic.publish_async(Tick(number)).await.lost, 0);
        }
        while received.load(Ordering::Relaxed) < 100 {
            counts.run(|| ()).unwrap().await.unwrap();
        }
    });
}

#[test]
fn shutdowns() {
    everywhere(|runtime| async move {
        let topic = runtime.topic::<Tick>("ticks").build();
        let mut stream = topic.subscribe().stream();
        runtime.pool().push(|| ()).unwrap();
        let waits = runtime.pool().spawn(pending::<()>());
        assert!(runtime.shutdown_async(LONG).await.is_clean());
        assert_eq!(waits.await, Err(JoinError::Dropped));
        assert!(next(&mut stream).await.is_none());
        assert!(runtime.pool().run(|| ()).is_err());
    });
}

/// A future that is awaited in one host and polled on the pool is the same.
#[test]
fn the_pool_itself_is_a_host() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let timers = runtime.timers().clone();
    let slept = runtime.pool().spawn(async move {
        timers.sleep(SHORT).await;
        poll_fn(|_| Poll::Ready(1)).await
    });
    assert_eq!(slept.wait(), Ok(1));
}
