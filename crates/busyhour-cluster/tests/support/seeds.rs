//! Which runs a test makes, and what is chance in one of them.

/// The seeds to run; `BUSYHOUR_SIM_SEEDS` runs more than usual.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let given = std::env::var("BUSYHOUR_SIM_SEEDS").ok();
    0..given.map_or(usual, |seeds| {
        seeds.parse().expect("BUSYHOUR_SIM_SEEDS is a number")
    })
}

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
