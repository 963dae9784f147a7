//! The whole server on one thread, in virtual time. Devices register, refresh,
//! vanish and come back, and watchers watch them. The network between them and
//! the server loses, duplicates, delays and reorders datagrams; the disk is slow
//! and fails; the power fails.
//!
//! Everything follows from one seed. Whatever the seed,
//!
//! - a 200 is sent only when what it acknowledges is durable;
//! - no acknowledged binding is lost before its time, and none exists after it;
//! - there is no binding that no device asked for;
//! - after the faults have ended, every watcher has the right state;
//! - nothing panics, and every pinned buffer is released.
//!
//! `BUSYHOUR_SIM_SEEDS` sets how many seeds are run (30, times `BUSYHOUR_TEST_SCALE`), and
//! `BUSYHOUR_SIM_FIRST` the first one. A failure prints its seed. To run it alone,
//! with a log of every datagram:
//!
//! ```text
//! BUSYHOUR_SIM_SEED=123 cargo test -p busyhour-server --test sim -- --nocapture --exact replay
//! ```

mod calls;
mod client;
mod cluster;
mod device;
mod knowledge;
mod life;
mod network;
#[path = "../../../busyhour-registrar/tests/watch/panel.rs"]
#[allow(dead_code, reason = "the tests of lists use the rest")]
mod panel;
mod random;
mod site;
mod watcher;
mod world;

use std::{
    collections::BTreeSet,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use world::World;

#[test]
fn every_seed_keeps_what_was_acknowledged() {
    run_seeds("replay", SEEDS, |seed| World::new(seed).run());
}

/// Runs so many seeds on all processors, times `BUSYHOUR_TEST_SCALE`, unless the environment says
/// how many; all of them, and then says which have failed and how to `replay` each.
fn run_seeds(replay: &str, seeds: u64, run: impl Fn(u64) -> u64 + Sync) {
    let first = number("BUSYHOUR_SIM_FIRST").unwrap_or(0);
    let scale = number("BUSYHOUR_TEST_SCALE").unwrap_or(1);
    let end = first + number("BUSYHOUR_SIM_SEEDS").unwrap_or(seeds * scale);
    let failed = failing_seeds(first..end, run);
    let say = |seed: &u64| {
        format!(
            "seed {seed} failed; replay it by\n  BUSYHOUR_SIM_SEED={seed} \
             cargo test -p busyhour-server --test sim -- --nocapture --exact {replay}\n"
        )
    };
    let said: String = failed.iter().map(say).collect();
    assert!(failed.is_empty(), "{said}");
}

fn failing_seeds(seeds: Range<u64>, run: impl Fn(u64) -> u64 + Sync) -> BTreeSet<u64> {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(BTreeSet::new());
    let run = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| run(seed))).is_err() {
            // Who waits for a long run sees it at once.
            eprintln!("seed {seed} failed");
            failed.lock().unwrap().insert(seed);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(run)));
    });
    failed.into_inner().unwrap()
}

#[test]
fn seeds_that_fail_keep_no_other_from_being_run() {
    let ran = AtomicU64::new(0);
    let failed = failing_seeds(10..20, |seed| {
        ran.fetch_add(1, Ordering::Relaxed);
        assert_ne!(seed % 3, 1, "on purpose");
        seed
    });
    assert_eq!(failed, BTreeSet::from([10, 13, 16, 19]));
    assert_eq!(ran.into_inner(), 10);
}

#[test]
fn replay() {
    if let Some(seed) = number("BUSYHOUR_SIM_SEED") {
        let hash = World::new(seed).logged().run();
        println!("seed {seed}: {TRACE}{hash:016x}");
    }
}

#[test]
fn one_seed_is_one_trace_in_every_process() {
    for seed in [3, 14, 159] {
        let hash = World::new(seed).run();
        assert_eq!(
            hash_of_another_process(seed),
            format!("{hash:016x}"),
            "seed {seed}"
        );
        assert_eq!(
            hash_of_another_process(seed),
            format!("{hash:016x}"),
            "seed {seed}"
        );
    }
    assert_ne!(World::new(3).run(), World::new(4).run());
}

fn hash_of_another_process(seed: u64) -> String {
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test)
        .args(["--exact", "replay", "--nocapture"])
        .env("BUSYHOUR_SIM_SEED", seed.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, after) = text.split_once(TRACE).unwrap();
    after[..16].to_owned()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

const SEEDS: u64 = 30;
const TRACE: &str = "trace ";
