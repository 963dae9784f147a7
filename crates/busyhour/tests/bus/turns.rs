//! A subscription's turn ends, the number of its waiting events is bounded, and a
//! shutdown reports what it did not deliver.

use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, EventStream, Message, Topic},
    pool::{TaskPool, WaitError},
    runtime::Runtime,
    serializer::ShutdownGroup,
    task::{Executor, Overflow, Reason, Rejected, Task},
};
use futures_core::Stream;
use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

const DEADLINE: Duration = Duration::from_secs(60);

fn plain() -> Topic<Level> {
    Topic::builder("levels").build()
}

fn one_worker() -> TaskPool {
    TaskPool::builder().workers(1).maximum(1).build().unwrap()
}

/// What a callback of ten microseconds does.
fn take_ten_microseconds() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(10) {
        std::hint::spin_loop();
    }
}

/// Blocks a serializer until it is told to continue.
fn hold(serializer: &busyhour::serializer::Serializer) -> mpsc::Sender<()> {
    let (go_on, told) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel();
    let wait = move || {
        began.send(()).unwrap();
        let _ = told.recv();
    };
    serializer.push(wait).unwrap();
    has_begun.recv_timeout(DEADLINE).unwrap();
    go_on
}

async fn next(stream: &mut EventStream<Level>) -> Option<Message<Level>> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn a_hundred_thousand_events_keep_no_other_serializer_waiting() {
    let (pool, topic) = (one_worker(), plain());
    let (busy, other) = (pool.serializer("busy"), pool.serializer("other"));
    let (busy, other) = (busy.build().unwrap(), other.build().unwrap());
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let all = topic.subscribe().capacity(100_000).on(&busy);
    let _watch = all.start(move |_| {
        take_ten_microseconds();
        count.fetch_add(1, Ordering::Relaxed);
    });
    let go_on = hold(&busy);
    for number in 0..100_000 {
        assert_eq!(topic.publish(level(number, 1)).lost, 0);
    }
    drop(go_on);
    for _ in 0..20 {
        while heard.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let (told, ran) = mpsc::channel();
        let seen = Arc::clone(&heard);
        let look = move || told.send(seen.load(Ordering::Relaxed)).unwrap();
        other.push(look).unwrap();
        // Read after the push: before it, this thread may have no processor for a long
        // time.
        let before = heard.load(Ordering::Relaxed);
        let meanwhile = ran.recv_timeout(DEADLINE).unwrap().saturating_sub(before);
        // In two milliseconds a callback of ten microseconds runs at most 200
        // times.
        assert!(meanwhile <= 200, "waited for {meanwhile} callbacks");
    }
    let report = pool.shutdown(Duration::ZERO);
    // The running callback has not counted itself yet.
    while pool.stats().worker_count > 0 {
        thread::yield_now();
    }
    assert_eq!(
        report.not_delivered + heard.load(Ordering::Relaxed),
        100_000
    );
}

#[test]
fn events_that_a_turn_has_taken_count_against_the_capacity() {
    let (pool, topic) = (one_worker(), plain());
    let serializer = pool.serializer("slow").build().unwrap();
    let (go_on, told) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel();
    let told = Mutex::new(told);
    let slow = topic.subscribe().capacity(100).on(&serializer);
    let watch = slow.start(move |_| {
        let _ = began.send(());
        let _ = told.lock().unwrap().recv();
    });
    let held = hold(&serializer);
    (0..100).for_each(|number| assert_eq!(topic.publish(level(number, 1)).lost, 0));
    drop(held);
    has_begun.recv_timeout(DEADLINE).unwrap();
    // The turn has taken all hundred events, and the callback has one of them.
    let lost: u64 = (0..100)
        .map(|number| topic.publish(level(number, 1)).lost)
        .sum();
    assert!(lost >= 100 - 16, "{lost} of another hundred were lost");
    assert!(watch.queued_len() <= 100);
    drop(go_on);
    assert!(pool.shutdown(DEADLINE).is_clean());
}

#[test]
fn a_shutdown_counts_and_names_what_it_does_not_deliver() {
    let (pool, topic) = (one_worker(), plain());
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let slow = topic.subscribe().name("slow").capacity(50_000).on(&pool);
    let watch = slow.start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
    });
    (0..50_000).for_each(|number| assert_eq!(topic.publish(level(number, 1)).lost, 0));
    let report = pool.shutdown(Duration::from_millis(10));
    let done = heard.load(Ordering::SeqCst);
    assert!(!report.is_clean());
    assert_eq!(report.undelivered.len(), 1);
    assert_eq!(report.undelivered[0].subscription, "slow");
    assert_eq!(report.undelivered[0].count, report.not_delivered);
    // An event that was just being delivered is in neither count.
    let known = done + report.not_delivered;
    assert!((49_999..=50_000).contains(&known), "{known}");
    assert_eq!(watch.lost(), report.not_delivered);
    // A publisher is now told of the loss.
    assert_eq!(topic.publish(level(1, 1)).lost, 1);
    assert_eq!(watch.lost(), report.not_delivered + 1);
    watch.unsubscribe();
    assert!(
        heard.load(Ordering::SeqCst) <= done + 1,
        "a callback after the deadline"
    );
}

#[test]
fn a_group_delivers_what_its_members_have_taken() {
    let (pool, topic, group) = (one_worker(), plain(), ShutdownGroup::new());
    let member = pool.serializer("member").group(&group).build().unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let _watch = topic
        .subscribe()
        .capacity(10_000)
        .on(&member)
        .start(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
    let go_on = hold(&member);
    (0..10_000).for_each(|number| assert_eq!(topic.publish(level(number, 1)).lost, 0));
    thread::scope(|scope| {
        let ends = scope.spawn(|| group.shutdown(DEADLINE));
        while member.push(|| ()).is_ok() {
            thread::yield_now();
        }
        drop(go_on);
        assert!(ends.join().unwrap().is_clean());
    });
    assert_eq!(heard.load(Ordering::SeqCst), 10_000);
}

#[test]
fn a_group_counts_and_names_what_its_members_do_not_deliver() {
    let (pool, topic, group) = (one_worker(), plain(), ShutdownGroup::new());
    let member = pool.serializer("member").group(&group).build().unwrap();
    let other = pool.serializer("other").build().unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let slow = topic.subscribe().name("slow").capacity(1_000).on(&member);
    let watch = slow.start(|_| ());
    let all = topic.subscribe().name("all").capacity(2_000).on(&other);
    let stays = all.start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let go_on = hold(&member);
    (0..1_000).for_each(|number| assert_eq!(topic.publish(level(number, 1)).lost, 0));
    let report = group.shutdown(Duration::ZERO);
    assert_eq!(report.undelivered.len(), 1);
    assert_eq!(report.undelivered[0].subscription, "slow");
    assert_eq!(
        (report.undelivered[0].count, report.not_delivered),
        (1_000, 1_000)
    );
    assert_eq!((watch.lost(), watch.queued_len()), (1_000, 0));
    assert!(!report.is_clean());
    drop(go_on);
    // A publisher to a member is now told of the loss, and a new subscription on a member
    // receives nothing; other serializers continue.
    let late = topic
        .subscribe()
        .on(&member)
        .start(|_| panic!("it is never called"));
    let published = topic.publish(level(1, 1));
    assert_eq!((published.delivered, published.lost), (1, 2));
    assert_eq!((watch.lost(), late.lost()), (1_001, 1));
    // A turn that ends after its time leaves the remaining events to a later turn, which
    // comes after other waiting work.
    while heard.load(Ordering::SeqCst) < 1_001 {
        thread::yield_now();
    }
    let go_on = hold(&other);
    (0..5).for_each(|number| assert_eq!(topic.publish(level(number, 1)).delivered, 1));
    let report = pool.shutdown(Duration::ZERO);
    // Each delivery is in one report.
    assert_eq!(report.undelivered.len(), 1);
    assert_eq!(report.undelivered[0].subscription, "all");
    assert_eq!(report.not_delivered, 5);
    assert_eq!(stays.lost(), 5);
    drop(go_on);
}

#[test]
fn a_subscription_on_a_pool_that_was_shut_down_loses_all_and_reports_it() {
    let (pool, topic) = (one_worker(), plain());
    assert!(pool.shutdown(DEADLINE).is_clean());
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let watch = blocks.on(&pool).start(|_| panic!("it is never called"));
    for number in 0..10 {
        assert_eq!(topic.publish(level(number, 1)).lost, 1);
    }
    assert_eq!(watch.lost(), 10);
}

#[test]
fn a_publisher_who_waits_for_room_is_told_of_the_shutdown() {
    let (pool, topic) = (one_worker(), plain());
    let serializer = pool.serializer("held").build().unwrap();
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let _watch = blocks.on(&serializer).start(|_| ());
    let go_on = hold(&serializer);
    let publishing = topic.clone();
    let (told, published) = mpsc::channel();
    thread::spawn(move || {
        for number in 0..4 {
            told.send(publishing.publish(level(number, 1)).lost)
                .unwrap();
        }
    });
    assert_eq!(published.recv_timeout(DEADLINE), Ok(0));
    let report = pool.shutdown(Duration::from_millis(1));
    assert_eq!(report.not_delivered, 1);
    let lost: Vec<u64> = (0..3)
        .map(|_| published.recv_timeout(DEADLINE).unwrap())
        .collect();
    assert_eq!(lost, [1, 1, 1]);
    drop(go_on);
}

#[test]
fn a_callback_that_panics_on_the_publishers_thread_leaves_nobody_waiting() {
    let topic = cached();
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let publishing = topic.clone();
    let blocks = topic.subscribe().capacity(2).overflow(Overflow::Block);
    let _watch = blocks.start(move |delivery| {
        let Delivery::Event(event, _) = delivery else {
            return;
        };
        count.fetch_add(1, Ordering::Relaxed);
        if event.line == 0 {
            // These events wait behind the one whose callback panics.
            (1..4).for_each(|line| drop_it(publishing.publish(level(line, 1))));
            panic!("on purpose");
        }
    });
    let panics = AssertUnwindSafe(|| topic.publish(level(0, 1)));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(heard.load(Ordering::Relaxed), 4);
    let (told, published) = mpsc::channel();
    thread::spawn(move || told.send(topic.publish(level(5, 1)).delivered).unwrap());
    assert_eq!(published.recv_timeout(DEADLINE), Ok(1));
}

fn drop_it<T>(_: T) {}

#[test]
fn a_stream_ends_with_its_runtime_after_what_waits_in_it() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let topic = runtime.topic::<Level>("levels").build();
    let mut stream = topic.subscribe().stream();
    assert_eq!(topic.publish(level(1, 1)), delivered(1));
    struct Count(AtomicU64);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let woken = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut poll = || Pin::new(&mut stream).poll_next(&mut context);
    assert!(matches!(poll(), Poll::Ready(Some(Message::Event(..)))));
    assert!(poll().is_pending());
    assert!(runtime.shutdown(DEADLINE).is_clean());
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(poll(), Poll::Ready(None)));
    assert_eq!(topic.publish(level(2, 1)).lost, 1);
}

#[test]
fn a_task_may_wait_for_room_in_a_stream_of_the_same_worker() {
    let (pool, topic) = (TaskPool::builder().workers(1).build().unwrap(), plain());
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let mut stream = blocks.stream();
    let publishing = topic.clone();
    let publish = move || (0..50).for_each(|line| drop_it(publishing.publish(level(line, 1))));
    pool.push(publish).unwrap();
    let consumer = pool.spawn(async move {
        let mut count = 0;
        while count < 50 {
            count += u64::from(next(&mut stream).await.is_some());
        }
        count
    });
    let (told, waited) = mpsc::channel();
    thread::spawn(move || told.send(consumer.wait().unwrap()).unwrap());
    assert_eq!(waited.recv_timeout(DEADLINE), Ok(50));
}

#[test]
fn a_publisher_does_not_wait_for_a_subscriber_that_waits_for_it() {
    let (pool, topic) = (TaskPool::builder().workers(2).build().unwrap(), plain());
    let (one, two) = (pool.serializer("one"), pool.serializer("two"));
    let (one, two) = (one.build().unwrap(), two.build().unwrap());
    let blocks = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let watch = blocks.on(&one).start(|_| ());
    let (told, published) = mpsc::channel();
    let publishing = topic.clone();
    one.push(move || {
        let publish = move || {
            (0..4)
                .map(|line| publishing.publish(level(line, 1)).delivered)
                .sum()
        };
        let sum: Result<u64, WaitError> = two.push_wait(publish);
        told.send(sum.unwrap()).unwrap();
    })
    .unwrap();
    assert_eq!(published.recv_timeout(DEADLINE), Ok(4));
    assert!(pool.shutdown(DEADLINE).is_clean());
    drop(watch);
}

/// Runs each task at once, or refuses it.
#[derive(Clone, Default)]
struct Refusing(Arc<AtomicBool>);

impl Executor for Refusing {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        if self.0.load(Ordering::Relaxed) {
            let reason = Reason::Full;
            return Err(Rejected { task, reason });
        }
        task.run();
        Ok(())
    }
}

/// The turn that the first event asked for was refused for good, and after that the
/// queue is full.
#[test]
fn an_event_without_room_sends_the_refused_turn_again() {
    for (overflow, conflates) in [
        (Overflow::Reject, false),
        (Overflow::DropOldest, false),
        (Overflow::Reject, true),
    ] {
        let (topic, executor) = (plain(), Refusing::default());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        let few = topic
            .subscribe()
            .capacity(2)
            .overflow(overflow)
            .on(&executor);
        let few = if conflates { few.conflate() } else { few };
        let _watch = few.start(move |delivery| {
            if let Delivery::Event(event, _) = delivery {
                log.lock().unwrap().push((event.line, event.level));
            }
        });
        executor.0.store(true, Ordering::Relaxed);
        let _ = topic.publish(level(1, 1));
        let _ = topic.publish(level(2, 1));
        executor.0.store(false, Ordering::Relaxed);
        assert!(heard.lock().unwrap().is_empty());
        let third = if conflates { level(2, 2) } else { level(3, 1) };
        let _ = topic.publish(third);
        let expected = match (overflow, conflates) {
            (_, true) => [(1, 1), (2, 2)],
            (Overflow::DropOldest, _) => [(2, 1), (3, 1)],
            _ => [(1, 1), (2, 1)],
        };
        let heard = heard.lock().unwrap();
        assert_eq!(*heard, expected, "{overflow:?}, conflates: {conflates}");
    }
}
