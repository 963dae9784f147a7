//! Calls through the proxy over a network that loses, doubles and reorders, in virtual
//! time, from seeds. At the end nothing is left, nothing rings, and everybody has been
//! told the truth.

mod choices;
mod repeater;
mod caller;
mod telephone;
mod world;

use world::{Network, World};

/// Runs seeds, and says which one failed.
fn run(network: Network, seeds: u64) {
    let only = std::env::var("BUSYHOUR_SIM_SEED").ok();
    let only: Option<u64> = only.map(|seed| seed.parse().expect("a number"));
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    let scale: u64 = scale.map_or(1, |scale| scale.parse().expect("a number"));
    for seed in (0..seeds * scale).filter(|seed| only.is_none_or(|only| only == *seed)) {
        let failure = std::panic::catch_unwind(|| World::new(seed, network).run());
        if let Err(panic) = failure {
            eprintln!("replay it with BUSYHOUR_SIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_good_network_for_many_seeds() {
    run(
        Network {
            loss: 0,
            doubles: 0,
            delay_ms: 20,
        },
        100,
    );
}

#[test]
fn a_bad_network_for_many_seeds() {
    run(
        Network {
            loss: 10,
            doubles: 10,
            delay_ms: 300,
        },
        200,
    );
}

/// Without any loss, but with copies and a delay beyond T1.
#[test]
fn a_slow_network_for_many_seeds() {
    run(
        Network {
            loss: 0,
            doubles: 30,
            delay_ms: 1_500,
        },
        50,
    );
}

#[test]
fn one_seed_is_one_run() {
    let network = Network {
        loss: 10,
        doubles: 10,
        delay_ms: 300,
    };
    assert_eq!(World::new(7, network).run(), World::new(7, network).run());
}
