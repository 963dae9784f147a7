//! The memory of 100,000 timers, serializers, subscriptions and keys of a topic, in bytes of each:
//! `cargo test --release -p busyhour --test memory -- --nocapture` prints the figures of
//! docs/book/src/library/costs.md. Counted is what is asked of the allocator.

use busyhour::{
    bus::{Event, Packing, Subscription, Topic},
    clock::{Clock, UnixTime},
    pool::TaskPool,
    timer::{TimerQueue, Timers},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicIsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// One test only: what another one allocated at the same time would count, too.
#[test]
fn what_each_of_100_000_takes() {
    timers();
    serializers();
    subscriptions();
    keys();
}

fn timers() {
    let deadline = |number| busyhour::clock::Instant::from_nanos(1 + scatter(number) % MINUTE_NS);
    report("a timer of a queue, with 8 bytes for its value", 64, || {
        let mut queue = TimerQueue::new();
        (0..COUNT).for_each(|number| _ = queue.add(deadline(number), number));
        queue
    });
    let clock = Clock::simulated(UnixTime::default());
    let pool = Arc::new(TaskPool::simulated(1, clock.clone()));
    let wait = |number| Duration::from_nanos(1 + scatter(number) % MINUTE_NS);
    let timer = |timers: &Timers, number| {
        timers
            .timer()
            .after(wait(number))
            .on_shared(Arc::clone(&pool) as _)
    };
    report("a timer of the service, closure of 16 bytes", 80, || {
        let timers = Timers::builder().clock(clock.clone()).shards(1).build();
        for number in 0..COUNT {
            let held = [number; 2];
            let added = timer(&timers, number).run(move || drop(std::hint::black_box(held)));
            assert!(added.is_ok());
        }
        timers
    });
    report("a timer of the service, closure of 48 bytes", 136, || {
        let timers = Timers::builder().clock(clock.clone()).shards(1).build();
        for number in 0..COUNT {
            let held = [number; 6];
            let added = timer(&timers, number).run(move || drop(std::hint::black_box(held)));
            assert!(added.is_ok());
        }
        timers
    });
}

fn serializers() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    report("an idle serializer without a name", 200, || {
        (0..COUNT).map(|_| pool.ephemeral()).collect::<Vec<_>>()
    });
}

fn subscriptions() {
    let topic = Topic::<Shared>::builder("subscribed").build();
    report("a subscription to a key", 1_500, || {
        (0..COUNT)
            .map(|key| topic.subscribe().key(key).start(|_| ()))
            .collect::<Vec<Subscription<_>>>()
    });
}

fn keys() {
    report("a cached key with an event of 16 bytes", 200, || {
        let topic = Topic::<Shared>::builder("cached").cached().build();
        (0..COUNT).for_each(|key| _ = topic.publish(Shared { key, value: key }));
        topic
    });
    report("the same with a packed event of two words", 250, || {
        let topic = Topic::<Packed>::builder("packed").cached().build();
        (0..COUNT).for_each(|key| _ = topic.publish(Packed(Shared { key, value: key })));
        topic
    });
}

/// Prints the bytes that each of 100,000 takes, which `make` makes, and expects `most` at most.
fn report<T>(what: &str, most: isize, make: impl FnOnce() -> T) {
    let before = BYTES_IN_USE.load(SeqCst);
    let made = make();
    let each = (BYTES_IN_USE.load(SeqCst) - before) as f64 / COUNT as f64;
    println!("{each:7.1} {what}");
    assert!(each <= most as f64, "{what}: {each} bytes, not {most}");
    drop(made);
}

#[derive(Clone)]
struct Shared {
    key: u64,
    value: u64,
}

impl Event for Shared {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.key
    }
}

#[derive(Clone)]
struct Packed(Shared);

impl Event for Packed {
    type Key = u64;

    const PACKING: Option<Packing<Self>> = Some(Packing::new(
        2,
        |packed| [packed.0.key, packed.0.value, 0],
        |[key, value, _]| Packed(Shared { key, value }),
    ));

    fn key(&self) -> &u64 {
        &self.0.key
    }
}

fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

/// The system's allocator, with a count of the bytes that the process has in use.
struct Counting;

static BYTES_IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES_IN_USE.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        BYTES_IN_USE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COUNT: u64 = 100_000;
const MINUTE_NS: u64 = 60_000_000_000;
