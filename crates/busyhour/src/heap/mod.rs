//! A general indexed heap: the top entry is known at once, and any entry can be
//! changed or removed through the [`HeapHandle`] that its push returned.
//!
//! ```
//! use busyhour::heap::Heap;
//!
//! let mut jobs = Heap::min();
//! let sweep = jobs.push((30, "sweep"));
//! jobs.push((20, "report"));
//! jobs.update(sweep, |job| job.0 = 10);
//! assert_eq!(jobs.peek(), Some(&(10, "sweep")));
//! assert_eq!(jobs.remove(sweep), Some((10, "sweep")));
//! assert_eq!(jobs.pop(), Some((20, "report")));
//! ```
//!
//! # Locking
//!
//! A [`Heap`] has no lock inside, on purpose. Some owners need none. Others
//! must keep the heap unchanged over several calls, for example while they walk
//! it with [`Heap::peek_at`], and a lock for each call would not do that. Rust
//! enforces the rule: methods that change the heap take `&mut self`. Share it
//! under the lock that already guards the rest of your state, or use
//! [`Locked`], which keeps a heap behind a mutex of its own.
//!
//! # Where your code runs
//!
//! | your code | where | when it panics |
//! |---|---|---|
//! | [`Order`], `Ord` | push, pop, remove, update, before anything moves | goes to the caller, see below |
//! | what [`Heap::update`] is given | on the entry in place | goes to the caller, see below |
//! | drop of an entry | [`Heap::clear`] and the drop of the heap; otherwise the caller has it | goes to the caller; the heap is whole |
//!
//! A [`Heap`] holds no lock meanwhile. A [`Locked`] heap holds its own, and
//! panics if it is used from inside.
//!
//! # Guarantees
//!
//! - Push, pop, update and remove take O(log n) comparisons, peek O(1).
//! - Entries that compare equal are returned in no defined order. If their
//!   order matters, add a sequence number to the entry.
//! - If a comparison panics, no entry is lost: the push, pop or remove has not
//!   happened, and the heap is as it was before. In [`Heap::update`] the entry
//!   has changed by then; the next call that changes the heap first moves it to
//!   its right position.
//! - A handle never identifies a later entry: it contains a generation, and a
//!   place whose generations are used up is not reused.

mod handle;
mod locked;
mod order;

pub use handle::HeapHandle;
pub use locked::Locked;
pub use order::{Max, Min, Order};

use handle::Positions;
use std::{cmp::Ordering, fmt};

/// A heap of `T`, ordered by `C`; see the [module](self) for an example.
#[doc(alias("ast_heap", "priority queue", "BinaryHeap"))]
#[derive(Clone)]
pub struct Heap<T, C = Min> {
    nodes: Vec<HeapNode<T>>,
    places: Positions,
    order: C,
    /// An entry whose update was interrupted by a panic, so that it may be out
    /// of order. All other entries are in order.
    unsettled: Option<u32>,
}

/// An entry at its position in heap order.
#[derive(Clone)]
struct HeapNode<T> {
    place: u32,
    value: T,
}

impl<T: Ord> Heap<T, Min> {
    /// A heap with the least entry on top.
    pub const fn min() -> Self {
        Self::ordered_by(Min)
    }
}

impl<T: Ord> Heap<T, Max> {
    /// A heap with the greatest entry on top.
    pub const fn max() -> Self {
        Self::ordered_by(Max)
    }
}

impl<T, C> Heap<T, C> {
    /// Children per node: with more children the heap is flatter and a pop
    /// compares more.
    pub const ARITY: usize = 4;

    /// A heap with its entries ordered by `order`; the entry that sorts first
    /// is on top.
    ///
    /// ```
    /// use busyhour::heap::Heap;
    ///
    /// let mut names = Heap::ordered_by(|a: &&str, b: &&str| a.len().cmp(&b.len()));
    /// names.push("conference");
    /// names.push("fax");
    /// assert_eq!(names.pop(), Some("fax"));
    /// ```
    pub const fn ordered_by(order: C) -> Self {
        Self {
            nodes: Vec::new(),
            places: Positions::new(),
            order,
            unsettled: None,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The entry on top.
    pub fn peek(&self) -> Option<&T> {
        self.peek_at(0)
    }

    /// The entry at `position` in heap order, for a traversal without changes.
    ///
    /// Position 0 is the top; no entry sorts before its parent, which is at
    /// `(position - 1) / Heap::ARITY`. Positions change with every change of
    /// the heap. Returns `None` for positions from [`Heap::len`] on.
    ///
    /// ```
    /// use busyhour::heap::Heap;
    ///
    /// let mut heap = Heap::min();
    /// (1..=5).for_each(|n| { heap.push(n); });
    /// let mut position = 0;
    /// while let Some(entry) = heap.peek_at(position) {
    ///     assert!(heap.peek() <= Some(entry));
    ///     position += 1;
    /// }
    /// assert_eq!(position, heap.len());
    /// ```
    pub fn peek_at(&self, position: usize) -> Option<&T> {
        self.nodes.get(position).map(|node| &node.value)
    }

    /// The handle of the entry on top.
    pub fn peek_handle(&self) -> Option<HeapHandle> {
        let top = self.nodes.first()?;
        Some(self.places.handle(top.place))
    }

    /// The entry of `handle`; `None` once it has left the heap.
    pub fn get(&self, handle: HeapHandle) -> Option<&T> {
        self.peek_at(self.places.position(handle)?)
    }

    /// Whether the entry of `handle` is still in the heap.
    pub fn contains(&self, handle: HeapHandle) -> bool {
        self.places.position(handle).is_some()
    }

    /// All entries, in heap order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().map(|node| &node.value)
    }

    /// Drops all entries; their handles become invalid.
    pub fn clear(&mut self) {
        while let Some(node) = self.nodes.pop() {
            self.places.release(node.place);
        }
        self.unsettled = None;
    }

    /// Gives unused memory back to the allocator.
    pub fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.places.shrink_to_fit();
    }
}

impl<T, C: Order<T>> Heap<T, C> {
    /// Adds an entry and returns its handle.
    ///
    /// # Panics
    ///
    /// At 2³² entries. If a comparison panics; `value` is then dropped.
    pub fn push(&mut self, value: T) -> HeapHandle {
        let target = self.target_of(&value);
        self.insert(target, value)
    }

    /// Takes the entry on top.
    pub fn pop(&mut self) -> Option<T> {
        self.settle_last_update();
        self.remove_at(0)
    }

    /// Takes the entry that `handle` names; `None` if it has left before.
    pub fn remove(&mut self, handle: HeapHandle) -> Option<T> {
        let position = self.places.position(handle)?;
        if self.unsettled == Some(handle.place()) {
            // Wherever it belongs: it is not compared with anything any more.
            let removed = self.remove_at(position);
            self.unsettled = None;
            return removed;
        }
        self.settle_last_update();
        self.remove_at(self.places.position(handle)?)
    }

    /// Changes an entry in place and moves it to where it now belongs.
    ///
    /// Returns what `change` returned, or `None` if the entry has left before.
    /// If `change` or a comparison panics, the entry stays as `change` left it.
    /// The next push, pop, remove or update puts it in order; until then the
    /// top may be another one than it should be.
    pub fn update<R>(&mut self, handle: HeapHandle, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.unsettled != Some(handle.place()) {
            self.settle_last_update();
        }
        let position = self.places.position(handle)?;
        self.unsettled = Some(handle.place());
        let result = change(&mut self.nodes[position].value);
        self.settle_last_update();
        Some(result)
    }

    /// Checks every parent against its children and every handle against its entry.
    ///
    /// # Errors
    ///
    /// The first violation found. Only a comparison that contradicts itself,
    /// or a panic in the last update, can bring one about.
    pub fn verify(&self) -> Result<(), Violation> {
        for position in 0..self.nodes.len() {
            let violation = Violation { position };
            let found = self.places.position_of(self.nodes[position].place);
            if found != Some(position) || (position > 0 && self.sorts_before_parent(position)) {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// Where a new entry with `value` belongs.
    fn target_of(&mut self, value: &T) -> usize {
        self.settle_last_update();
        self.way_up(value, self.nodes.len())
    }

    /// Adds an entry that belongs at `target`; compares nothing.
    fn insert(&mut self, target: usize, value: T) -> HeapHandle {
        let position = self.nodes.len();
        let handle = self.places.claim(position);
        let place = handle.place();
        self.nodes.push(HeapNode { place, value });
        self.raise(position, target);
        handle
    }

    /// First compares, then moves: what a comparison's panic leaves behind is
    /// what was there before.
    fn remove_at(&mut self, position: usize) -> Option<T> {
        let last = self.nodes.len().checked_sub(1)?;
        let mover = &self.nodes.get(last)?.value;
        let target = self.way_up(mover, position.min(last));
        let way = match target == position {
            true => self.way_down(mover, position, last),
            false => Way::default(),
        };
        let removed = self.nodes.swap_remove(position);
        self.places.release(removed.place);
        if position < last {
            self.place(position);
            self.raise(position, target);
            self.lower(position, &way);
        }
        Some(removed.value)
    }

    /// Puts the entry in order whose update was the last, if that was cut short.
    fn settle_last_update(&mut self) {
        let Some(place) = self.unsettled else {
            return;
        };
        if let Some(position) = self.places.position_of(place) {
            self.settle(position);
        }
        self.unsettled = None;
    }

    fn settle(&mut self, position: usize) {
        let value = &self.nodes[position].value;
        let target = self.way_up(value, position);
        if target < position {
            self.raise(position, target);
        } else {
            let way = self.way_down(value, position, self.nodes.len());
            self.lower(position, &way);
        }
    }

    /// Where `value` belongs among the ancestors of `position`; there if it
    /// does not sort before its parent.
    fn way_up(&self, value: &T, mut position: usize) -> usize {
        while position > 0 && self.sorts(value, self.value_at(Self::parent(position))) {
            position = Self::parent(position);
        }
        position
    }

    /// The way on which `value` sinks from `position`, among the entries
    /// before `end`.
    fn way_down(&self, value: &T, mut position: usize, end: usize) -> Way {
        let mut way = Way::default();
        while let Some(child) = self.first_child(position, end) {
            if !self.sorts(self.value_at(child), value) {
                break;
            }
            way.push(child);
            position = child;
        }
        way
    }

    fn raise(&mut self, mut position: usize, target: usize) {
        while position > target {
            let parent = Self::parent(position);
            self.swap(position, parent);
            position = parent;
        }
    }

    fn lower(&mut self, mut position: usize, way: &Way) {
        for &child in way.steps() {
            self.swap(position, child as usize);
            position = child as usize;
        }
    }

    /// The child that sorts first, among the entries before `end`.
    fn first_child(&self, position: usize, end: usize) -> Option<usize> {
        let begin = position * Self::ARITY + 1;
        let end = (begin + Self::ARITY).min(end);
        (begin..end).reduce(|first, other| match self.sorts_before(other, first) {
            true => other,
            false => first,
        })
    }

    fn sorts_before_parent(&self, position: usize) -> bool {
        self.sorts_before(position, Self::parent(position))
    }

    fn sorts_before(&self, a: usize, b: usize) -> bool {
        self.sorts(self.value_at(a), self.value_at(b))
    }

    /// Whether `a` sorts before `b`.
    fn sorts(&self, a: &T, b: &T) -> bool {
        self.order.compare(a, b) == Ordering::Less
    }

    fn value_at(&self, position: usize) -> &T {
        &self.nodes[position].value
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.nodes.swap(a, b);
        self.place(a);
        self.place(b);
    }

    fn place(&mut self, position: usize) {
        self.places.moved(self.nodes[position].place, position);
    }

    fn parent(position: usize) -> usize {
        (position - 1) / Self::ARITY
    }
}

/// The positions that an entry passes when it sinks, from parent to child.
#[derive(Default)]
struct Way {
    steps: [u32; DEPTH_MAX],
    len: usize,
}

impl Way {
    fn push(&mut self, position: usize) {
        self.steps[self.len] = position as u32;
        self.len += 1;
    }

    fn steps(&self) -> &[u32] {
        &self.steps[..self.len]
    }
}

/// Four children a node, and fewer than 2³² entries.
const DEPTH_MAX: usize = 16;

impl<T: Ord> Default for Heap<T, Min> {
    fn default() -> Self {
        Self::min()
    }
}

impl<T: fmt::Debug, C> fmt::Debug for Heap<T, C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

/// What [`Heap::verify`] found: an entry that is out of order or out of reach.
///
/// ```
/// use busyhour::heap::Heap;
/// use std::cell::Cell;
///
/// let first = Cell::new(5);
/// let mut heap = Heap::ordered_by(|a: &&Cell<i32>, b: &&Cell<i32>| a.get().cmp(&b.get()));
/// heap.push(&first);
/// let second = Cell::new(7);
/// heap.push(&second);
/// assert_eq!(heap.verify(), Ok(()));
/// second.set(1); // behind the heap's back: `update` would have moved the entry
/// assert_eq!(heap.verify().unwrap_err().position, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// Where in heap order.
    pub position: usize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, .. } = self;
        write!(
            f,
            "the heap's entry at position {position} sorts before its parent or is lost to its handle"
        )
    }
}

impl std::error::Error for Violation {}
