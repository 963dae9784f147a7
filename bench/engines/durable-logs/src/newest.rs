//! Which lease of each binding is the newest.

use crate::refresh::Refresh;
use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Newest(BTreeMap<u64, Refresh>);

impl Newest {
    /// Of bindings 1 to `bindings`, which have not been refreshed.
    pub fn first(bindings: u64) -> Self {
        (1..=bindings).map(|id| Refresh { id, cseq: 1 }).collect()
    }

    pub fn refreshes(&self) -> u64 {
        self.0.values().map(|one| one.number()).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = Refresh> {
        self.0.values().copied()
    }

    /// The first binding, by id, whose newest lease is another one there.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        let ids = self.0.keys().chain(other.0.keys());
        ids.filter(|id| self.0.get(id) != other.0.get(id))
            .min()
            .copied()
    }
}

impl Extend<Refresh> for Newest {
    fn extend<I: IntoIterator<Item = Refresh>>(&mut self, refreshes: I) {
        for one in refreshes {
            let newest = self.0.entry(one.id).or_insert(one);
            newest.cseq = newest.cseq.max(one.cseq);
        }
    }
}

impl FromIterator<Refresh> for Newest {
    fn from_iter<I: IntoIterator<Item = Refresh>>(refreshes: I) -> Self {
        let mut newest = Self::default();
        newest.extend(refreshes);
        newest
    }
}
