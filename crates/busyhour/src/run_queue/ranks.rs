use super::rank::Rank;

const WORDS: usize = Rank::COUNT.div_ceil(64);

/// A set of ranks, as a bitmap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ranks([u64; WORDS]);

impl Ranks {
    #[inline]
    pub(super) fn insert(&mut self, rank: Rank) {
        self.0[rank.index() / 64] |= 1 << (rank.index() % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, rank: Rank) {
        self.0[rank.index() / 64] &= !(1 << (rank.index() % 64));
    }

    #[inline]
    pub(super) fn highest(&self) -> Option<Rank> {
        let word = self.0.iter().rposition(|&word| word != 0)?;
        Some(Rank::from_index(word * 64 + self.0[word].ilog2() as usize))
    }

    /// The ranks from the highest to the lowest.
    pub(super) fn iter(mut self) -> impl Iterator<Item = Rank> {
        std::iter::from_fn(move || {
            let rank = self.highest()?;
            self.remove(rank);
            Some(rank)
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn knows_its_highest_and_lists_downwards() {
        let mut ranks = Ranks::default();
        assert_eq!(ranks.highest(), None);
        let indices = [1, 63, 64, 200, Rank::COUNT - 1];
        indices
            .iter()
            .for_each(|&index| ranks.insert(Rank::from_index(index)));
        assert_eq!(ranks.highest(), Some(Rank::from_index(Rank::COUNT - 1)));
        let listed: Vec<_> = ranks.iter().map(Rank::index).collect();
        assert!(listed.iter().eq(indices.iter().rev()));
    }
}
