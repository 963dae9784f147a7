use super::{
    key::{DIGITS, Entry, Key},
    leaves::{Leaves, Position},
    place::{Place, Places},
};

/// The timers that are not next: a tree over the digits of their keys, whose
/// leaves are unsorted and split only when they grow large or come first.
///
/// A node stands for all keys that share the digits above its level, and has
/// two children at least; levels at which all keys agree are left out.
#[derive(Debug)]
pub(super) struct Far {
    root: Child,
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    leaves: Leaves,
    /// Entries on their way from a split leaf to its children.
    moving: Vec<Entry>,
}

#[derive(Debug)]
struct Node {
    /// Any key below the node.
    prefix: Key,
    /// The digit that tells its children apart.
    level: u8,
    parent: Parent,
    /// One bit a child.
    occupied: u64,
    children: [Child; DIGITS],
}

/// A node, a leaf or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Child(u32);

enum Kind {
    Nothing,
    Leaf(u32),
    Node(u32),
}

/// Where a child hangs: the node and the digit, or the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parent(u32);

impl Far {
    pub(super) const fn new() -> Self {
        Self {
            root: Child::NOTHING,
            nodes: Vec::new(),
            vacant: Vec::new(),
            leaves: Leaves::new(),
            moving: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn entry(&self, position: Position) -> Entry {
        self.leaves.entry(position)
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry, places: &mut impl Places) {
        let mut parent = Parent::ROOT;
        let mut child = self.root;
        loop {
            match child.kind() {
                Kind::Node(node) => parent = self.descend(node, entry.key),
                Kind::Leaf(leaf) if self.leaves.len(leaf) < LEAF_MAX => {
                    return self.push(leaf, entry, places);
                }
                Kind::Leaf(leaf) => self.split(leaf, places),
                Kind::Nothing => {
                    let leaf = self.leaves.create(parent.0);
                    self.hang(parent, Child::leaf(leaf));
                    return self.push(leaf, entry, places);
                }
            }
            child = self.child(parent);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, position: Position, places: &mut impl Places) {
        let removed = self.leaves.remove(position);
        if let Some(slot) = removed.moved_slot {
            places.put(slot, Place::Far(position));
        }
        if removed.leaf_len == 0 {
            self.prune(removed.leaf);
        }
    }

    /// Moves all entries of the first leaf to the end of `out` and returns the
    /// last key that belongs among them. A leaf of more than `count_max` is
    /// split before.
    pub(super) fn take_first(
        &mut self,
        count_max: usize,
        out: &mut Vec<Entry>,
        places: &mut impl Places,
    ) -> Option<Key> {
        let mut leaf = self.first_leaf()?;
        while self.leaves.len(leaf) > count_max {
            self.split(leaf, places);
            leaf = self.first_leaf()?;
        }
        while self.leaves.drain_block(leaf, out) {}
        let horizon = self.last_key_of(leaf, out.last()?.key);
        self.prune(leaf);
        Some(horizon)
    }

    /// How many entries [`Far::take_first`] would find in the first leaf.
    pub(super) fn first_len(&self) -> Option<usize> {
        Some(self.leaves.len(self.first_leaf()?))
    }

    /// The last key that would be put into `leaf`, where `any` is.
    fn last_key_of(&self, leaf: u32, any: Key) -> Key {
        let parent = Parent(self.leaves.parent(leaf)).node();
        let level = parent.map(|node| self.nodes[node as usize].level);
        level.map_or(Key::MAX, |level| any.last_of(level))
    }

    fn first_leaf(&self) -> Option<u32> {
        let mut child = self.root;
        loop {
            match child.kind() {
                Kind::Nothing => return None,
                Kind::Leaf(leaf) => return Some(leaf),
                Kind::Node(node) => child = self.nodes[node as usize].first(),
            }
        }
    }

    #[inline]
    fn push(&mut self, leaf: u32, entry: Entry, places: &mut impl Places) {
        let position = self.leaves.push(leaf, entry);
        places.put(entry.slot, Place::Far(position));
    }

    /// The place below `node` where `key` belongs; if it does not belong below
    /// it at all, a new node above both.
    #[inline]
    fn descend(&mut self, node: u32, key: Key) -> Parent {
        let Node { prefix, level, .. } = self.nodes[node as usize];
        let differing = key.differing_level(prefix);
        match differing > level {
            true => self.raise(node, prefix, differing, key),
            false => Parent::at(node, key.digit(level)),
        }
    }

    /// Puts a new node above `below`, at the level where `key` parts from it.
    #[cold]
    fn raise(&mut self, below: u32, prefix: Key, level: u8, key: Key) -> Parent {
        let parent = self.nodes[below as usize].parent;
        let node = self.create_node(prefix, level, parent);
        self.hang(parent, Child::node(node));
        let beside = Parent::at(node, prefix.digit(level));
        self.hang(beside, Child::node(below));
        self.nodes[below as usize].parent = beside;
        Parent::at(node, key.digit(level))
    }

    /// Puts a node in the place of a leaf and the entries into its children.
    fn split(&mut self, leaf: u32, places: &mut impl Places) {
        let parent = Parent(self.leaves.parent(leaf));
        let level = self.leaves.differing_level(leaf);
        let node = self.create_node(Key::MAX, level, parent);
        self.hang(parent, Child::node(node));
        let mut moving = std::mem::take(&mut self.moving);
        while self.leaves.drain_block(leaf, &mut moving) {
            for entry in moving.drain(..) {
                let at = Parent::at(node, entry.key.digit(level));
                let child = self.leaf_at(at);
                self.push(child, entry, places);
                self.nodes[node as usize].prefix = entry.key;
            }
        }
        self.moving = moving;
        self.leaves.release(leaf);
    }

    fn leaf_at(&mut self, at: Parent) -> u32 {
        if let Kind::Leaf(leaf) = self.child(at).kind() {
            return leaf;
        }
        let leaf = self.leaves.create(at.0);
        self.hang(at, Child::leaf(leaf));
        leaf
    }

    /// Takes an empty leaf away. A node left with one child gives it its place.
    fn prune(&mut self, leaf: u32) {
        let parent = Parent(self.leaves.parent(leaf));
        self.leaves.release(leaf);
        let Some(index) = parent.node() else {
            self.root = Child::NOTHING;
            return;
        };
        let node = &mut self.nodes[index as usize];
        node.children[parent.digit()] = Child::NOTHING;
        node.occupied &= !(1 << parent.digit());
        if node.occupied.is_power_of_two() {
            let (only, above) = (node.first(), node.parent);
            self.hang(above, only);
            match only.kind() {
                Kind::Leaf(leaf) => self.leaves.set_parent(leaf, above.0),
                Kind::Node(node) => self.nodes[node as usize].parent = above,
                Kind::Nothing => {}
            }
            self.release_node(index);
        }
    }

    fn child(&self, at: Parent) -> Child {
        match at.node() {
            None => self.root,
            Some(node) => self.nodes[node as usize].children[at.digit()],
        }
    }

    fn hang(&mut self, at: Parent, child: Child) {
        let Some(node) = at.node() else {
            self.root = child;
            return;
        };
        let node = &mut self.nodes[node as usize];
        node.children[at.digit()] = child;
        node.occupied |= 1 << at.digit();
    }

    fn create_node(&mut self, prefix: Key, level: u8, parent: Parent) -> u32 {
        let node = Node {
            prefix,
            level,
            parent,
            occupied: 0,
            children: [Child::NOTHING; DIGITS],
        };
        match self.vacant.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn release_node(&mut self, node: u32) {
        self.vacant.push(node);
        if self.vacant.len() == self.nodes.len() {
            self.nodes.clear();
            self.vacant.clear();
            self.nodes.shrink_to(NODES_KEPT);
            self.vacant.shrink_to(NODES_KEPT);
        }
    }
}

impl Node {
    fn first(&self) -> Child {
        self.children[self.occupied.trailing_zeros() as usize % DIGITS]
    }
}

impl Child {
    const NOTHING: Self = Self(u32::MAX);
    const NODE: u32 = 1 << 31;

    fn leaf(index: u32) -> Self {
        Self(index)
    }

    fn node(index: u32) -> Self {
        Self(Self::NODE | index)
    }

    #[inline]
    fn kind(self) -> Kind {
        match self {
            Self::NOTHING => Kind::Nothing,
            Self(index) if index & Self::NODE == 0 => Kind::Leaf(index),
            Self(index) => Kind::Node(index & !Self::NODE),
        }
    }
}

impl Parent {
    const ROOT: Self = Self(u32::MAX);

    #[inline]
    fn at(node: u32, digit: usize) -> Self {
        Self(node * DIGITS as u32 + digit as u32)
    }

    #[inline]
    fn node(self) -> Option<u32> {
        (self != Self::ROOT).then_some(self.0 / DIGITS as u32)
    }

    #[inline]
    fn digit(self) -> usize {
        self.0 as usize % DIGITS
    }
}

/// A leaf is split before it grows beyond, which bounds the longest pause.
const LEAF_MAX: usize = 4096;
const NODES_KEPT: usize = 16;
