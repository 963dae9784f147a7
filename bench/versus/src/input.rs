//! The inputs, which every engine generates from the seed: the same numbers in
//! every language. PROTOCOL.md defines them; from this copy the harness
//! computes what it expects.

/// splitmix64, the generator of all inputs.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Deadlines of the `timers` scenario, in ns, in order of insertion.
pub struct Input {
    deadlines: Vec<u64>,
}

impl Input {
    pub fn timers(seed: u64, n: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            deadlines: (0..n).map(|_| random.next() % WINDOW_NS).collect(),
        }
    }

    pub fn deadline_sum(&self) -> u64 {
        self.deadlines
            .iter()
            .fold(0, |sum: u64, deadline| sum.wrapping_add(*deadline))
    }

    /// FNV-1a over the insertion numbers in exact order of expiry: by deadline,
    /// then by insertion.
    pub fn expiry_order_hash(&self) -> u64 {
        let mut order: Vec<usize> = (0..self.deadlines.len()).collect();
        order.sort_by_key(|index| self.deadlines[*index]);
        order.iter().fold(FNV_OFFSET, |hash, index| {
            (hash ^ *index as u64).wrapping_mul(FNV_PRIME)
        })
    }

    /// The sum over keys of the last value published to each: update number i
    /// (from 1) goes to a random key and carries i.
    pub fn last_value_sum(seed: u64, keys: u64, updates: u64) -> u64 {
        let mut random = Random::new(seed);
        let mut last = vec![0u64; keys as usize];
        for value in 1..=updates {
            last[(random.next() % keys) as usize] = value;
        }
        last.iter().sum()
    }
}

const WINDOW_NS: u64 = 60_000_000_000;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_first_values() {
        let mut random = Random::new(1234567);
        assert_eq!(random.next(), 6457827717110365317);
        assert_eq!(random.next(), 3203168211198807973);
    }
}
