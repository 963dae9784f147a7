//! Folds the states that several nodes have of a key into one.

use crate::bus::{
    Event,
    cache::{Room, SharedEvent},
    panics::{Held, Panics},
};
use foldhash::fast::FixedState;
use std::{collections::HashMap, fmt, mem, ops::Deref, sync::Arc};

/// The node where an event was published.
///
/// Whoever sets up the cluster assigns the numbers; a single node needs none.
///
/// ```
/// use busyhour::bus::{Event, NodeId, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let ticks = Topic::builder("ticks").cached().build();
/// _ = ticks.publish_from(NodeId(2), Tick(1));
/// assert_eq!(ticks.remove_node(NodeId(2)).key_count, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "node {}", self.0)
    }
}

/// Folds the nodes' states of a key, in the order of their ids, into one.
pub(in crate::bus) type Fold<E> = Arc<dyn Fn(&[(NodeId, E)]) -> E + Send + Sync>;

/// How a topic folds the states of several nodes.
pub(in crate::bus) struct Folding<E> {
    pub(in crate::bus) local: NodeId,
    pub(in crate::bus) fold: Fold<E>,
}

/// The nodes' states of one key, sorted by node. Never changed, only replaced.
pub(in crate::bus) type Parts<E> = SharedEvent<PartList<E>>;

/// Drops its events one by one, so that a panic of one does not leak the
/// others.
pub(in crate::bus) struct PartList<E>(Vec<(NodeId, E)>);

/// An emptied list of parts, whose memory is reused.
pub(in crate::bus) struct Emptied<E> {
    list: PartList<E>,
    room: Room<PartList<E>>,
}

impl<E> PartList<E> {
    fn clear(&mut self) {
        if !mem::needs_drop::<E>() {
            return self.0.clear();
        }
        let mut panics = Panics::default();
        for part in self.0.drain(..) {
            panics.drop(part);
        }
    }
}

impl<E> Deref for PartList<E> {
    type Target = [(NodeId, E)];

    fn deref(&self) -> &[(NodeId, E)] {
        &self.0
    }
}

impl<E> Drop for PartList<E> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<E> Emptied<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            list: PartList(Vec::new()),
            room: Room::new(),
        }
    }

    /// Drops the parts if nobody else refers to them, and returns the emptied
    /// list. No lock may be held.
    pub(in crate::bus) fn from_parts(parts: Parts<E>) -> Option<Self> {
        let (mut list, room) = parts.take_apart().ok()?;
        list.clear();
        Some(Self { list, room })
    }
}

/// The states of a key at the moment when one node changes its own. While they
/// are the same, a fold that was made from them without a lock is up to date.
pub(in crate::bus) struct Basis<E> {
    /// The state of each node, if another node than this one has published the
    /// key.
    pub(in crate::bus) parts: Option<Parts<E>>,
    /// This node's state, if no other node has published the key.
    pub(in crate::bus) local: Option<SharedEvent<E>>,
}

/// The states of a key after one node has changed its own.
pub(in crate::bus) struct Folded<E> {
    basis: Basis<E>,
    parts: Option<Parts<E>>,
    /// The folded state; `None` if no node has a state any more.
    pub(in crate::bus) event: Option<SharedEvent<E>>,
}

impl<E> Basis<E> {
    fn is(&self, other: &Self) -> bool {
        same(&self.parts, &other.parts, SharedEvent::is_same)
            && same(&self.local, &other.local, SharedEvent::is_same)
    }
}

impl<E> Drop for Basis<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        panics.drop(self.parts.take());
        panics.drop(self.local.take());
    }
}

impl<E: Clone> Basis<E> {
    /// The states of the other nodes.
    fn without(&self, origin: NodeId) -> PartList<E> {
        let mut others = PartList(Vec::new());
        let parts = self.parts.iter().flat_map(|parts| parts.iter());
        for (other, state) in parts.filter(|(other, _)| *other != origin) {
            others.0.push((*other, state.clone()));
        }
        others
    }
}

impl<E> Folded<E> {
    /// The state of each node now.
    pub(in crate::bus) fn parts(&self) -> Option<&Parts<E>> {
        self.parts.as_ref()
    }

    /// Whether it was made from this basis.
    pub(in crate::bus) fn is_from(&self, basis: &Basis<E>) -> bool {
        self.basis.is(basis)
    }
}

impl<E> Drop for Folded<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        panics.drop(self.parts.take());
        panics.drop(self.event.take());
    }
}

impl<E: Event> Folding<E> {
    /// Folds all states after one node has published. Runs user code: no lock
    /// may be held.
    pub(in crate::bus) fn join(&self, basis: Basis<E>, (origin, event): (NodeId, &E)) -> Folded<E> {
        let mut parts = basis.without(origin);
        if let Some(local) = basis.local.as_ref().filter(|_| origin != self.local) {
            parts.0.push((self.local, E::clone(local)));
        }
        let at = parts.partition_point(|(other, _)| *other < origin);
        parts.0.insert(at, (origin, event.clone()));
        self.folded(basis, parts)
    }

    /// Folds the states of the others after one node has removed its own. Runs
    /// user code: no lock may be held.
    pub(in crate::bus) fn part(&self, basis: Basis<E>, origin: NodeId) -> Folded<E> {
        let left = basis.without(origin);
        self.folded(basis, left)
    }

    /// Each node's state and the folded one after this node has published a key
    /// that others have published too. Runs user code: no lock may be held.
    #[inline]
    pub(in crate::bus) fn join_local(
        &self,
        states: &[(NodeId, E)],
        event: &E,
        Emptied { mut list, room }: Emptied<E>,
    ) -> Option<(Parts<E>, E)> {
        let mut own = Some(event);
        list.0.reserve(states.len() + 1);
        for (origin, state) in states {
            if let Some(own) = own.take_if(|_| *origin >= self.local) {
                list.0.push((self.local, own.clone()));
            }
            if *origin != self.local {
                list.0.push((*origin, state.clone()));
            }
        }
        if let Some(own) = own {
            list.0.push((self.local, own.clone()));
        }
        let folded = self.fold(&list)?;
        Some((SharedEvent::within(room, list), folded))
    }

    fn folded(&self, basis: Basis<E>, parts: PartList<E>) -> Folded<E> {
        let event = self.fold(&parts).map(SharedEvent::new);
        Folded {
            basis,
            parts: Some(SharedEvent::new(parts)),
            event,
        }
    }

    fn fold(&self, parts: &[(NodeId, E)]) -> Option<E> {
        let (_, first) = parts.first()?;
        if parts.len() == 1 {
            return Some(first.clone());
        }
        let mut folded = Held::new((self.fold)(parts));
        assert!(
            folded.get()?.key() == first.key(),
            "a fold must keep the key of the states it folds"
        );
        folded.take()
    }
}

/// The nodes' states of the keys of one shard; only of keys that another node
/// has published.
pub(in crate::bus) struct NodeParts<E: Event> {
    /// By the version at which the key got its slot in the table.
    keys: HashMap<u64, OfKey<E>, FixedState>,
    /// Keys ever added.
    added: u64,
}

struct OfKey<E: Event> {
    /// When it was added: an order that does not depend on a hash.
    number: u64,
    /// Never empty.
    parts: Parts<E>,
}

impl<E: Event> NodeParts<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            keys: HashMap::default(),
            added: 0,
        }
    }

    /// The nodes' states of the key, if another node than this one has
    /// published it.
    #[inline]
    pub(in crate::bus) fn of(&self, born: u64) -> Option<&Parts<E>> {
        Some(&self.keys.get(&born)?.parts)
    }

    /// Replaces the states of a key; returns the old ones, so that they can be
    /// dropped when no lock is held.
    #[must_use]
    pub(in crate::bus) fn set(&mut self, born: u64, parts: Parts<E>) -> Option<Parts<E>> {
        if let Some(of_key) = self.keys.get_mut(&born) {
            return Some(mem::replace(&mut of_key.parts, parts));
        }
        let number = self.added;
        self.added += 1;
        self.keys.insert(born, OfKey { number, parts });
        None
    }

    /// Replaces the states of a key if the old ones are `expected`; otherwise
    /// returns the new ones.
    pub(in crate::bus) fn replace(
        &mut self,
        born: u64,
        expected: &Parts<E>,
        parts: Parts<E>,
    ) -> Result<Parts<E>, Parts<E>> {
        match self.keys.get_mut(&born) {
            Some(of_key) if SharedEvent::is_same(&of_key.parts, expected) => {
                Ok(mem::replace(&mut of_key.parts, parts))
            }
            _ => Err(parts),
        }
    }

    /// Removes a key of which no other node has a state any more.
    #[must_use]
    pub(in crate::bus) fn remove(&mut self, born: u64) -> Option<Parts<E>> {
        let removed = self.keys.remove(&born)?;
        if self.keys.capacity() > 4 * self.keys.len().max(64) {
            self.keys.shrink_to_fit();
        }
        Some(removed.parts)
    }

    /// The states of the keys of which the node has one, in the order in which
    /// the keys were added.
    pub(in crate::bus) fn with_part_of(&self, origin: NodeId) -> Vec<Parts<E>> {
        let all = self.keys.values();
        let mut keys: Vec<_> = all
            .filter(|of_key| part(&of_key.parts, origin).is_some())
            .collect();
        keys.sort_unstable_by_key(|of_key| of_key.number);
        keys.into_iter()
            .map(|of_key| SharedEvent::clone(&of_key.parts))
            .collect()
    }

    /// Whether no other node's state is known.
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The state of one node.
pub(in crate::bus) fn part<E>(parts: &[(NodeId, E)], origin: NodeId) -> Option<&E> {
    let index = parts.binary_search_by_key(&origin, |(other, _)| *other);
    let (_, event) = &parts[index.ok()?];
    Some(event)
}

fn same<T>(one: &Option<T>, other: &Option<T>, is_same: impl Fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (None, None) => true,
        _ => false,
    }
}
