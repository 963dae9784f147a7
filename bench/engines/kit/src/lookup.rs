//! The `bus-lookup` scenario.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{Args, Output, Random};

/// A concurrent map of last values.
pub trait Lookup: Sync {
    fn put(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
}

/// Runs `bus-lookup`.
pub fn run<L: Lookup>(args: &Args, map: &L) {
    let (keys, threads, ms) = (
        args.number("keys"),
        args.number("threads"),
        args.number("ms"),
    );
    (0..keys).for_each(|key| map.put(key, key + 1));
    let shared = Shared {
        stop: AtomicBool::new(false),
        lookups: AtomicU64::new(0),
        misses: AtomicU64::new(0),
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        (0..args.number("writers"))
            .for_each(|index| drop(scope.spawn(move_write(map, keys, index, &shared))));
        (0..threads).for_each(|index| drop(scope.spawn(move_read(map, keys, index, &shared))));
        std::thread::sleep(Duration::from_millis(ms));
        shared.stop.store(true, Ordering::Release);
    });
    let spent = begin.elapsed().as_nanos() as f64;
    let lookups = shared.lookups.into_inner();
    let mut output = Output::default();
    output.figure("lookup_ns", spent * threads as f64 / lookups as f64);
    output.figure("mlookups_per_s", lookups as f64 * 1e3 / spent);
    output.check("lookups", lookups);
    output.check("misses", shared.misses.into_inner());
    output.finish();
}

struct Shared {
    stop: AtomicBool,
    lookups: AtomicU64,
    misses: AtomicU64,
}

fn move_write<'a, L: Lookup>(
    map: &'a L,
    keys: u64,
    index: u64,
    shared: &'a Shared,
) -> impl FnOnce() + 'a {
    move || {
        let mut random = Random::new(1_000 + index);
        while !shared.stop.load(Ordering::Relaxed) {
            let key = random.next() % keys;
            map.put(key, key + 1);
        }
    }
}

fn move_read<'a, L: Lookup>(
    map: &'a L,
    keys: u64,
    index: u64,
    shared: &'a Shared,
) -> impl FnOnce() + 'a {
    move || {
        let mut random = Random::new(index);
        let (mut lookups, mut misses) = (0, 0);
        while !shared.stop.load(Ordering::Relaxed) {
            for _ in 0..64 {
                let key = random.next() % keys;
                misses += u64::from(map.get(key) != Some(key + 1));
            }
            lookups += 64;
        }
        shared.lookups.fetch_add(lookups, Ordering::Relaxed);
        shared.misses.fetch_add(misses, Ordering::Relaxed);
    }
}
