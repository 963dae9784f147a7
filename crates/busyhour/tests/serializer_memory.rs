//! How much memory serializers and waiting tasks use, counted at the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use busyhour::{
    pool::TaskPool,
    serializer::{Serializer, ShutdownGroup},
    task::Overflow,
};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), SeqCst);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> usize {
    LIVE_BYTES.load(SeqCst)
}

/// Runs one test at a time, since they share the counter.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scale() -> usize {
    env::var("BUSYHOUR_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

/// A million serializers with `BUSYHOUR_TEST_SCALE=10`.
#[test]
fn an_idle_serializer_costs_200_bytes_at_most() {
    let _alone = alone();
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let count = 100_000 * scale().min(10);
    let mut devices = Vec::with_capacity(count);
    let before = live_bytes();
    devices.extend((0..count).map(|_| pool.ephemeral()));
    let each = (live_bytes() - before) / count;
    assert!(each <= 200, "{each} bytes");
    for device in &devices {
        device.push(|| ()).unwrap();
    }
    wait_until("all have run", || devices.iter().all(Serializer::is_idle));
    drop(devices);
}

/// 300,000 serializers with `BUSYHOUR_TEST_SCALE=10`, in bursts of a thousand.
#[test]
fn memory_is_back_at_its_base_after_bursts_of_short_lives() {
    let _alone = alone();
    let pool = TaskPool::builder().workers(2).build().unwrap();
    let (mut processed, burst) = (0, |pool: &TaskPool| {
        for _ in 0..1000 {
            let device = pool.ephemeral();
            (0..5).for_each(|_| device.push(|| ()).unwrap());
        }
    });
    burst(&pool);
    processed += 5000;
    wait_until("the first burst has run", || {
        pool.stats().processed == processed
    });
    let base = live_bytes();
    for _ in 0..30 * scale().min(10) {
        burst(&pool);
        processed += 5000;
        wait_until("a burst has run", || pool.stats().processed == processed);
    }
    // Queues that have grown may keep memory for some entities.
    wait_until("memory is back", || live_bytes() < base + (256 << 10));
}

/// The members live as long as calls do; the group lives as long as the
/// process.
#[test]
fn a_group_forgets_members_that_are_gone() {
    let _alone = alone();
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let group = ShutdownGroup::new();
    let member = || pool.serializer("call").group(&group).build().unwrap();
    (0..100).for_each(|_| drop(member()));
    let base = live_bytes();
    (0..10_000).for_each(|_| drop(member()));
    let kept = live_bytes().saturating_sub(base);
    assert!(kept < 64 << 10, "{kept} bytes for 10,000 that are gone");
    let living = member();
    assert_eq!(group.len(), 1);
    drop(living);
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "waiting until {what}"
        );
        thread::yield_now();
    }
}

#[test]
fn a_waiting_task_takes_some_twenty_bytes() {
    let _alone = alone();
    let pool = TaskPool::builder().workers(1).build().unwrap();
    let waiting = pool.serializer("waiting").capacity(WAITING);
    let serializer = waiting.build().unwrap();
    let of_pool = bytes_of_waiting(&pool, |number| pool.push(adding(number)).unwrap());
    // Of its closure, one word, and the address of its code, 16.
    assert!((16.0..20.0).contains(&of_pool), "{of_pool} bytes");
    let of_serializer = bytes_of_waiting(&pool, |number| serializer.push(adding(number)).unwrap());
    // Its list has room for up to twice what it holds.
    let expected = 16.0..22.0;
    assert!(expected.contains(&of_serializer), "{of_serializer} bytes");
    let conflating = pool.serializer("conflating").capacity(WAITING);
    let conflating = conflating.overflow(Overflow::Conflate).build().unwrap();
    let of_keyed = bytes_of_waiting(&pool, |number| {
        conflating
            .push_keyed(number as u64, adding(number))
            .unwrap();
    });
    // 80 for the task and 17 for the place of its key, each with room for more.
    assert!((97.0..130.0).contains(&of_keyed), "{of_keyed} bytes");
}

const WAITING: usize = 100_000;
static SUM: AtomicUsize = AtomicUsize::new(0);

fn adding(number: usize) -> impl FnOnce() + Send {
    move || {
        SUM.fetch_add(number, SeqCst);
    }
}

/// Bytes a task, of so many that `push` queues behind one that runs.
fn bytes_of_waiting(pool: &TaskPool, push: impl Fn(usize)) -> f64 {
    let (release, held) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    pool.push(move || {
        begins.send(()).unwrap();
        held.recv().ok();
    })
    .unwrap();
    begun.recv().unwrap();
    SUM.store(0, SeqCst);
    let before = live_bytes();
    (0..WAITING).for_each(push);
    let each = (live_bytes() - before) as f64 / WAITING as f64;
    drop(release);
    wait_until("all have run", || {
        SUM.load(SeqCst) == WAITING * (WAITING - 1) / 2
    });
    each
}
