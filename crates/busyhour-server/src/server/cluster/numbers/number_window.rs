//! Which numbers of a sender have come already (RFC 6479).

/// Takes each number once; numbers that are far behind the highest count as taken.
#[derive(Debug, Default)]
pub(in crate::server::cluster) struct NumberWindow {
    /// The highest that has come.
    highest: u64,
    /// A bit for each number that may still come, in a ring.
    taken: [u64; BLOCK_COUNT],
}

impl NumberWindow {
    /// `false` if it has come before, or may have.
    pub(in crate::server::cluster) fn take(&mut self, number: u64) -> bool {
        if self.highest.saturating_sub(number) >= SPAN {
            return false;
        }
        let (block, last) = (number / BLOCK, self.highest / BLOCK);
        let ahead = block.saturating_sub(last).min(BLOCK_COUNT as u64);
        for new in 1..=ahead {
            self.taken[slot(last.wrapping_add(new))] = 0;
        }
        self.highest = self.highest.max(number);
        let bit = 1 << (number % BLOCK);
        let taken = &mut self.taken[slot(block)];
        let is_new = *taken & bit == 0;
        *taken |= bit;
        is_new
    }
}

fn slot(block: u64) -> usize {
    (block % BLOCK_COUNT as u64) as usize
}

const BLOCK: u64 = u64::BITS as u64;
const BLOCK_COUNT: usize = 32;
/// A thread may be put off between taking a number and sending it, while others send.
const SPAN: u64 = (BLOCK_COUNT as u64 - 1) * BLOCK;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Beside a set of all numbers that came.
    #[test]
    fn each_number_is_taken_once_and_old_ones_are_not() {
        let (mut window, mut came, mut seed) = (NumberWindow::default(), BTreeSet::new(), 1_u64);
        let mut next = 1_u64;
        for _ in 0..50_000 {
            seed = (seed.wrapping_mul(6_364_136_223_846_793_005))
                .wrapping_add(1_442_695_040_888_963_407);
            let random = seed >> 33;
            // Now and then it jumps, by less or by more than the ring is long.
            next += match random % 1000 {
                0 => random / 1000 % 5000,
                _ => random % 3,
            };
            let number = next.saturating_sub(random / 7 % (SPAN + 40)).max(1);
            let highest = came.last().copied().unwrap_or(0);
            let is_too_old = highest >= number + SPAN;
            let is_new = came.insert(number) && !is_too_old;
            assert_eq!(window.take(number), is_new, "{number} after {highest}");
        }
    }

    #[test]
    fn a_jump_forgets_what_is_far_behind() {
        let mut window = NumberWindow::default();
        assert!(window.take(1) && window.take(1 + SPAN) && !window.take(1));
        assert!(window.take(2) && !window.take(2) && window.take(u64::MAX));
        assert!(!window.take(u64::MAX) && !window.take(3) && window.take(u64::MAX - 1));
    }
}
