//! The whole cluster in virtual time: three to seven nodes with their real cores (the node of
//! `busyhour-cluster`, its shared states, the registrar), and a database, a broker and a network that
//! are simulated. Each run has its faults from a seed: nodes are killed, stopped and cut off, messages
//! are lost, doubled and late, clocks run at different speeds and are set. Telephones register and are asked whether they are
//! there, devices publish, and panels watch them.
//!
//! "The whole cluster, simulated" in the README of `busyhour-cluster` has the parts and what must hold.

mod database;
mod device;
mod letter;
mod node;
#[path = "../../../busyhour-cluster/tests/support/seeds.rs"]
mod seeds;
mod world;

use seeds::seeds;
use world::World;

#[test]
fn every_seed() {
    let mut acknowledged = 0;
    let mut commits = 0;
    for seed in seeds(520) {
        let mut world = World::new(seed);
        world.run();
        let (acks, written) = world.check();
        acknowledged += acks;
        commits += written;
    }
    assert!(
        acknowledged > 1000,
        "{acknowledged}: too little has happened"
    );
    println!("{acknowledged} acknowledged, {commits} commits");
}

/// One run, by `BUSYHOUR_SIM_SEED`.
#[test]
fn replay() {
    if let Ok(seed) = std::env::var("BUSYHOUR_SIM_SEED") {
        let mut world = World::new(seed.parse().expect("BUSYHOUR_SIM_SEED is a number"));
        world.is_told = true;
        world.run();
        world.check();
    }
}
