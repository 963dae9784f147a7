//! The `timers` scenarios.

use std::{
    hint::black_box,
    sync::{Barrier, Mutex},
    time::{Duration, Instant},
};

use crate::{Args, Output, Random};

/// A structure of timers that one thread uses.
pub trait Timers {
    type Handle;

    /// Adds timer number `id`, due `deadline_ns` after the start of virtual time.
    fn add(&mut self, deadline_ns: u64, id: u64) -> Self::Handle;

    /// Cancels a timer; returns whether it was still there.
    fn cancel(&mut self, handle: Self::Handle) -> bool;

    /// Does the work that cancelling has put off.
    fn purge(&mut self) {}

    /// Expires all timers in the structure's order; the virtual time is the end of the
    /// window.
    fn expire_all(&mut self, on_expire: impl FnMut(u64, u64));

    fn len(&self) -> u64;
}

/// Runs `timers` with a new structure.
pub fn run<T: Timers>(args: &Args, make: impl FnOnce() -> T) {
    let n = args.number("n");
    let mut random = Random::new(args.number("seed"));
    let deadlines: Vec<u64> = (0..n).map(|_| random.next() % WINDOW_NS).collect();
    let mut order: Vec<usize> = (0..n as usize).collect();
    random.shuffle(&mut order);
    let mut bench = Bench {
        timers: make(),
        deadlines,
        order,
        spent: Spent::default(),
        tally: Tally::default(),
    };
    let repeats = (REPEAT_UNTIL / n.max(1)).max(1);
    if repeats > 1 {
        bench.repeat();
        bench.spent = Spent::default();
    }
    (0..repeats).for_each(|_| bench.repeat());
    bench.report((repeats * n) as f64);
}

struct Bench<T: Timers> {
    timers: T,
    deadlines: Vec<u64>,
    order: Vec<usize>,
    spent: Spent,
    tally: Tally,
}

#[derive(Default)]
struct Spent {
    add: Duration,
    cancel: Duration,
    purge: Duration,
    add_again: Duration,
    expire: Duration,
}

#[derive(Default)]
struct Tally {
    cancelled: u64,
    expired: u64,
    deadline_sum: u64,
    order_hash: u64,
}

impl<T: Timers> Bench<T> {
    fn repeat(&mut self) {
        self.tally = Tally {
            order_hash: FNV_OFFSET,
            ..Tally::default()
        };
        self.cancelled_life();
        self.expired_life();
    }

    fn cancelled_life(&mut self) {
        let mut handles: Vec<Option<T::Handle>> = Vec::with_capacity(self.deadlines.len());
        let begin = Instant::now();
        for (id, deadline) in self.deadlines.iter().enumerate() {
            handles.push(Some(self.timers.add(*deadline, id as u64)));
        }
        self.spent.add += begin.elapsed();
        self.cancel_all(&mut handles);
    }

    /// A function of its own, so that `scripts/profile.sh` can count it alone.
    #[inline(never)]
    fn cancel_all(&mut self, handles: &mut [Option<T::Handle>]) {
        let begin = Instant::now();
        for index in &self.order {
            if let Some(handle) = handles[*index].take() {
                self.tally.cancelled += u64::from(self.timers.cancel(handle));
            }
        }
        self.spent.cancel += begin.elapsed();
        let begin = Instant::now();
        self.timers.purge();
        self.spent.purge += begin.elapsed();
    }

    fn expired_life(&mut self) {
        let begin = Instant::now();
        for (id, deadline) in self.deadlines.iter().enumerate() {
            black_box(self.timers.add(*deadline, id as u64));
        }
        self.spent.add_again += begin.elapsed();
        self.expire_all();
    }

    /// As `cancel_all`.
    #[inline(never)]
    fn expire_all(&mut self) {
        let tally = &mut self.tally;
        let begin = Instant::now();
        self.timers.expire_all(|deadline, id| {
            tally.expired += 1;
            tally.deadline_sum = tally.deadline_sum.wrapping_add(deadline);
            tally.order_hash = (tally.order_hash ^ id).wrapping_mul(FNV_PRIME);
        });
        self.spent.expire += begin.elapsed();
    }

    fn report(&self, count: f64) {
        let mut output = Output::default();
        let each = |spent: Duration| spent.as_nanos() as f64 / count;
        let spent = &self.spent;
        output.figure("add_ns", each(spent.add));
        output.figure("cancel_ns", each(spent.cancel));
        output.figure("purge_ns", each(spent.purge));
        output.figure("expire_ns", each(spent.expire));
        output.figure(
            "cancelled_life_ns",
            each(spent.add + spent.cancel + spent.purge),
        );
        output.figure("expired_life_ns", each(spent.add_again + spent.expire));
        output.check("cancelled", self.tally.cancelled);
        output.check("expired", self.tally.expired);
        output.check("remaining", self.timers.len());
        output.check("deadline_sum", self.tally.deadline_sum);
        output.check("order_hash", self.tally.order_hash);
        output.finish();
    }
}

/// A service of timers that several threads use at once.
pub trait SharedTimers: Sync {
    type Handle: Send;

    fn add(&self, deadline_ns: u64, id: u64) -> Self::Handle;
    fn cancel(&self, handle: Self::Handle) -> bool;
    fn len(&self) -> u64;
}

/// Runs `timers-shared`.
pub fn run_shared<T: SharedTimers>(args: &Args, timers: &T) {
    let (n, threads) = (args.number("n"), args.number("threads") as usize);
    let rendezvous = Barrier::new(threads);
    let exchange: Vec<Mutex<Vec<T::Handle>>> = (0..threads).map(|_| Default::default()).collect();
    let cancelled = std::sync::atomic::AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for me in 0..threads {
            let (rendezvous, exchange, cancelled) = (&rendezvous, &exchange, &cancelled);
            let mut random = Random::new(args.number("seed") + me as u64);
            scope.spawn(move || {
                let mine = (0..n)
                    .map(|id| timers.add(random.next() % WINDOW_NS, id))
                    .collect();
                *exchange[me].lock().unwrap() = mine;
                rendezvous.wait();
                let theirs = std::mem::take(&mut *exchange[(me + 1) % threads].lock().unwrap());
                let count = theirs
                    .into_iter()
                    .filter_map(|handle| timers.cancel(handle).then_some(()))
                    .count();
                cancelled.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
            });
        }
    });
    let total = n * threads as u64;
    let mut output = Output::default();
    output.figure(
        "mtimers_per_s",
        total as f64 / begin.elapsed().as_secs_f64() / 1e6,
    );
    output.check("added", total);
    output.check("cancelled", cancelled.into_inner());
    output.check("remaining", timers.len());
    output.finish();
}

/// A structure of timers behind one lock, for structures that threads cannot share
/// otherwise.
#[derive(Default)]
pub struct Locked<T>(Mutex<T>);

impl<T> SharedTimers for Locked<T>
where
    T: Timers<Handle: Send> + Send,
{
    type Handle = T::Handle;

    fn add(&self, deadline_ns: u64, id: u64) -> T::Handle {
        self.0.lock().unwrap().add(deadline_ns, id)
    }

    fn cancel(&self, handle: T::Handle) -> bool {
        self.0.lock().unwrap().cancel(handle)
    }

    fn len(&self) -> u64 {
        self.0.lock().unwrap().len()
    }
}

pub const WINDOW_NS: u64 = 60_000_000_000;
const REPEAT_UNTIL: u64 = 100_000;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
