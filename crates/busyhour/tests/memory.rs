//! The memory of 100,000 timers, serializers, subscriptions and keys of a topic, in bytes of each:
//! `cargo test --release -p busyhour --test memory -- --nocapture` prints the figures of
//! docs/book/src/library/costs.md. Counted is what is asked of the allocator.

use busyhour::{
    bus::{Event, Packing, Subscription, Topic},
    clock::{Clock, Instant, UnixTime},
    pool::TaskPool,
    task::Executor,
    timer::{TimerQueue, Timers},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    hint::black_box,
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
    let deadline = |number| Instant::from_nanos(1 + scatter(number) % MINUTE_NS);
    report("a timer of a queue, with 8 bytes for its value", 26, || {
        let mut queue = TimerQueue::new();
        (0..COUNT).for_each(|number| _ = queue.add(deadline(number), number));
        queue
    });
    service_timers::<2>("a timer of the service, closure of 16 bytes", 76);
    service_timers::<6>("a timer of the service, closure of 48 bytes", 135);
}

/// Their closures hold so many words.
fn service_timers<const WORDS: usize>(what: &str, most: isize) {
    let clock = Clock::simulated(UnixTime::default());
    let pool = Arc::new(TaskPool::simulated(1, clock.clone()));
    report(what, most, || {
        let timers = Timers::builder().clock(clock).shards(1).build();
        for number in 0..COUNT {
            let wait = Duration::from_nanos(1 + scatter(number) % MINUTE_NS);
            let (timer, held) = (timers.timer().after(wait), [number; WORDS]);
            let timer = timer.on_shared(Arc::clone(&pool) as Arc<dyn Executor>);
            assert!(timer.run(move || _ = black_box(held)).is_ok());
        }
        timers
    });
}

fn serializers() {
    let pool = TaskPool::builder().workers(1).build().unwrap();
    report(
        "an idle serializer without a name, its handle of 8 among them",
        210,
        || (0..COUNT).map(|_| pool.ephemeral()).collect::<Vec<_>>(),
    );
}

fn subscriptions() {
    let topic = Topic::<Shared>::builder("subscribed").build();
    report(
        "a subscription to a key, its handle among them",
        1_500,
        || {
            (0..COUNT)
                .map(|key| topic.subscribe().key(key).start(|_| ()))
                .collect::<Vec<Subscription<_>>>()
        },
    );
}

fn keys() {
    report("a cached key with an event of 16 bytes", 75, || {
        let topic = Topic::<Shared>::builder("cached").cached().build();
        (0..COUNT).for_each(|key| _ = topic.publish(Shared { key, value: key }));
        topic
    });
    report("the same with a packed event of two words", 97, || {
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
