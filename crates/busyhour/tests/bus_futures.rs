//! Publishers and receivers of a topic that are futures.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use busyhour::{
    bus::{Event, EventStream, Message, Topic, WatchClosed},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    runtime::Runtime,
    task::Overflow,
};
use futures_core::Stream;

#[derive(Debug, Clone, PartialEq)]
struct Tick(u32, u32);

impl Event for Tick {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
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
        let (future, wakes) = (Box::pin(future), Arc::default());
        Self { future, wakes }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

fn simulated() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::default()))
}

fn run(pool: &TaskPool) {
    while pool.step() {}
}

#[test]
fn publishers_wait_in_order_and_lose_nothing() {
    let (pool, topic) = (simulated(), Topic::<Tick>::builder("ticks").build());
    let (sender, receiver) = mpsc::channel();
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let _slow = blocks.on(&pool).start(move |delivery| {
        if let busyhour::bus::Delivery::Event(tick, _) = delivery {
            sender.send(tick.1).unwrap();
        }
    });
    let mut publishing: Vec<_> = (0..4)
        .map(|number| Polled::new(topic.publish_async(Tick(7, number))))
        .collect();
    assert_eq!(
        publishing[0].poll().map(|published| published.delivered),
        Poll::Ready(1)
    );
    for later in &mut publishing[1..] {
        assert!(later.poll().is_pending());
    }
    drop(publishing.remove(2)); // it gives up
    for waiting in &mut publishing[1..] {
        run(&pool);
        assert_eq!(waiting.wakes(), 1);
        let published = waiting.poll();
        assert_eq!(published.map(|published| published.lost), Poll::Ready(0));
    }
    run(&pool);
    assert!(receiver.try_iter().eq([0, 1, 3]));
}

#[test]
fn a_publisher_that_was_woken_and_is_dropped_passes_the_wake_on() {
    let (pool, topic) = (simulated(), Topic::<Tick>::builder("ticks").build());
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let _slow = blocks.on(&pool).start(|_| ());
    _ = topic.publish(Tick(7, 0));
    let mut first = Polled::new(topic.publish_async(Tick(7, 1)));
    let mut second = Polled::new(topic.publish_async(Tick(7, 2)));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    run(&pool);
    assert_eq!(
        (first.wakes(), first.wakes() + second.wakes() >= 1),
        (1, true)
    );
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert_eq!(
        second.poll().map(|published| published.delivered),
        Poll::Ready(1)
    );
}

#[test]
fn the_end_of_the_subscription_ends_the_wait() {
    let (pool, topic) = (simulated(), Topic::<Tick>::builder("ticks").build());
    let blocks = || topic.subscribe().capacity(1).overflow(Overflow::Block);
    let slow = blocks().on(&pool).start(|_| ());
    _ = topic.publish(Tick(7, 0));
    let mut waits = Polled::new(topic.publish_async(Tick(7, 1)));
    assert!(waits.poll().is_pending());
    slow.unsubscribe();
    assert_eq!(waits.wakes(), 1);
    assert!(waits.poll().is_ready());

    let _ended = blocks().on(&pool).start(|_| ());
    _ = topic.publish(Tick(7, 2));
    let mut waits = Polled::new(topic.publish_async(Tick(7, 3)));
    assert!(waits.poll().is_pending());
    pool.shutdown(Duration::ZERO);
    assert_eq!(waits.wakes(), 1);
    assert_eq!(waits.poll().map(|published| published.lost), Poll::Ready(1));
}

#[test]
fn a_section_does_not_wait_for_a_subscription_that_it_keeps() {
    let (pool, topic) = (simulated(), Topic::<Tick>::builder("ticks").build());
    let calls = pool.serializer("calls").build().unwrap();
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let _own = blocks.on(&calls).start(|_| ());
    let publishing = topic.clone();
    let section = calls.spawn_exclusive(async move {
        for number in 0..3 {
            let published = publishing.publish_async(Tick(7, number)).await;
            assert_eq!(published.lost, 0);
        }
    });
    run(&pool);
    assert_eq!(section.unwrap().wait(), Ok(()));
    assert_eq!(topic.stats().refused_waits, 2);
}

#[test]
fn many_publishers_wait_for_one_slow_subscription() {
    const PUBLISHERS: u32 = 20;
    const EACH: u32 = 100;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let topic = runtime.topic::<Tick>("ticks").build();
    let slow = runtime.serializer("slow").build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let blocks = topic.subscribe().capacity(2).overflow(Overflow::Block);
    let _slow = blocks.on(&slow).start(move |_| sender.send(()).unwrap());
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let topic = topic.clone();
            runtime.pool().spawn(async move {
                for number in 0..EACH {
                    let published = topic.publish_async(Tick(publisher, number)).await;
                    assert_eq!((published.delivered, published.lost), (1, 0));
                }
            })
        })
        .collect();
    for publisher in publishers {
        assert_eq!(publisher.wait(), Ok(()));
    }
    let all = (PUBLISHERS * EACH) as usize;
    assert_eq!(receiver.iter().take(all).count(), all);
}

#[test]
fn a_watch_has_the_last_value_and_notices_changes() {
    for cached in [true, false] {
        let mut builder = Topic::<Tick>::builder("ticks");
        if cached {
            builder = builder.cached();
        }
        let topic = builder.build();
        _ = topic.publish(Tick(7, 0));
        let mut watch = topic.watch(7);
        assert_eq!(watch.latest().map(|tick| tick.1), cached.then_some(0));
        assert!(Polled::new(watch.changed()).poll().is_pending());
        for number in 1..10 {
            assert_eq!(topic.publish(Tick(7, number)).lost, 0);
        }
        _ = topic.publish(Tick(8, 1));
        assert_eq!(Polled::new(watch.changed()).poll(), Poll::Ready(Ok(())));
        assert_eq!(watch.latest(), Some(&Tick(7, 9)));
        let mut waits = Polled::new(watch.changed());
        assert!(waits.poll().is_pending());
        _ = topic.publish(Tick(7, 10));
        assert_eq!(waits.wakes(), 1);
        drop(waits); // the change is not lost
        assert_eq!(Polled::new(watch.changed()).poll(), Poll::Ready(Ok(())));
        if cached {
            assert_eq!(topic.remove(&7).key_count, 1);
            assert_eq!(watch.latest(), None);
        }
    }
}

#[test]
fn receivers_end_with_the_runtime_and_publishers_are_told() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let topic = runtime.topic::<Tick>("ticks").cached().build();
    let mut watch = topic.watch(7);
    let mut stream = topic.subscribe().stream();
    _ = topic.publish(Tick(7, 1));
    assert!(runtime.shutdown(Duration::from_secs(30)).is_clean());
    let published = topic.publish(Tick(7, 2));
    assert_eq!((published.delivered, published.lost), (0, 2));
    assert_eq!(Polled::new(watch.changed()).poll(), Poll::Ready(Ok(())));
    assert_eq!(watch.latest(), Some(&Tick(7, 1)));
    assert_eq!(
        Polled::new(watch.changed()).poll(),
        Poll::Ready(Err(WatchClosed))
    );
    let mut context = Context::from_waker(Waker::noop());
    let mut next = || Pin::new(&mut stream).poll_next(&mut context);
    assert!(matches!(next(), Poll::Ready(Some(_))));
    assert!(matches!(next(), Poll::Ready(None)));
}

#[test]
fn a_runtime_shuts_down_while_its_host_goes_on() {
    let mut options = tokio::runtime::Builder::new_current_thread();
    let tokio = options.build().unwrap();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (release, held) = mpsc::channel::<()>();
    runtime.pool().push(move || held.recv().unwrap()).unwrap();
    tokio.block_on(async {
        let shutdown = runtime.shutdown_async(Duration::from_secs(30));
        // The only thread here is not blocked, or nothing would release it.
        let releases = tokio::spawn(async move { release.send(()).unwrap() });
        assert!(shutdown.await.is_clean());
        releases.await.unwrap();
    });
    assert!(runtime.pool().push(|| ()).is_err());
    let again = runtime.shutdown_async(Duration::ZERO);
    assert!(tokio.block_on(again).is_clean());
}

/// What a stream that was behind has not yet fetched from the cache belongs to what waits.
#[test]
fn a_stream_that_lags_is_told_the_rest_before_the_end() {
    for conflates in [false, true] {
        let runtime = Runtime::simulated(7);
        let topic = runtime.topic::<Tick>("ticks").cached().build();
        let mut lagging = topic.subscribe().replay().capacity(1);
        if conflates {
            lagging = lagging.conflate();
        }
        let mut stream = lagging.stream();
        for number in 0..20 {
            _ = topic.publish(Tick(number % 10, number));
        }
        runtime.shutdown(Duration::ZERO);
        let mut last = [None; 10];
        for message in rest(&mut stream) {
            match message {
                Message::Event(Tick(key, number), _) => last[key as usize] = Some(number),
                Message::Replayed => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(last, std::array::from_fn(|key| Some(key as u32 + 10)));
    }
}

#[test]
fn a_stream_is_told_what_it_has_lost_before_the_end() {
    let runtime = Runtime::simulated(7);
    let topic = runtime.topic::<Tick>("ticks").build();
    let mut stream = topic.subscribe().capacity(1).stream();
    for number in 0..3 {
        _ = topic.publish(Tick(7, number));
    }
    runtime.shutdown(Duration::ZERO);
    let told = rest(&mut stream);
    assert!(matches!(
        told[..],
        [Message::Event(Tick(7, 0), _), Message::Lost(2)]
    ));
}

/// All until the end of the stream, which has ended.
fn rest<E: Event>(stream: &mut EventStream<E>) -> Vec<Message<E>> {
    let mut context = Context::from_waker(Waker::noop());
    let mut messages = Vec::new();
    loop {
        match Pin::new(&mut *stream).poll_next(&mut context) {
            Poll::Ready(Some(message)) => messages.push(message),
            Poll::Ready(None) => return messages,
            Poll::Pending => panic!("it has not ended"),
        }
    }
}

/// A task that reads much in one turn gets no old value for it.
#[test]
fn the_latest_value_is_the_newest_however_long_a_turn_is() {
    let runtime = Runtime::simulated(1);
    let topic = runtime.topic::<Tick>("ticks").cached().build();
    let mut watch = topic.watch(7);
    let reading = runtime.pool().spawn(async move {
        (0..1_000).all(|number| {
            _ = topic.publish(Tick(7, number));
            watch.latest() == Some(&Tick(7, number))
        })
    });
    assert_eq!(reading.wait(), Ok(true));
}

/// Looking at the value does not take the place of the task that waits.
#[test]
fn a_look_at_the_value_keeps_the_waker() {
    let topic = Topic::builder("ticks").cached().build();
    let mut watch = topic.watch(7);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let waits = watch.poll_changed(&mut Context::from_waker(&waker));
    assert!(waits.is_pending());
    assert_eq!(watch.latest(), None);
    _ = topic.publish(Tick(7, 1));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
}

/// Whoever comes too late is told so, instead of waiting for ever.
#[test]
fn a_stream_of_a_closed_topic_ends_whenever_it_is_made() {
    let topic = Topic::builder("ticks").cached().build();
    _ = topic.publish(Tick(7, 1));
    let mut before = topic.subscribe().stream();
    topic.close();
    assert!(rest(&mut before).is_empty());
    let mut after = topic.subscribe().replay().stream();
    let replayed = rest(&mut after);
    assert!(matches!(
        replayed[..],
        [Message::Event(Tick(7, 1), _), Message::Replayed]
    ));
    let mut watch = topic.watch(7);
    assert_eq!(watch.latest(), Some(&Tick(7, 1)));
    let changed = Polled::new(watch.changed()).poll();
    assert_eq!(changed, Poll::Ready(Err(WatchClosed)));
    assert_eq!(topic.publish(Tick(7, 2)).delivered, 0);
}

#[test]
fn a_topic_made_after_the_shutdown_ends_its_streams() {
    let runtime = Runtime::simulated(1);
    let early = runtime.topic::<Tick>("early").build();
    assert!(runtime.shutdown(Duration::from_secs(1)).is_clean());
    let late = runtime.topic::<Tick>("late").build();
    for topic in [early, late] {
        assert!(rest(&mut topic.subscribe().stream()).is_empty());
    }
}
