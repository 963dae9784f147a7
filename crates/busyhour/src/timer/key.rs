use crate::clock::Instant;

/// A timer's place in the order: by deadline, then by insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) deadline_ns: u64,
    pub(super) sequence: u64,
}

/// A waiting timer as the order sees it: its key, and the slot with its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) slot: u32,
}

const _: () = assert!(size_of::<Entry>() == 24);

/// A key read as digits of six bits, most significant first: eleven of the
/// deadline above eleven of the sequence. Level 0 is the last digit.
impl Key {
    pub(super) const MAX: Self = Self {
        deadline_ns: u64::MAX,
        sequence: u64::MAX,
    };

    pub(super) fn deadline(self) -> Instant {
        Instant::from_nanos(self.deadline_ns)
    }

    /// The digit at `level`.
    #[inline]
    pub(super) fn digit(self, level: u8) -> usize {
        let (word, shift) = match level.checked_sub(WORD_LEVELS) {
            Some(level) => (self.deadline_ns, level),
            None => (self.sequence, level),
        };
        (word >> (u32::from(shift) * DIGIT_BITS)) as usize % DIGITS
    }

    /// The highest level at which the digits of two keys differ, 0 for equal keys.
    #[inline]
    pub(super) fn differing_level(self, other: Self) -> u8 {
        let differing = Self {
            deadline_ns: self.deadline_ns ^ other.deadline_ns,
            sequence: self.sequence ^ other.sequence,
        };
        differing.highest_level()
    }

    /// The highest level with a digit that is not zero, 0 if all are.
    #[inline]
    pub(super) fn highest_level(self) -> u8 {
        match self.deadline_ns {
            0 => highest_digit(self.sequence),
            deadline => WORD_LEVELS + highest_digit(deadline),
        }
    }

    /// The last key that shares all digits from `level` up.
    pub(super) fn last_of(self, level: u8) -> Self {
        match level.checked_sub(WORD_LEVELS) {
            Some(level) => Self {
                deadline_ns: self.deadline_ns | ones_below(level),
                sequence: u64::MAX,
            },
            None => Self {
                deadline_ns: self.deadline_ns,
                sequence: self.sequence | ones_below(level),
            },
        }
    }
}

fn highest_digit(word: u64) -> u8 {
    ((63 - (word | 1).leading_zeros()) / DIGIT_BITS) as u8
}

fn ones_below(level: u8) -> u64 {
    (1 << (u32::from(level) * DIGIT_BITS)) - 1
}

/// The values a digit can take.
pub(super) const DIGITS: usize = 64;
const DIGIT_BITS: u32 = DIGITS.ilog2();
/// The digits of one 64-bit word.
const WORD_LEVELS: u8 = u64::BITS.div_ceil(DIGIT_BITS) as u8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Key> {
        (any::<u64>(), any::<u64>(), 0..64u32, 0..64u32).prop_map(|(high, low, a, b)| Key {
            deadline_ns: high >> a,
            sequence: low >> b,
        })
    }

    proptest! {
        #[test]
        fn the_differing_digit_decides_the_order(a in key(), b in key()) {
            let level = a.differing_level(b);
            prop_assert_eq!(a.cmp(&b), a.digit(level).cmp(&b.digit(level)));
            for above in level + 1..2 * WORD_LEVELS {
                prop_assert_eq!(a.digit(above), b.digit(above));
            }
        }

        #[test]
        fn the_last_of_a_prefix_bounds_it(a in key(), b in key(), level in 0..2 * WORD_LEVELS) {
            let last = a.last_of(level);
            let shares = (level..2 * WORD_LEVELS).all(|level| a.digit(level) == b.digit(level));
            prop_assert!(a <= last);
            prop_assert!(!shares || b <= last);
            prop_assert!(level == 0 || last.differing_level(a) < level);
        }
    }
}
