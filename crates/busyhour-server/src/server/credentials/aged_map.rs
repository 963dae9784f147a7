//! A map that forgets what was not used for long, when it is full.

use foldhash::quality::FixedState;
use std::collections::HashMap;

/// Keeps at least the last half of `len_max` keys that were put or read, and never more than
/// `len_max`.
///
/// There are two generations, as in the clock algorithm: what is used moves into the young one;
/// when that is half as long as the map may be, it becomes the old one, and what was in the old one
/// is forgotten. So nothing is searched for, and no order is kept.
#[derive(Debug)]
pub(super) struct AgedMap<V> {
    young: HashMap<Box<str>, V, FixedState>,
    old: HashMap<Box<str>, V, FixedState>,
    half: usize,
}

impl<V> AgedMap<V> {
    pub(super) fn new(len_max: usize, hasher: &FixedState) -> Self {
        Self {
            young: HashMap::with_hasher(hasher.clone()),
            old: HashMap::with_hasher(hasher.clone()),
            half: (len_max / 2).max(1),
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.make_room();
            self.young.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn put(&mut self, key: &str, value: V) {
        self.old.remove(key);
        if !self.young.contains_key(key) {
            self.make_room();
        }
        self.young.insert(key.into(), value);
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let young = self.young.remove(key);
        let old = self.old.remove(key);
        young.or(old)
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn make_room(&mut self) {
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list of all keys by their last use.
    #[test]
    fn the_last_half_is_kept_and_never_more_than_the_whole() {
        let mut map = AgedMap::new(16, &FixedState::with_seed(1));
        let mut used: Vec<u64> = Vec::new();
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (random >> 33) % 40;
            let name = key.to_string();
            let is_recent = used.iter().rev().take(8).any(|one| *one == key);
            let found = map.get(&name).copied();
            assert!(found.is_none_or(|value| value == key), "{step}");
            assert!(found.is_some() || !is_recent, "{step}: {key}");
            if found.is_none() {
                map.put(&name, key);
            }
            used.retain(|one| *one != key);
            used.push(key);
            assert!(map.len() <= 16, "{step}");
        }
        map.put("7", 7);
        map.remove("7");
        assert!(map.get("7").is_none());
    }
}
