//! Which numbers of a sender have come already.

/// Takes each number once; numbers that are far behind the highest count as taken.
#[derive(Debug, Default)]
pub(super) struct NumberWindow {
    /// The highest that has come.
    highest: u64,
    /// Bit n is set if the highest less n has come.
    taken: u128,
}

impl NumberWindow {
    /// `false` if it has come before, or may have.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            let ahead = number - self.highest;
            self.taken = match ahead < SPAN {
                true => self.taken << ahead | 1,
                false => 1,
            };
            self.highest = number;
            return true;
        }
        let behind = self.highest - number;
        let bit = match behind < SPAN {
            true => 1_u128 << behind,
            false => return false,
        };
        let is_new = self.taken & bit == 0;
        self.taken |= bit;
        is_new
    }
}

/// More than datagrams overtake each other.
const SPAN: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Beside a set of all numbers that came.
    #[test]
    fn each_number_is_taken_once_and_old_ones_are_not() {
        let (mut window, mut came, mut seed) = (NumberWindow::default(), BTreeSet::new(), 1_u64);
        let mut next = 1_u64;
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let random = seed >> 33;
            next += random % 3;
            let number = next.saturating_sub(random / 3 % 150).max(1);
            let highest = came.last().copied().unwrap_or(0);
            let is_too_old = highest >= number + SPAN;
            let is_new = came.insert(number) && !is_too_old;
            assert_eq!(window.take(number), is_new, "{number} after {highest}");
        }
    }

    #[test]
    fn a_jump_forgets_what_is_far_behind() {
        let mut window = NumberWindow::default();
        assert!(window.take(1) && window.take(1000) && !window.take(1) && !window.take(872));
        assert!(window.take(873) && !window.take(873) && window.take(u64::MAX));
    }
}
