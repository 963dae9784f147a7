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
//! `BUSYHOUR_SIM_SEEDS` sets how many seeds are run (1,000, times `BUSYHOUR_TEST_SCALE`), and
//! `BUSYHOUR_SIM_FIRST` the first one. A failure prints its seed. To run it alone,
//! with a log of every datagram:
//!
//! ```text
//! BUSYHOUR_SIM_SEED=123 cargo test -p busyhour-server --test sim -- --nocapture --exact replay
//! ```

mod calls;
mod client;
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
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use world::World;

#[test]
fn every_seed_keeps_what_was_acknowledged() {
    run_seeds("replay", SEEDS, |seed| World::new(seed).run());
}

/// Runs so many seeds on all processors, times `BUSYHOUR_TEST_SCALE`, unless the environment says
/// how many; a failure says how to `replay` its seed.
fn run_seeds(replay: &str, seeds: u64, run: impl Fn(u64) -> u64 + Sync) {
    let first = number("BUSYHOUR_SIM_FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    let scale = number("BUSYHOUR_TEST_SCALE").unwrap_or(1);
    let end = first + number("BUSYHOUR_SIM_SEEDS").unwrap_or(seeds * scale);
    let run = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = outcome {
            eprintln!(
                "seed {seed} failed; replay it by\n  BUSYHOUR_SIM_SEED={seed} \
                 cargo test -p busyhour-server --test sim -- --nocapture --exact {replay}"
            );
            std::panic::resume_unwind(panic);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(run)));
    });
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

const SEEDS: u64 = 1_000;
const TRACE: &str = "trace ";
