//! The free granules, for buffers longer than the largest block.

use std::collections::BTreeMap;

/// Runs of free granules, first fit by address.
#[derive(Debug)]
pub(in crate::buffer) struct GranuleRuns {
    /// The length of each free run, by its first granule; no two runs are
    /// adjacent.
    free_runs: BTreeMap<usize, usize>,
    touched_end: usize,
}

impl GranuleRuns {
    pub(in crate::buffer) fn new(count: usize) -> Self {
        Self {
            free_runs: BTreeMap::from([(0, count)]),
            touched_end: 0,
        }
    }

    /// Takes `count` granules in a row; returns the first.
    pub(in crate::buffer) fn take(&mut self, count: usize) -> Option<usize> {
        let fits = |(_, len): &(&usize, &usize)| **len >= count;
        let (&first, &len) = self.free_runs.iter().find(fits)?;
        self.free_runs.remove(&first);
        if len > count {
            self.free_runs.insert(first + count, len - count);
        }
        self.touched_end = self.touched_end.max(first + count);
        Some(first)
    }

    /// No granule from this one on was ever taken.
    pub(in crate::buffer) fn touched_end(&self) -> usize {
        self.touched_end
    }

    /// Whether none of them is in a free run.
    fn are_taken(&self, first: usize, count: usize) -> bool {
        let last_before = self.free_runs.range(..first + count).next_back();
        last_before.is_none_or(|(start, len)| start + len <= first)
    }

    /// Puts back `count` granules from `first` on.
    pub(in crate::buffer) fn put(&mut self, first: usize, count: usize) {
        debug_assert!(self.are_taken(first, count), "granules were put back twice");
        let after = self.free_runs.remove(&(first + count)).unwrap_or(0);
        let before = self.free_runs.range_mut(..first).next_back();
        match before {
            Some((&start, len)) if start + *len == first => *len += count + after,
            _ => {
                self.free_runs.insert(first, count + after);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn returned_neighbours_are_joined_to_one_run() {
        let mut granules = GranuleRuns::new(10);
        let taken: Vec<_> = (0..5).map(|_| granules.take(2).unwrap()).collect();
        assert_eq!(taken, [0, 2, 4, 6, 8]);
        assert_eq!(granules.take(1), None);
        for first in [2, 6, 4, 0, 8] {
            granules.put(first, 2);
        }
        assert_eq!(granules.take(10), Some(0));
    }
}
