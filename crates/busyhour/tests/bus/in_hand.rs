//! Events that a turn has taken from the queue and not yet delivered: how they count
//! against the capacity, and who counts them when the deliveries end.

use crate::model::{Level, cached, delivered, level};
use busyhour::{
    bus::{Delivery, EventStream, Topic},
    clock::{Clock, Instant, UnixTime},
    pool::TaskPool,
    task::{Deliveries, Executor, Overflow, Rejected, Task},
};
use futures_core::Stream;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// An executor that runs nothing until it is told to, and ends the deliveries when the
/// test asks for it.
#[derive(Clone, Default)]
struct Later(Arc<Parts>);

#[derive(Default)]
struct Parts {
    tasks: Mutex<VecDeque<Task>>,
    deliveries: Mutex<Option<Weak<dyn Deliveries>>>,
    clock: Mutex<Option<Clock>>,
    looks: AtomicU64,
}

impl Later {
    fn run_all(&self) {
        while self.run_one() {}
    }

    fn run_one(&self) -> bool {
        let task = self.0.tasks.lock().unwrap().pop_front();
        task.map(Task::run).is_some()
    }

    fn end(&self) -> u64 {
        let deliveries = self.0.deliveries.lock().unwrap().clone();
        deliveries.and_then(|it| it.upgrade()).unwrap().end()
    }
}

impl Executor for Later {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.0.tasks.lock().unwrap().push_back(task);
        Ok(())
    }

    fn now(&self) -> Option<Instant> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        let clock = self.0.clock.lock().unwrap();
        clock.as_ref().map(Clock::now)
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        *self.0.deliveries.lock().unwrap() = Some(deliveries);
        true
    }
}

/// Represents an event by its line, and a loss by the negative number of lost
/// events.
fn number(delivery: &Delivery<'_, Level>) -> i64 {
    match delivery {
        Delivery::Event(event, _) => i64::from(event.line),
        Delivery::Lost(count) => -i64::try_from(*count).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn plain() -> Topic<Level> {
    Topic::builder("levels").build()
}

fn poll(stream: &mut EventStream<Level>) -> Option<u32> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_next(&mut context) {
        Poll::Ready(message) => message.map(|it| match it.as_delivery() {
            Delivery::Event(event, _) => event.line,
            other => panic!("{other:?}"),
        }),
        Poll::Pending => None,
    }
}

#[test]
fn drop_oldest_counts_no_loss_where_nothing_was_dropped() {
    let (topic, later) = (plain(), Later::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (publishing, log) = (topic.clone(), Arc::clone(&heard));
    let oldest = topic.subscribe().overflow(Overflow::DropOldest);
    let watch = oldest.capacity(2).on(&later).start(move |delivery| {
        let number = number(&delivery);
        log.lock().unwrap().push(number);
        if number < 0 {
            // The turn has taken two events, and none is queued.
            assert_eq!(publishing.publish(level(3, 0)), delivered(1));
        }
    });
    let lost = |line| topic.publish(level(line, 0)).lost;
    assert_eq!((0..3).map(lost).sum::<u64>(), 1);
    later.run_all();
    assert_eq!(*heard.lock().unwrap(), [-1, 1, 2, 3]);
    assert_eq!((watch.lost(), topic.stats().lost), (1, 1));
}

/// Four events fill the queue. While the turn delivers them, all later events are lost
/// and come from the cache.
#[test]
fn a_subscription_that_is_brought_up_to_date_has_room() {
    const KEYS: u32 = 4_000;
    let (topic, later) = (cached(), Later::default());
    let (publishing, mut replayed_count) = (topic.clone(), 0);
    let (told, published) = mpsc::channel();
    let replay = topic.subscribe().replay().capacity(4).on(&later);
    let watch = replay.start(move |delivery| match delivery {
        Delivery::Event(event, _) if event.line == 0 => {
            for line in 4..KEYS {
                let _ = publishing.publish(level(line, 0));
            }
        }
        Delivery::Event(event, _) if event.line > 16 => {
            replayed_count += 1;
            if replayed_count == 2 {
                told.send(publishing.publish(level(event.line, 1))).unwrap();
            }
        }
        _ => {}
    });
    later.run_all();
    (0..4).for_each(|line| assert_eq!(topic.publish(level(line, 0)), delivered(1)));
    later.run_all();
    assert_eq!(published.try_recv(), Ok(delivered(1)));
    assert_eq!(watch.queued_len(), 0);
}

#[test]
fn no_publisher_waits_for_a_replay_from_the_cache() {
    let pool = TaskPool::builder().workers(1).maximum(1).build().unwrap();
    let topic = cached();
    for line in 0..2_000 {
        let _ = topic.publish(level(line, 0));
    }
    let (go_on, wait) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel();
    let wait = Mutex::new(wait);
    let blocks = topic.subscribe().replay().overflow(Overflow::Block);
    let watch = blocks.capacity(1).on(&pool).start(move |_| {
        let _ = began.send(());
        let _ = wait.lock().unwrap().recv();
    });
    has_begun.recv_timeout(DEADLINE).unwrap();
    let (told, published) = mpsc::channel();
    let publishing = topic.clone();
    let publisher = thread::spawn(move || told.send(publishing.publish(level(0, 1)).lost));
    let lost = published.recv_timeout(DEADLINE);
    drop(go_on);
    publisher.join().unwrap().unwrap();
    assert_eq!(lost, Ok(0), "it waits for the replay");
    drop(watch);
    assert!(pool.shutdown(DEADLINE).is_clean());
}

/// The predicate runs when the turn has emptied the queue, before it delivers anything.
#[test]
fn an_end_while_a_subscription_catches_up_counts_the_queued_events() {
    let (topic, later) = (cached(), Later::default());
    let (is_due, ended_count) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (due, count, executor) = (Arc::clone(&is_due), Arc::clone(&ended_count), later.clone());
    let wanted = topic.subscribe().replay().matching(move |_: &Level| {
        if due.swap(false, Ordering::Relaxed) {
            count.store(executor.end(), Ordering::Relaxed);
        }
        true
    });
    let heard_count = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&heard_count);
    let watch = wanted.capacity(4).on(&later).start(move |delivery| {
        heard.fetch_add(
            u64::from(!matches!(delivery, Delivery::Replayed)),
            Ordering::Relaxed,
        );
    });
    later.run_all();
    let lost = |line| topic.publish(level(line, 0)).lost;
    assert_eq!((0..5).map(lost).sum::<u64>(), 1);
    is_due.store(true, Ordering::Relaxed);
    later.run_all();
    assert_eq!(ended_count.load(Ordering::Relaxed), 4);
    assert_eq!(heard_count.load(Ordering::Relaxed), 0);
    assert_eq!((watch.lost(), watch.queued_len()), (5, 0));
}

#[test]
fn an_end_after_a_panic_counts_all_events_that_were_not_delivered() {
    for panicking in [1, 15, 20, 39] {
        let (topic, later) = (plain(), Later::default());
        let watch = topic.subscribe().on(&later).start(move |delivery| {
            assert_ne!(number(&delivery), panicking, "on purpose");
        });
        (0..40).for_each(|line| assert_eq!(topic.publish(level(line, 0)), delivered(1)));
        assert!(catch_unwind(AssertUnwindSafe(|| later.run_all())).is_err());
        let rest = 39 - u64::try_from(panicking).unwrap();
        assert_eq!(watch.queued_len() as u64, rest);
        assert_eq!((later.end(), watch.lost()), (rest, rest));
        later.run_all();
    }
}

/// Events claimed before the end are delivered, unless a panic prevents it.
#[test]
fn a_panic_after_the_end_counts_the_claimed_events() {
    let (topic, later) = (plain(), Later::default());
    let (executor, ended_count) = (later.clone(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&ended_count);
    let watch = topic.subscribe().on(&later).start(move |delivery| {
        if number(&delivery) == 20 {
            count.store(executor.end(), Ordering::Relaxed);
            panic!("on purpose");
        }
    });
    (0..40).for_each(|line| assert_eq!(topic.publish(level(line, 0)), delivered(1)));
    assert!(catch_unwind(AssertUnwindSafe(|| later.run_all())).is_err());
    later.run_all();
    assert!(ended_count.load(Ordering::Relaxed) < 19);
    assert_eq!((watch.lost(), watch.queued_len()), (19, 0));
}

#[test]
fn nothing_waits_for_a_subscription_that_has_ended() {
    let (topic, later) = (plain(), Later::default());
    let executor = later.clone();
    let watch = topic.subscribe().on(&later).start(move |delivery| {
        if number(&delivery) == 0 {
            assert_eq!(executor.end(), 2);
        }
    });
    (0..3).for_each(|line| assert_eq!(topic.publish(level(line, 0)), delivered(1)));
    later.run_all();
    assert_eq!((watch.queued_len(), watch.lost()), (0, 2));
    assert_eq!(topic.stats().slowest_queued_len, 0);
}

#[test]
fn a_stream_delivers_once_what_waits_in_it_also_after_its_end() {
    let (topic, later) = (plain(), Later::default());
    let mut stream = topic.subscribe().on(&later).stream();
    (0..3).for_each(|line| assert_eq!(topic.publish(level(line, 0)), delivered(1)));
    assert_eq!(poll(&mut stream), Some(0));
    assert_eq!(stream.queued_len(), 2);
    assert_eq!(topic.publish(level(3, 0)), delivered(1));
    assert_eq!(stream.queued_len(), 3);
    assert_eq!(later.end(), 0);
    assert_eq!(
        [(); 4].map(|()| poll(&mut stream)),
        [Some(1), Some(2), Some(3), None]
    );
    assert_eq!(
        (stream.queued_len(), topic.stats().slowest_queued_len),
        (0, 0)
    );
}

/// The turn reads the clock when it begins, and before each stride but the
/// first.
#[test]
fn a_turn_of_one_event_reads_the_clock_once() {
    let (topic, later) = (plain(), Later::default());
    let clock = Clock::simulated(UnixTime::from_secs(0));
    *later.0.clock.lock().unwrap() = Some(clock);
    let _watch = topic.subscribe().on(&later).start(|_| ());
    assert_eq!(topic.publish(level(1, 0)), delivered(1));
    later.run_all();
    assert_eq!(later.0.looks.load(Ordering::Relaxed), 1);
}
