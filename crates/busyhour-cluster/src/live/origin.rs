//! The states that start on this node.

use super::{Beacon, Entry, Incarnation, Key, LiveChange, Part, PartRequest, Value};
use std::{collections::BTreeMap, ops::Bound};

/// The live states of one process, with the numbers of their changes.
///
/// Whoever uses it sends each [`LiveChange`] and, with each beat, a [`Beacon`] to all nodes, in the
/// order in which it got them, and answers each [`PartRequest`].
#[derive(Debug)]
pub struct LiveOrigin {
    incarnation: Incarnation,
    last: u64,
    states: BTreeMap<Key, (u64, Value)>,
    too_large: u64,
}

impl LiveOrigin {
    /// The largest state: with what else is in a message, it fits into one that the broker carries.
    pub const VALUE_BYTES_MAX: usize = 8 << 20;

    /// No states yet.
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            last: 0,
            states: BTreeMap::new(),
            too_large: 0,
        }
    }

    /// Sets a state; `None` if it is as it was. One that is larger than
    /// [`VALUE_BYTES_MAX`](Self::VALUE_BYTES_MAX) is counted and removed instead, since it would
    /// reach nobody, and others would ask for it again and again.
    pub fn set(&mut self, key: Key, value: Value) -> Option<LiveChange> {
        if value.len() > Self::VALUE_BYTES_MAX {
            self.too_large += 1;
            return self.remove(&key);
        }
        let known = self.states.get(&key);
        if known.is_some_and(|(_, known)| *known == value) {
            return None;
        }
        let change = self.change(key, Some(value.clone()));
        self.states
            .insert(change.key.clone(), (change.number, value));
        Some(change)
    }

    /// How many states were not said, since they were too large.
    pub fn too_large(&self) -> u64 {
        self.too_large
    }

    /// Removes a state; `None` if there is none.
    pub fn remove(&mut self, key: &[u8]) -> Option<LiveChange> {
        let (key, _) = self.states.remove_entry(key)?;
        Some(self.change(key, None))
    }

    /// What tells others whether they have missed something.
    pub fn beacon(&self) -> Beacon {
        Beacon {
            origin: self.incarnation,
            number: self.last,
        }
    }

    /// The states behind a key, of about `bytes_max` bytes but at least one; `None` if another
    /// process was asked.
    pub fn part(&self, request: &PartRequest, bytes_max: usize) -> Option<Part> {
        if !self.incarnation.is_meant_by(request.origin) {
            return None;
        }
        let from = request
            .after
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let mut states = self
            .states
            .range::<[u8], _>((from, Bound::Unbounded))
            .peekable();
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some((key, (number, value))) = states.next()
        {
            bytes += key.len() + value.len() + ENTRY_OVERHEAD;
            entries.push(Entry {
                key: key.clone(),
                number: *number,
                value: value.clone(),
            });
        }
        Some(Part {
            origin: self.incarnation,
            after: request.after.clone(),
            at: self.last,
            entries,
            is_last: states.peek().is_none(),
        })
    }

    /// A state.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.states.get(key)?;
        Some(value)
    }

    /// All states, in the order of their keys.
    pub fn states(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let states = self.states.iter();
        states.map(|(key, (_, value))| (&**key, &**value))
    }

    /// Those whose keys begin like this.
    pub fn states_under<'s>(
        &'s self,
        prefix: &'s [u8],
    ) -> impl Iterator<Item = (&'s [u8], &'s [u8])> {
        let states = self
            .states
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let states = states.take_while(move |(key, _)| key.starts_with(prefix));
        states.map(|(key, (_, value))| (&**key, &**value))
    }

    /// How many states there are.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    fn change(&mut self, key: Key, value: Option<Value>) -> LiveChange {
        self.last += 1;
        LiveChange {
            origin: self.incarnation,
            number: self.last,
            key,
            value,
        }
    }
}

/// The number of a state and two lengths, as they are written.
const ENTRY_OVERHEAD: usize = 16;
