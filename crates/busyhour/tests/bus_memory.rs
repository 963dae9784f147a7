//! When topics, subscriptions and names have come and gone, no byte of their
//! memory is in use.

use busyhour::bus::{Event, Name, Topic};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
};

/// The system's allocator, with a count of the bytes that each thread has in
/// use. The count is by thread, so memory of the test harness is not counted.
struct Counting;

thread_local! {
    static BYTES_IN_USE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    BYTES_IN_USE.set(BYTES_IN_USE.get() + bytes);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone)]
struct Call {
    line: Name,
    number: u64,
}

impl Event for Call {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.line
    }
}

fn call(number: u64) -> Call {
    let line = Name::from(format!("SIP/line-{number}"));
    Call { line, number }
}

/// Uses a topic of its own for one call, with one subscription.
fn short_life(number: u64) {
    let (topic, call) = (Topic::ephemeral(), call(number));
    let held = vec![0_u8; 100];
    let watch = topic.subscribe().key(call.line.clone());
    let watch = watch.start(move |_| {
        black_box(&held);
    });
    assert_eq!(topic.publish(call).delivered, 1);
    watch.unsubscribe();
}

/// Publishes a key and subscribes to it, on a topic that stays.
fn guest(topic: &Topic<Call>, number: u64) {
    let call = call(number);
    let key = call.line.clone();
    let held = vec![0_u8; 100];
    let watch = topic.subscribe().key(key.clone()).replay();
    let watch = watch.start(move |_| {
        black_box(&held);
    });
    assert_eq!(topic.publish(call).delivered, 1);
    assert_eq!(topic.get(&key).map(|call| call.number), Some(number));
    watch.unsubscribe();
    assert_eq!(topic.remove(&key).key_count, 1);
}

/// How many more bytes are in use after `life` ran `count` times.
fn growth(count: u64, life: impl Fn(u64)) -> isize {
    let before = BYTES_IN_USE.get();
    (0..count).for_each(life);
    BYTES_IN_USE.get() - before
}

/// One test only: the allocations of another test in this process would count,
/// too.
#[test]
fn a_hundred_thousand_short_lived_topics_leave_no_byte() {
    // Whatever is allocated once in a process is allocated by these.
    (0..1_000).for_each(short_life);
    assert_eq!(growth(100_000, short_life), 0, "ephemeral topics");
    // From here on, names of events that wait to be dropped are alive, and the
    // interner's tables may grow by the names that are made meanwhile.
    let lasting = Topic::builder("lasting").cached().build();
    (0..1_000).for_each(|number| guest(&lasting, number));
    let left = growth(100_000, |number| guest(&lasting, number));
    assert!(
        left <= LASTING_SLACK_BYTES,
        "{left} bytes on a lasting topic"
    );
    let crowd = growth(1, |_| {
        let topic = Topic::builder("crowd").cached().build();
        let watches: Vec<_> = (0..20_000)
            .map(|number| topic.subscribe().key(call(number).line).start(|_| ()))
            .collect();
        for number in 0..20_000 {
            assert_eq!(topic.publish(call(number)).delivered, 1);
        }
        drop(watches);
    });
    assert!(crowd <= INTERNER_SLACK_BYTES, "{crowd} bytes after a crowd");
}

/// Replaced events of a cached topic are freed in batches, so the last events
/// of each of its 64 shards may still wait.
const LASTING_SLACK_BYTES: isize = 64 * 64 * 256;

/// The interner's tables keep room for a few names each.
const INTERNER_SLACK_BYTES: isize = 64 * 1024;
