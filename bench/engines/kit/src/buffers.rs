//! The `buffers` scenario.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{Args, Output, Random};

pub const BUFFER_BYTES: usize = 1024;

/// A pool of pinned buffers as C code uses it: by address.
pub trait Pins: Sync {
    /// Takes a buffer of 1 KiB that is pinned once; returns its address.
    fn find(&self) -> usize;
    /// Pins the buffer that contains this address; returns whether there is
    /// one.
    fn pin(&self, address: usize) -> bool;
    fn unpin(&self, address: usize) -> bool;
    fn live_count(&self) -> u64;
}

/// Runs the half of `buffers` that pins.
pub fn run<P: Pins>(args: &Args, pool: &P, clone_drop: Option<&(dyn Fn() + Sync)>) {
    let (live, pairs, threads) = (
        args.number("live"),
        args.number("pairs"),
        args.number("threads"),
    );
    let addresses: Vec<usize> = (0..live).map(|_| pool.find()).collect();
    let failures = AtomicU64::new(0);
    let count = |ok: bool| {
        if !ok {
            failures.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut output = Output::default();
    let find_ns = on_threads(threads, pairs, args.number("seed"), |_| {
        count(pool.unpin(pool.find()))
    });
    output.figure("find_unpin_ns", find_ns);
    let pin_ns = on_threads(threads, pairs, args.number("seed"), |random| {
        let draw = random.next();
        let base = addresses[(draw >> 16) as usize % addresses.len()];
        let address = base + (draw as usize & (BUFFER_BYTES - 1));
        count(pool.pin(address) && pool.unpin(address));
    });
    output.figure("pin_unpin_ns", pin_ns);
    output.figure("mpairs_per_s", threads as f64 * 1e3 / pin_ns);
    if let Some(clone_drop) = clone_drop {
        output.figure(
            "clone_drop_ns",
            on_threads(threads, pairs, 0, |_| clone_drop()),
        );
    }
    output.check("pairs", pairs * threads);
    output.check("live_after", pool.live_count());
    output.check("failures", failures.into_inner());
    output.finish();
}

/// Runs the half that owning handles can do: allocate, clone, drop, drop.
pub fn run_clone_drop(args: &Args, clone_drop: impl Fn() + Sync) {
    let (pairs, threads) = (args.number("pairs"), args.number("threads"));
    let mut output = Output::default();
    output.figure(
        "clone_drop_ns",
        on_threads(threads, pairs, 0, |_| clone_drop()),
    );
    output.check("pairs", pairs * threads);
    output.check("live_after", args.number("live"));
    output.check("failures", 0);
    output.finish();
}

/// The time of one operation, in ns, with `count` operations on each thread: from the
/// first thread's begin to the last one's end, as the threads measure it themselves. The
/// thread that starts them may get its processor only after they have ended.
fn on_threads(threads: u64, count: u64, seed: u64, operation: impl Fn(&mut Random) + Sync) -> f64 {
    let rendezvous = Barrier::new(threads as usize);
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let spawn = |index| {
            let (rendezvous, operation) = (&rendezvous, &operation);
            scope.spawn(move || {
                let mut random = Random::new(seed + index);
                rendezvous.wait();
                let begin = Instant::now();
                (0..count).for_each(|_| operation(&mut random));
                (begin, Instant::now())
            })
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        let ended = running
            .into_iter()
            .map(|thread| thread.join().expect("no operation panics"));
        ended.collect()
    });
    let begin = spans.iter().map(|(begin, _)| *begin).min();
    let end = spans.iter().map(|(_, end)| *end).max();
    let spent = end
        .zip(begin)
        .map_or(0, |(end, begin)| (end - begin).as_nanos());
    spent as f64 / count as f64
}
