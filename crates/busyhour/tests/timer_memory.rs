//! How much memory a timer queue and a service allocate.

use busyhour::{
    clock::{Clock, Instant, UnixTime},
    pool::TaskPool,
    task::{Executor, Rejected, Task},
    timer::{AddError, Cancel, QueueHandle, TimerBuilder, TimerQueue, Timers},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Arc,
    time::Duration,
};

/// The system's allocator, with a count of the memory that the calling thread
/// has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the
// counters are constants of the thread and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_pending_timer_takes_less_than_64_bytes_beside_its_value() {
    for count in [1_000, 10_000, 100_000, 1_000_000] {
        let before = BYTES.get();
        let mut queue = filled(count);
        let unsorted = (BYTES.get() - before) / count as isize;
        assert_eq!(queue.pop_due(Instant::ZERO), None);
        // The first pop sorts the timers into buckets.
        assert!(queue.pop_due(Instant::FAR_FUTURE).is_some());
        let sorted = (BYTES.get() - before) / count as isize;
        println!("{count} timers: {unsorted} bytes each, {sorted} when sorted");
        let value = size_of::<u64>() as isize;
        assert!(unsorted - value <= 64 && sorted - value <= 64);
    }
}

#[test]
fn the_memory_of_a_burst_is_returned() {
    let mut queue = filled(100);
    let before = BYTES.get();
    let burst: Vec<QueueHandle> = (0..500_000).map(|n| add(&mut queue, n)).collect();
    let peak = BYTES.get() - before;
    for handle in burst {
        assert!(queue.cancel(handle).is_some());
    }
    let left = BYTES.get() - before;
    assert!(
        left < peak / 20,
        "{left} of {peak} bytes stay after cancels"
    );

    (0..500_000).for_each(|n| {
        add(&mut queue, n);
    });
    // The last ones lie at random places, each in a chunk of its own.
    while queue.len() > 10 {
        assert!(queue.pop_due(Instant::FAR_FUTURE).is_some());
    }
    let left = BYTES.get() - before;
    assert!(left < peak / 10, "{left} of {peak} bytes stay after expiry");
}

#[test]
fn a_steady_state_allocates_nothing_per_timer() {
    let mut queue = TimerQueue::new();
    let mut handles: Vec<QueueHandle> = (0..1_000).map(|n| add(&mut queue, n)).collect();
    let mut turn = |queue: &mut TimerQueue<u64>, n: u64| {
        let place = (scatter(n) % 1_000) as usize;
        queue.cancel(handles[place]);
        let deadline = Instant::from_nanos(n * 50_000 + scatter(n) % 60_000_000);
        handles[place] = queue.add(deadline, n);
        queue.reschedule(handles[place], deadline);
        queue.pop_due(Instant::from_nanos(n * 50_000));
    };
    (0..20_000).for_each(|n| turn(&mut queue, n));
    let before = CALLS.get();
    (20_000..220_000).for_each(|n| turn(&mut queue, n));
    let calls = CALLS.get() - before;
    println!("{calls} allocations in 200,000 turns");
    assert!(calls <= 2_000, "{calls} allocations in 200,000 turns");
}

#[test]
fn the_service_allocates_nothing_per_timer_in_a_steady_state() {
    struct Inline;

    impl Executor for Inline {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            task.run();
            Ok(())
        }
    }

    let executor: Arc<dyn Executor> = Arc::new(Inline);
    run_in_a_steady_state(
        &Clock::simulated(UnixTime::default()),
        |timer| timer.on_shared(Arc::clone(&executor)),
        || (),
    );
}

#[test]
fn timers_on_a_serializer_allocate_nothing_either() {
    let clock = Clock::simulated(UnixTime::default());
    let pool = TaskPool::simulated(1, clock.clone());
    let calls = pool.serializer("calls").build().unwrap();
    let device = pool.ephemeral();
    let step = || while pool.step() {};
    run_in_a_steady_state(&clock, |timer| timer.on(&calls), step);
    run_in_a_steady_state(&clock, |timer| timer.on(&device), step);
}

#[test]
fn timers_on_a_pool_allocate_nothing_either() {
    let clock = Clock::simulated(UnixTime::default());
    let pool = TaskPool::simulated(1, clock.clone());
    let (shared, step) = (Arc::new(pool.clone()), || while pool.step() {});
    run_in_a_steady_state(&clock, |timer| timer.on(&pool), step);
    run_in_a_steady_state(&clock, |timer| timer.on(&shared), step);
}

#[test]
fn timers_that_are_refused_or_lost_give_the_memory_of_their_callbacks_back() {
    struct Drops;

    impl Executor for Drops {
        fn execute(&self, _task: Task) -> Result<(), Rejected> {
            Ok(())
        }
    }

    let clock = Clock::simulated(UnixTime::default());
    let timers = Timers::builder().clock(clock.clone()).shards(1);
    let timers = timers.capacity(50).build();
    let executor: Arc<dyn Executor> = Arc::new(Drops);
    let add = || {
        let held = [7_u64; Task::INLINE_BYTES / 8];
        let timer = timers.timer().after(Duration::from_millis(1));
        let timer = timer.on_shared(Arc::clone(&executor));
        timer.run(move || assert_eq!(held[0], 7))
    };
    let turn = || {
        (0..50).for_each(|_| _ = add().unwrap());
        (0..50).for_each(|_| assert_eq!(add().unwrap_err(), AddError::Full));
        let controls = clock.as_virtual().unwrap();
        controls.advance(Duration::from_millis(1));
        assert_eq!(timers.run_due(clock.now()), 50);
    };
    (0..20).for_each(|_| turn());
    let before = CALLS.get();
    turn();
    let calls = CALLS.get() - before;
    assert!(calls < 10, "{calls} allocations for 100 timers");
    assert_eq!(timers.stats().lost, 21 * 50);
}

/// Adds, cancels and expires timers of the service, and counts its allocations.
/// `on` is where a timer runs, and `step` lets it run.
fn run_in_a_steady_state(
    clock: &Clock,
    on: impl for<'a> Fn(TimerBuilder<'a, ()>) -> TimerBuilder<'a, Arc<dyn Executor>>,
    step: impl Fn(),
) {
    let timers = Timers::builder().clock(clock.clone()).shards(1).build();
    let add = |n: u64| {
        let timer = timers.timer().after(Duration::from_millis(1 + n % 50));
        let timer = on(timer.label("steady").owner(n % 3));
        let added = match n % 2 {
            0 => timer.run(|| ()),
            // The largest callback that is promised to need no allocation.
            _ => {
                let held = [n; Task::INLINE_BYTES / 8];
                timer.run(move || assert_eq!(held[0], held[held.len() - 1]))
            }
        };
        added.unwrap()
    };
    let turn = |n: u64| {
        let timer = add(n);
        if n % 3 != 0 {
            assert_eq!(timers.cancel(&timer), Cancel::Prevented);
        }
        if n % 100 == 0 {
            clock
                .as_virtual()
                .unwrap()
                .advance(Duration::from_millis(1));
            timers.run_due(clock.now());
            step();
        }
    };
    // These owners always have a timer, so that their lists stay.
    (0..3).for_each(|owner| {
        let timer = timers.timer().owner(owner).after(Duration::from_secs(9999));
        on(timer).run(|| ()).unwrap();
    });
    (0..20_000).for_each(turn);
    let before = CALLS.get();
    (20_000..70_000).for_each(turn);
    let calls = CALLS.get() - before;
    println!("{calls} allocations in 50,000 turns of the service");
    assert!(calls <= 5_000, "{calls} allocations in 50,000 turns");
    assert!(timers.stats().expired > 10_000);
}

fn filled(count: u64) -> TimerQueue<u64> {
    let mut queue = TimerQueue::new();
    (0..count).for_each(|n| {
        add(&mut queue, n);
    });
    queue
}

fn add(queue: &mut TimerQueue<u64>, n: u64) -> QueueHandle {
    let deadline = 1 + scatter(n) % 60_000_000_000;
    queue.add(Instant::from_nanos(deadline), n)
}

fn scatter(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}
