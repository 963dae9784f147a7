//! Loom models of the bus's protocols: loom runs each in every order of steps
//! that is possible with a few preemptions. README.md beside this file has the
//! arguments that they check.

use super::{Delivery, Event, EventStream, Message, Packing, Published, Subscription, Topic};
use crate::task::{Deliveries, Executor, Overflow, Rejected, Task};
use futures_core::Stream;
use loom::{
    model::Builder,
    thread::{self, JoinHandle},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// An event that detects when it is used after it was dropped.
#[derive(Debug)]
struct Step {
    key: u64,
    number: u64,
    is_dropped: Arc<AtomicBool>,
}

impl Step {
    /// The flag outlives the model, so that reading it is always valid.
    fn new(number: u64, flags: &Flags) -> Self {
        let is_dropped = Arc::new(AtomicBool::new(false));
        flags.0.lock().unwrap().push(Arc::clone(&is_dropped));
        let key = 7;
        Self {
            key,
            number,
            is_dropped,
        }
    }
}

impl Clone for Step {
    fn clone(&self) -> Self {
        assert!(!self.is_dropped.load(Ordering::SeqCst), "used after a drop");
        let number = self.number;
        // A step within the clone; no other event may get this memory
        // meanwhile.
        thread::yield_now();
        assert_eq!(self.number, number, "another event is in its place");
        assert!(!self.is_dropped.load(Ordering::SeqCst), "dropped meanwhile");
        Self {
            key: self.key,
            number,
            is_dropped: Arc::default(),
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let was_dropped = self.is_dropped.swap(true, Ordering::SeqCst);
        assert!(!was_dropped, "dropped twice");
    }
}

impl Event for Step {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

#[derive(Clone, Default)]
struct Flags(Arc<Mutex<Vec<Arc<AtomicBool>>>>);

/// What a subscription received: numbers of events, 0 for the end of the
/// replay.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u64>>>);

impl Heard {
    fn listen(&self, topic: &Topic<Step>) -> Subscription<Step> {
        let heard = self.clone();
        topic.subscribe().replay().start(move |delivery| {
            let number = match delivery {
                Delivery::Event(step, _) => step.clone().number,
                Delivery::Replayed => 0,
                other => panic!("{other:?}"),
            };
            heard.0.lock().unwrap().push(number);
        })
    }

    fn events(&self) -> Vec<u64> {
        let heard = self.0.lock().unwrap();
        heard.iter().copied().filter(|number| *number > 0).collect()
    }

    fn replay_count(&self) -> usize {
        let heard = self.0.lock().unwrap();
        heard.iter().filter(|number| **number == 0).count()
    }
}

fn topic() -> Topic<Step> {
    Topic::builder("model").cached().small().build()
}

fn publish(topic: &Topic<Step>, number: u64, flags: &Flags) {
    let published = topic.publish(Step::new(number, flags));
    assert_eq!((published.lost, published.refused), (0, false));
}

/// A thread with room for a publish without optimisation: loom's own have 4,096 words of 8 bytes.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = thread::Builder::new().stack_size(STACK_WORDS);
    thread.spawn(run).unwrap()
}

const STACK_WORDS: usize = 32_768;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A lookup finds one of the values that were current, complete and alive,
/// while the writer replaces them and drops what is not read.
#[test]
fn loom_a_lookup_meets_replacements() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        publish(&topic, 1, &flags);
        let reader = {
            let topic = topic.clone();
            spawn(move || topic.get(&7).expect("the key never goes").number)
        };
        publish(&topic, 2, &flags);
        publish(&topic, 3, &flags);
        let found = reader.join().unwrap();
        assert!((1..=3).contains(&found));
        assert_eq!(topic.get(&7).unwrap().number, 3);
        drop(topic);
        let flags = flags.0.lock().unwrap();
        assert!(flags.iter().all(|flag| flag.load(Ordering::SeqCst)));
    });
}

/// Its two words belong together.
#[derive(Clone, Copy)]
struct Packed(u64, u64);

impl Event for Packed {
    type Key = ();

    const PACKING: Option<Packing<Self>> = Some(Packing::new(
        2,
        |packed| [packed.0, packed.1, 0],
        |[first, second, _]| Packed(first, second),
    ));

    fn key(&self) -> &() {
        &()
    }
}

/// A lookup finds the words of one event, while another one takes its place, and the memory of the
/// first one holds the third.
#[test]
fn loom_a_lookup_does_not_mix_the_words_of_two_events() {
    for removes in [false, true] {
        check(move || {
            let topic = Topic::<Packed>::builder("model").cached().small().build();
            let publish = |number: u64| _ = topic.publish(Packed(number, number + 10));
            publish(1);
            let reader = {
                let topic = topic.clone();
                spawn(move || topic.get(&()))
            };
            publish(2);
            if removes {
                _ = topic.remove(&());
            }
            publish(3);
            if !removes {
                publish(4);
            }
            match reader.join().unwrap() {
                Some(Packed(first, second)) => assert_eq!(first + 10, second),
                None => assert!(removes, "the key never goes"),
            }
            let last = topic.get(&()).map(|last| last.0);
            assert_eq!(last, Some(if removes { 3 } else { 4 }));
        });
    }
}

/// Two threads offer one value that is not the last one: one of them publishes it, whether the key
/// has a last value or none.
#[test]
fn loom_one_of_two_publishes_what_both_offer() {
    for is_new in [true, false] {
        check(move || {
            let (topic, flags) = (topic(), Flags::default());
            if !is_new {
                publish(&topic, 1, &flags);
            }
            let offer = |topic: &Topic<Step>, flags: &Flags| {
                let published = topic.publish_if(Step::new(2, flags), |last| last.number != 2);
                published.is_some()
            };
            let other = {
                let (topic, flags) = (topic.clone(), flags.clone());
                spawn(move || offer(&topic, &flags))
            };
            let is_first = offer(&topic, &flags);
            assert_ne!(is_first, other.join().unwrap());
            assert_eq!(topic.get(&7).map(|last| last.number), Some(2));
            drop(topic);
            let flags = flags.0.lock().unwrap();
            assert!(flags.iter().all(|flag| flag.load(Ordering::SeqCst)));
        });
    }
}

/// A subscription that begins during a publish receives the key once and then
/// every change.
#[test]
fn loom_a_replay_meets_a_publish() {
    check(|| {
        let (topic, flags, heard) = (topic(), Flags::default(), Heard::default());
        publish(&topic, 1, &flags);
        let publisher = {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || publish(&topic, 2, &flags))
        };
        let watch = heard.listen(&topic);
        publisher.join().unwrap();
        assert!(watch.is_idle());
        let events = heard.events();
        assert!(events == [1, 2] || events == [2], "{events:?}");
        assert_eq!(heard.replay_count(), 1);
    });
}

/// Two publishers, one of which runs the consumer: no event is left behind.
#[test]
fn loom_no_event_is_left_in_the_mailbox() {
    check(|| {
        let (topic, flags, heard) = (topic(), Flags::default(), Heard::default());
        let watch = heard.listen(&topic);
        // Both on threads of their own: the model's first one has a small stack.
        let publishers = [1, 2].map(|number| {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || publish(&topic, number, &flags))
        });
        for publisher in publishers {
            publisher.join().unwrap();
        }
        assert!(watch.is_idle());
        let mut events = heard.events();
        assert_eq!(
            topic.get(&7).map(|last| last.number),
            events.last().copied()
        );
        events.sort_unstable();
        assert_eq!(events, [1, 2]);
    });
}

/// A publisher that waits for room is woken by the consumer, which takes no
/// lock when it hands an event out.
#[test]
fn loom_a_publisher_that_waits_for_room_is_woken() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let stream = topic.subscribe().capacity(1).overflow(Overflow::Block);
        let mut stream = stream.stream();
        publish(&topic, 1, &flags);
        let publisher = {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || publish(&topic, 2, &flags))
        };
        assert_eq!(poll(&mut stream), Poll::Ready(true));
        publisher.join().unwrap();
        assert_eq!(poll(&mut stream), Poll::Ready(true));
    });
}

/// A publisher that is a future, polled by hand; its waker notes the wake.
struct Publishing {
    future: Pin<Box<dyn Future<Output = Published> + Send>>,
    is_woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Publishing {
    fn new(topic: &Topic<Step>, number: u64, flags: &Flags) -> Self {
        Self {
            future: Box::pin(topic.publish_async(Step::new(number, flags))),
            is_woken: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Published> {
        let waker = Waker::from(Arc::clone(&self.is_woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// What an executor does once nothing else happens any more: it polls a
    /// future that was woken, and no other.
    fn complete(mut self, before: Poll<Published>) {
        if before.is_pending() {
            assert!(self.is_woken.0.load(Ordering::SeqCst), "not woken");
            assert!(self.poll().is_ready(), "woken without room");
        }
    }
}

fn full_stream(topic: &Topic<Step>, flags: &Flags) -> EventStream<Step> {
    let stream = topic.subscribe().capacity(1).overflow(Overflow::Block);
    let stream = stream.stream();
    publish(topic, 1, flags);
    stream
}

/// A future that finds no room while the consumer makes some either sees it or
/// is woken.
#[test]
fn loom_a_future_that_waits_for_room_is_woken() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let mut stream = full_stream(&topic, &flags);
        let mut publishing = Publishing::new(&topic, 2, &flags);
        let publisher = spawn(move || {
            let polled = publishing.poll();
            (publishing, polled)
        });
        assert_eq!(poll(&mut stream), Poll::Ready(true));
        let (publishing, polled) = publisher.join().unwrap();
        publishing.complete(polled);
        assert_eq!(poll(&mut stream), Poll::Ready(true));
    });
}

/// Futures that are dropped while room is made keep no wake from the next one.
/// There are two, since taking an item and beginning its delivery wake one each.
#[test]
fn loom_a_future_that_is_dropped_passes_its_wake_on() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let mut stream = full_stream(&topic, &flags);
        let mut waiting = [2, 3, 4].map(|number| Publishing::new(&topic, number, &flags));
        assert!(waiting.iter_mut().all(|it| it.poll().is_pending()));
        let [first, second, third] = waiting;
        let dropper = spawn(move || drop((first, second)));
        assert_eq!(poll(&mut stream), Poll::Ready(true));
        dropper.join().unwrap();
        third.complete(Poll::Pending);
        assert_eq!(poll(&mut stream), Poll::Ready(true));
    });
}

/// The end of the subscription wakes the future that waits for its room.
#[test]
fn loom_a_future_that_waits_for_room_notices_the_end() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let stream = full_stream(&topic, &flags);
        let mut publishing = Publishing::new(&topic, 2, &flags);
        let publisher = spawn(move || {
            let polled = publishing.poll();
            (publishing, polled)
        });
        drop(stream);
        let (publishing, polled) = publisher.join().unwrap();
        publishing.complete(polled);
    });
}

/// A stream that reads from the cache, polled while a publisher writes: it is woken if anything is
/// left to read, it gets each event at most once and in order, and the last one in any case.
#[test]
fn loom_a_reader_of_the_cache_gets_the_last_event() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let mut stream = topic.subscribe().replay().conflate().stream();
        let is_woken: Arc<Woken> = Arc::default();
        let waker = Waker::from(Arc::clone(&is_woken));
        let mut heard = Vec::new();
        let mut read = |stream: &mut EventStream<Step>| {
            let mut context = Context::from_waker(&waker);
            while let Poll::Ready(Some(message)) = Pin::new(&mut *stream).poll_next(&mut context) {
                match message {
                    Message::Event(step, _) => heard.push(step.number),
                    Message::Replayed => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        read(&mut stream);
        let publisher = {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || (1..=2).for_each(|number| publish(&topic, number, &flags)))
        };
        read(&mut stream);
        publisher.join().unwrap();
        // What an executor does: it polls a task that was woken, and no other.
        if is_woken.0.swap(false, Ordering::SeqCst) {
            read(&mut stream);
        }
        assert!(heard == [1, 2] || heard == [2], "{heard:?}");
        drop(stream);
        drop(topic);
        let flags = flags.0.lock().unwrap();
        assert!(flags.iter().all(|flag| flag.load(Ordering::SeqCst)));
    });
}

/// When `unsubscribe` has returned, the callback does not run any more.
#[test]
fn loom_nothing_is_called_after_unsubscribe() {
    check(|| {
        let (topic, flags) = (topic(), Flags::default());
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let watch = topic.subscribe().start(move |_| {
            assert!(!seen.load(Ordering::SeqCst), "a callback after the end");
            // A step within the callback, so that other threads can run in
            // between.
            thread::yield_now();
            assert!(!seen.load(Ordering::SeqCst), "the end during a callback");
        });
        let publisher = {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || {
                let _ = topic.publish(Step::new(1, &flags));
            })
        };
        watch.unsubscribe();
        ended.store(true, Ordering::SeqCst);
        publisher.join().unwrap();
    });
}

/// An executor that records the deliveries that a shutdown would end.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Option<Weak<dyn Deliveries>>>>);

impl Ends {
    fn end(&self) {
        let deliveries = self.0.lock().unwrap().clone();
        let _ = deliveries.and_then(|it| it.upgrade()).map(|it| it.end());
    }
}

impl Executor for Ends {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        *self.0.lock().unwrap() = Some(deliveries);
        true
    }
}

fn poll(stream: &mut EventStream<Step>) -> Poll<bool> {
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(stream).poll_next(&mut context);
    polled.map(|message| message.is_some())
}

/// A stream delivers what was published before its end, and then ends.
#[test]
fn loom_a_stream_tells_its_end_last() {
    check(|| {
        let (topic, flags, ends) = (topic(), Flags::default(), Ends::default());
        let mut stream = topic.subscribe().on(&ends).stream();
        let publisher = {
            let (topic, flags) = (topic.clone(), flags.clone());
            spawn(move || {
                publish(&topic, 1, &flags);
                ends.end();
            })
        };
        let first = poll(&mut stream);
        assert_ne!(first, Poll::Ready(false), "the end before the event");
        publisher.join().unwrap();
        let is_heard = first == Poll::Ready(true);
        assert!(is_heard || poll(&mut stream) == Poll::Ready(true));
        assert_eq!(poll(&mut stream), Poll::Ready(false));
    });
}
