//! A bitmap of the taken blocks of a range, with summaries, so that the lowest
//! free block is found in as many steps as it has levels (at most six).
//!
//! Taking the lowest first keeps the live blocks together at the start of their
//! range, so that the pages behind them can go back to the operating system.

/// A set of taken indexes below a fixed bound; initially all are free.
///
/// A summary bit is set if its whole word below is taken. Fresh words are zero,
/// so a large map costs no memory before it is used.
#[derive(Debug)]
pub(in crate::buffer) struct FreeMap {
    levels: Vec<Vec<u64>>,
    len: usize,
}

impl FreeMap {
    /// A map of `len` free indexes.
    pub(in crate::buffer) fn new(len: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = len.div_ceil(WORD_BITS).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels, len };
            }
            words = words.div_ceil(WORD_BITS);
        }
    }

    /// Frees `index`; `false` if it was free already.
    #[must_use]
    pub(in crate::buffer) fn put(&mut self, index: usize) -> bool {
        let mut position = index;
        for (depth, level) in self.levels.iter_mut().enumerate() {
            let word = &mut level[position / WORD_BITS];
            let before = *word;
            *word &= !(1 << (position % WORD_BITS));
            if depth == 0 && *word == before {
                return false;
            }
            if before != u64::MAX {
                return true;
            }
            position /= WORD_BITS;
        }
        true
    }

    /// Whether all of the aligned group of `group_len` indexes that holds
    /// `index` is free; `group_len` is a power of two up to 64.
    pub(super) fn is_group_free(&self, index: usize, group_len: usize) -> bool {
        debug_assert!(group_len.is_power_of_two() && group_len <= WORD_BITS);
        let first = (index % WORD_BITS) & !(group_len - 1);
        let mask = (u64::MAX >> (WORD_BITS - group_len)) << first;
        self.levels[0][index / WORD_BITS] & mask == 0
    }

    /// The lowest free index.
    pub(super) fn lowest_free(&self) -> Option<usize> {
        let mut position = 0;
        for level in self.levels.iter().rev() {
            let word = *level.get(position)?;
            if word == u64::MAX {
                return None;
            }
            position = position * WORD_BITS + word.trailing_ones() as usize;
        }
        (position < self.len).then_some(position)
    }

    /// Takes `index`, which must be free.
    pub(super) fn mark_taken(&mut self, index: usize) {
        let mut position = index;
        for level in &mut self.levels {
            let word = &mut level[position / WORD_BITS];
            *word |= 1 << (position % WORD_BITS);
            if *word != u64::MAX {
                return;
            }
            position /= WORD_BITS;
        }
    }
}

const WORD_BITS: usize = u64::BITS as usize;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Take,
        Put(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            3 => Just(Operation::Take),
            2 => (0..200usize).prop_map(Operation::Put),
        ]
    }

    fn take_lowest(map: &mut FreeMap) -> Option<usize> {
        let index = map.lowest_free()?;
        map.mark_taken(index);
        Some(index)
    }

    proptest! {
        #[test]
        fn the_lowest_free_index_is_taken(
            len in 1..200usize,
            operations in prop::collection::vec(operation(), 0..400),
        ) {
            let mut map = FreeMap::new(len);
            let mut free: BTreeSet<usize> = (0..len).collect();
            for operation in operations {
                match operation {
                    Operation::Take => prop_assert_eq!(take_lowest(&mut map), free.pop_first()),
                    Operation::Put(index) if index < len => {
                        prop_assert_eq!(map.put(index), free.insert(index));
                    }
                    Operation::Put(_) => {}
                }
            }
        }
    }

    #[test]
    fn a_map_of_several_levels_hands_out_every_index_once() {
        let mut map = FreeMap::new(5000);
        for expected in 0..5000 {
            assert_eq!(take_lowest(&mut map), Some(expected));
        }
        assert_eq!(take_lowest(&mut map), None);
        assert!(map.put(4097));
        assert!(!map.put(4097));
        assert_eq!(take_lowest(&mut map), Some(4097));
    }

    #[test]
    fn a_group_is_free_when_none_of_its_indexes_is_taken() {
        let mut map = FreeMap::new(128);
        for _ in 0..70 {
            take_lowest(&mut map);
        }
        assert!(!map.is_group_free(69, 2));
        assert!(map.is_group_free(70, 2));
        assert!(!map.is_group_free(100, 64));
    }
}
