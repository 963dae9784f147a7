//! Random choices that a printed seed repeats.

use std::hash::{BuildHasher, RandomState};

/// splitmix64, which is good enough to choose times and bytes.
pub struct Random {
    state: u64,
    pub seed: u64,
}

impl Random {
    /// With the seed `BUSYHOUR_TEST_SEED`, or else with a new one; prints it.
    pub fn new() -> Self {
        let given = std::env::var("BUSYHOUR_TEST_SEED").ok();
        let given = given.map(|seed| seed.parse().expect("BUSYHOUR_TEST_SEED is a number"));
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("repeat with: BUSYHOUR_TEST_SEED={seed}");
        Self { state: seed, seed }
    }

    /// A second source of choices, which the same seed repeats.
    pub fn fork(&mut self) -> Self {
        let seed = self.below(usize::MAX) as u64;
        Self { state: seed, seed }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
