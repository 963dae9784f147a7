//! Telephones that register, call each other through the whole server and watch each
//! other's lamps. They hold, cancel, fork, hang up, move and lose power; the network loses,
//! duplicates, delays and reorders; the server crashes and starts again. Everything follows
//! from one seed. Whatever the seed, after a time without faults
//!
//! - each lamp shows the dialogs that the telephones have, who holds whom included;
//! - no dialog is told twice, and none is alive that has ended for its telephones;
//! - when all have hung up, no transaction, no call and no buffer is left;
//! - each call that the server carried from its beginning has one record, which says how it
//!   went; one that its caller sends again after a restart may have one of each server.
//!
//! `BUSYHOUR_SIM_SEEDS` (15) and `BUSYHOUR_SIM_FIRST` are as for the other simulation. With
//! `BUSYHOUR_SIM_SEEDS=1000` they take ten minutes of processor time. A
//! failure prints its seed. To run it alone, with a log of every datagram:
//!
//! ```text
//! BUSYHOUR_SIM_SEED=123 cargo test -p busyhour-server --test sim -- --nocapture --exact calls::replay_calls
//! ```

mod message;
mod dialog;
mod telephone;
mod within;
mod calling;
mod called;
mod lamp;
pub mod users;
mod world;

use crate::{number, run_seeds};
use world::World;

#[test]
fn every_seed_shows_the_calls_that_there_are() {
    run_seeds("calls::replay_calls", SEEDS, |seed| World::new(seed).run());
}

/// An INVITE was refused, since nobody was registered; a copy of it came late, when somebody was,
/// and rang.
#[test]
fn a_late_copy_of_an_invite_that_was_refused_does_not_ring() {
    for seed in [481, 678] {
        World::new(seed).run();
    }
}

#[test]
fn replay_calls() {
    if let Some(seed) = number("BUSYHOUR_SIM_SEED") {
        let hash = World::new(seed).logged().run();
        println!("seed {seed}: trace {hash:016x}");
    }
}

#[test]
fn one_seed_is_one_run_of_calls() {
    assert_eq!(World::new(3).run(), World::new(3).run());
}

const SEEDS: u64 = 15;
