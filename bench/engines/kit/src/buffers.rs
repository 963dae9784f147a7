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
    let mut output = Output::default();
    let find_ns = on_threads(threads, args.number("seed"), |_| {
        find_pairs(pool, pairs, &failures)
    });
    output.figure("find_unpin_ns", find_ns / pairs as f64);
    let pin_ns = on_threads(threads, args.number("seed"), |random| {
        pin_pairs(pool, &addresses, random, pairs, &failures)
    }) / pairs as f64;
    output.figure("pin_unpin_ns", pin_ns);
    output.figure("mpairs_per_s", threads as f64 * 1e3 / pin_ns);
    if let Some(clone_drop) = clone_drop {
        let all_ns = on_threads(threads, 0, |_| (0..pairs).for_each(|_| clone_drop()));
        output.figure("clone_drop_ns", all_ns / pairs as f64);
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
    let all_ns = on_threads(threads, 0, |_| (0..pairs).for_each(|_| clone_drop()));
    output.figure("clone_drop_ns", all_ns / pairs as f64);
    output.check("pairs", pairs * threads);
    output.check("live_after", args.number("live"));
    output.check("failures", 0);
    output.finish();
}

/// A function of its own, so that `scripts/profile.sh` can count it alone.
#[inline(never)]
fn find_pairs<P: Pins>(pool: &P, pairs: u64, failures: &AtomicU64) {
    for _ in 0..pairs {
        count(pool.unpin(pool.find()), failures);
    }
}

/// As `find_pairs`.
#[inline(never)]
fn pin_pairs<P: Pins>(
    pool: &P,
    addresses: &[usize],
    random: &mut Random,
    pairs: u64,
    failures: &AtomicU64,
) {
    for _ in 0..pairs {
        let draw = random.next();
        let base = addresses[(draw >> 16) as usize % addresses.len()];
        let address = base + (draw as usize & (BUFFER_BYTES - 1));
        count(pool.pin(address) && pool.unpin(address), failures);
    }
}

fn count(ok: bool, failures: &AtomicU64) {
    if !ok {
        failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long `work` takes on all threads at once, in ns: from the first thread's begin to the
/// last one's end, as the threads measure it themselves. The
/// thread that starts them may get its processor only after they have ended.
fn on_threads(threads: u64, seed: u64, work: impl Fn(&mut Random) + Sync) -> f64 {
    let rendezvous = Barrier::new(threads as usize);
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let spawn = |index| {
            let (rendezvous, work) = (&rendezvous, &work);
            scope.spawn(move || {
                let mut random = Random::new(seed + index);
                rendezvous.wait();
                let begin = Instant::now();
                work(&mut random);
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
    spent as f64
}
