//! Three to five whole servers as nodes of one cluster, each in its own virtual time, on one thread. The database, the broker, the
//! network to the telephones and the network between the nodes are simulated; nodes die, freeze, leave and come back, and each of
//! the ways fails by itself. Everything follows from one seed. Whatever the seed,
//!
//! - a 200 is sent only when what it acknowledges is durable;
//! - no acknowledged binding is lost before its time, and none exists after it, whichever node is asked;
//! - no two lives commit to a partition in one of its epochs;
//! - after the faults have ended, every watcher has the right state, at whichever node it is;
//! - nothing panics, and every pinned buffer is released.

mod broker;
mod calls;
mod database;
mod node;
mod place;
mod site;
mod world;

use super::{number, run_seeds};
use calls::CallsWorld;
use std::sync::atomic::{AtomicU64, Ordering};
use world::ClusterWorld;

#[test]
fn every_seed_of_a_cluster_keeps_what_was_acknowledged() {
    let kept = AtomicU64::new(0);
    run_seeds("cluster::replay", SEEDS, |seed| {
        let (hash, kept_here) = ClusterWorld::new(seed).run();
        kept.fetch_add(kept_here, Ordering::Relaxed);
        hash
    });
    // Without these, nothing is said of requests that wait.
    let is_whole_set = number("BUSYHOUR_SIM_SEEDS").is_none_or(|count| count >= SEEDS);
    assert!(
        kept.into_inner() > 0 || !is_whole_set,
        "no request has waited"
    );
}

#[test]
fn replay() {
    if let Some(seed) = number("BUSYHOUR_SIM_SEED") {
        let (hash, kept) = ClusterWorld::new(seed).logged().run();
        println!("seed {seed}: {hash:016x}, {kept} requests have waited");
    }
}

#[test]
fn one_seed_is_one_course_of_events() {
    let first = ClusterWorld::new(5).run();
    assert_eq!(ClusterWorld::new(5).run(), first);
    assert_ne!(ClusterWorld::new(6).run(), first);
}

#[test]
fn every_seed_of_a_cluster_shows_the_calls_that_there_are() {
    run_seeds("cluster::replay_calls", SEEDS_OF_CALLS, |seed| {
        CallsWorld::new(seed).run().0
    });
}

/// Two nodes have adopted one dialog: who carried it at first is back, or both telephones have refreshed it.
/// `BUSYHOUR_SIM_KILLED=1` has `replay_calls` run such a world.
#[test]
fn one_of_two_nodes_that_have_adopted_a_dialog_keeps_it() {
    let hands_over = |seed| CallsWorld::of_killed_nodes(seed).run().1 > 0;
    assert!((0..8).any(hands_over), "none was handed over");
}

#[test]
fn replay_calls() {
    if let Some(seed) = number("BUSYHOUR_SIM_SEED") {
        let world = match std::env::var_os("BUSYHOUR_SIM_KILLED") {
            Some(_) => CallsWorld::of_killed_nodes(seed),
            None => CallsWorld::new(seed),
        };
        let (hash, handed_over) = world.logged().run();
        println!("seed {seed}: {hash:016x}, {handed_over} dialogs were handed over");
    }
}

/// A seed takes two seconds of processor.
const SEEDS: u64 = 4;
const SEEDS_OF_CALLS: u64 = 1;
