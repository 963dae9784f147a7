//! The faults of the network.

use crate::random::Random;

pub const SECOND: u64 = 1_000_000_000;
pub const MILLISECOND: u64 = 1_000_000;

pub struct Faults {
    loss_permille: u64,
    duplicate_permille: u64,
    slow_permille: u64,
}

impl Faults {
    pub const NONE: Self = Self {
        loss_permille: 0,
        duplicate_permille: 0,
        slow_permille: 0,
    };

    pub fn draw(random: &mut Random) -> Self {
        Self {
            loss_permille: random.pick(&[0, 20, 100, 300]),
            duplicate_permille: random.pick(&[0, 20, 100, 300]),
            slow_permille: random.pick(&[0, 20, 100, 500]),
        }
    }

    /// When the copies of a datagram that is sent now arrive: no copy, one or
    /// two, in any order.
    pub fn arrivals(&self, now: u64, random: &mut Random) -> Vec<u64> {
        if random.permille(self.loss_permille) {
            return Vec::new();
        }
        let copies = 1 + usize::from(random.permille(self.duplicate_permille));
        (0..copies).map(|_| now + self.delay(random)).collect()
    }

    fn delay(&self, random: &mut Random) -> u64 {
        match random.permille(self.slow_permille) {
            true => random.within(MILLISECOND, DELAY_MAX),
            false => random.within(MILLISECOND / 10, 5 * MILLISECOND),
        }
    }
}

pub const DELAY_MAX: u64 = 3 * SECOND;
