//! An event that the cache and the queues share.
//!
//! Like an `Arc`, with two differences that make a publish cheaper: it has no
//! second count for weak references; and the memory of an event without
//! references can hold the next event, so that a publish which replaces an
//! event asks the allocator for nothing.

use super::garbage::Dropping;
use crate::{
    bus::{Event, panics::Held},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{
    alloc::{self, Layout},
    marker::PhantomData,
    mem::{self, ManuallyDrop, MaybeUninit},
    ops::Deref,
    ptr::NonNull,
};

/// One of the references to an event; the last one drops it.
pub(in crate::bus) struct SharedEvent<E> {
    node: NonNull<Node<E>>,
    owns: PhantomData<Node<E>>,
}

/// The node in which a shared event is stored.
pub(in crate::bus) struct Node<E> {
    /// References to the node, which is freed with the last of them.
    count: AtomicUsize,
    event: E,
}

/// Memory for a shared event.
pub(in crate::bus) struct Room<E>(Box<MaybeUninit<Node<E>>>);

/// An event on its way into a topic, or out of it.
pub(in crate::bus) enum Given<E> {
    /// Not shared yet.
    Plain(E),
    SharedEvent(SharedEvent<E>),
}

// SAFETY: a reference to a shared event gives out `&E` on any thread, and the
// last one drops the event on its own; `E: Send + Sync` allows both.
unsafe impl<E: Send + Sync> Send for SharedEvent<E> {}
// SAFETY: as above.
unsafe impl<E: Send + Sync> Sync for SharedEvent<E> {}

impl<E> SharedEvent<E> {
    pub(in crate::bus) fn new(event: E) -> Self {
        Self::within(Room::new(), event)
    }

    /// Creates a shared event in existing memory, without the allocator.
    #[inline(always)]
    pub(in crate::bus) fn within(Room(mut room): Room<E>, event: E) -> Self {
        let count = AtomicUsize::new(1);
        room.write(Node { count, event });
        // SAFETY: a node has just been written there.
        Self::from_box(unsafe { room.assume_init() })
    }

    #[inline(always)]
    fn from_box(node: Box<Node<E>>) -> Self {
        Self {
            node: NonNull::from(Box::leak(node)),
            owns: PhantomData,
        }
    }

    /// Takes the event out of its memory, if this is the only reference.
    #[inline(always)]
    pub(in crate::bus) fn take_apart(self) -> Result<(E, Room<E>), Self> {
        if !self.is_alone() {
            return Err(self);
        }
        let node = ManuallyDrop::new(self).node.as_ptr();
        // SAFETY: this was the last reference to the node, which came from a
        // box. The event is read once, and its memory no longer counts as
        // holding one.
        unsafe {
            let event = (&raw const (*node).event).read();
            Ok((event, Room(Box::from_raw(node.cast()))))
        }
    }

    /// The event itself, or a clone if there are other references. Runs user
    /// code: no lock may be held.
    pub(in crate::bus) fn unwrap_or_clone(self) -> E
    where
        E: Clone,
    {
        match self.take_apart() {
            Ok((event, _)) => event,
            Err(shared) => Held::lend(shared, |shared| E::clone(shared)),
        }
    }

    /// Whether this is the only reference. Then no other thread can make
    /// another one.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        // Ordered after everything that other threads did with their
        // references.
        self.count().load(Ordering::Acquire) == 1
    }

    pub(in crate::bus) fn is_same(one: &Self, other: &Self) -> bool {
        one.node == other.node
    }

    /// Where it is in memory.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.node.as_ptr().addr()
    }

    /// A raw pointer that owns this reference.
    #[inline(always)]
    pub(super) fn into_raw(self) -> *mut Node<E> {
        ManuallyDrop::new(self).node.as_ptr()
    }

    /// # Safety
    ///
    /// - The pointer came from [`Self::into_raw`], and stands for a reference
    ///   that now belongs to the caller.
    #[inline(always)]
    pub(super) unsafe fn from_raw(node: NonNull<Node<E>>) -> Self {
        let owns = PhantomData;
        Self { node, owns }
    }

    #[inline(always)]
    fn count(&self) -> &AtomicUsize {
        // SAFETY: the node is there as long as this reference.
        unsafe { &self.node.as_ref().count }
    }
}

impl<E> Room<E> {
    /// Ends the program if the allocator has no memory, or only such whose address has bits where
    /// the table keeps some of its own.
    pub(in crate::bus) fn new() -> Self {
        let room = Box::<Node<E>>::new_uninit();
        if room.as_ptr().addr() & TAG_MASK != 0 {
            alloc::handle_alloc_error(Layout::new::<Node<E>>());
        }
        Self(room)
    }
}

impl<E> Node<E> {
    #[inline(always)]
    pub(in crate::bus) fn event(&self) -> &E {
        &self.event
    }
}

impl<E> Clone for SharedEvent<E> {
    /// Runs no user code.
    #[inline(always)]
    fn clone(&self) -> Self {
        // It cannot overflow: each reference occupies memory.
        self.count().fetch_add(1, Ordering::Relaxed);
        let (node, owns) = (self.node, PhantomData);
        Self { node, owns }
    }
}

impl<E> Deref for SharedEvent<E> {
    type Target = E;

    #[inline(always)]
    fn deref(&self) -> &E {
        // SAFETY: the node is there as long as this reference.
        unsafe { &self.node.as_ref().event }
    }
}

impl<E> Drop for SharedEvent<E> {
    #[inline(always)]
    fn drop(&mut self) {
        // The only reference need not count down.
        if !self.is_alone() {
            if self.count().fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // An acquire load orders like a fence would, and ThreadSanitizer
            // understands it.
            self.count().load(Ordering::Acquire);
        }
        // SAFETY: this was the last reference to the node, which came from a
        // box.
        drop(unsafe { Box::from_raw(self.node.as_ptr()) });
    }
}

impl<E> Given<E> {
    #[inline(always)]
    pub(in crate::bus) fn event(&self) -> &E {
        match self {
            Self::Plain(event) => event,
            Self::SharedEvent(event) => event,
        }
    }
}

impl<E> Given<E> {
    /// Whether the event is too large to be moved under a lock.
    pub(in crate::bus) const IS_LARGE: bool = size_of::<E>() > 256;

    /// Whether its drop runs code.
    #[inline(always)]
    pub(in crate::bus) fn needs_drop(&self) -> bool {
        mem::needs_drop::<E>() || matches!(self, Self::SharedEvent(_))
    }

    /// Makes it shared, in memory of its own.
    pub(in crate::bus) fn into_shared(self) -> Self {
        match self {
            Self::Plain(event) => Self::SharedEvent(SharedEvent::new(event)),
            shared @ Self::SharedEvent(_) => shared,
        }
    }
}

impl<E: Event> Given<E> {
    /// Makes it shared, if possible in the memory of `overdue`; also returns
    /// what must then be dropped.
    #[inline(always)]
    pub(in crate::bus) fn share(
        self,
        overdue: Option<SharedEvent<E>>,
    ) -> (SharedEvent<E>, Option<Self>) {
        let event = match self {
            Self::Plain(event) => event,
            Self::SharedEvent(event) => return (event, overdue.map(Given::SharedEvent)),
        };
        match overdue.map(SharedEvent::take_apart) {
            Some(Ok((old, room))) => (SharedEvent::within(room, event), Some(Given::Plain(old))),
            Some(Err(old)) => (SharedEvent::new(event), Some(Given::SharedEvent(old))),
            None => (SharedEvent::new(event), None),
        }
    }
}

impl<E> Held<Given<E>> {
    /// Drops a replaced event that a publish left in this place. No lock may be
    /// held.
    #[inline(always)]
    pub(in crate::bus) fn drop_overdue(self) {
        let runs_code = mem::needs_drop::<E>() && self.get().is_some();
        let _dropping = runs_code.then(Dropping::begin);
        self.leave(Given::needs_drop);
    }
}

/// The bits of an address that no program on this processor has, so that the table keeps other things
/// there. The addresses of programs on x86-64 have 56 bits at most; those of other processors may have
/// marks of the allocator above them.
pub(super) const TAG_MASK: usize = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64"))
{
    usize::MAX << (usize::BITS - 8)
} else {
    0
};
