//! The slots of a table, and what one holds: written under the shard's lock, read by any thread
//! that is pinned.

use super::{
    super::{
        epoch::Pin,
        lines::{LINE_BYTES, Lines, Zeroed},
        shared::{Node, SharedEvent},
        slot_word::{SlotKind, SlotWord},
    },
    CachedChange, Seen, SlotPosition, SlotTenure,
};
use crate::sync::{
    atomic::{AtomicPtr, AtomicU64, Ordering},
    load_sequential_pointer,
};
use std::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    slice,
};

/// The memory of slots, as many as a power of two. It is behind the shard's lock; others follow its
/// [`SlotArray::tagged`] pointer.
pub(in crate::bus) struct SlotArray<E>(Lines<CacheSlot<E>>);

/// The slots of an array, for whoever may use them now.
pub(in crate::bus) struct CacheSlots<'a, E> {
    pub(super) slots: &'a [CacheSlot<E>],
}

/// Written under the shard's lock, read by any thread that is pinned.
pub(super) struct CacheSlot<E> {
    /// A [`SlotWord`].
    pub(super) word: AtomicU64,
    /// Written before the word says that the slot is in use.
    pub(super) hash: AtomicU64,
    /// The version at which the key got the slot.
    pub(super) born: AtomicU64,
    /// The event's [`SharedEvent`], while the word says live or removed;
    /// otherwise null.
    pub(super) event: AtomicPtr<Node<E>>,
}

impl<E> SlotArray<E> {
    /// Slots of the smallest array.
    pub(super) const LEN_MIN: usize = 8;

    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        let new = Self(Lines::zeroed(len));
        new.touch();
        new
    }

    /// Writes to each page of a large array. Otherwise a search would be the first to touch it: the
    /// system would give it a page of zeros that others share, and at the first write another one,
    /// for which it interrupts all processors.
    fn touch(&self) {
        let step = PAGE_BYTES / size_of::<CacheSlot<E>>();
        for slot in self.0.iter().step_by(step) {
            slot.set_word(SlotWord::EMPTY);
        }
    }

    /// The size for this many events: with room for at most as many again.
    pub(super) fn len_for(used: usize) -> usize {
        (used * 2).next_power_of_two().max(Self::LEN_MIN)
    }

    pub(super) fn slots(&self) -> CacheSlots<'_, E> {
        CacheSlots { slots: &self.0 }
    }

    /// The address of the first slot, with the logarithm of the length in the bits that are zero
    /// since an array begins on a line. So a search needs one load, and no line, to find the array.
    pub(super) fn tagged(&self) -> *mut CacheSlot<E> {
        let tag = self.0.len().trailing_zeros() as usize;
        let first = self.0.as_ptr().cast_mut();
        debug_assert!(first.addr() % LINE_BYTES == 0 && tag < LINE_BYTES);
        first.map_addr(|address| address | tag)
    }
}

/// The address of the first slot, and the length, of a [`SlotArray::tagged`] pointer.
#[inline(always)]
pub(super) fn untagged<E>(tagged: *mut CacheSlot<E>) -> (*const CacheSlot<E>, usize) {
    let first = tagged.map_addr(|address| address & !(LINE_BYTES - 1));
    (first, 1 << (tagged.addr() % LINE_BYTES))
}

impl<'a, E> CacheSlots<'a, E> {
    /// # Safety
    ///
    /// - The pointer came from [`SlotArray::tagged`], and the array lives as long as `'a`.
    #[inline(always)]
    pub(super) unsafe fn of_tagged(tagged: *mut CacheSlot<E>) -> Self {
        let (first, len) = untagged(tagged);
        // SAFETY: so many slots begin there, and the array is there for `'a`. Slots are changed only
        // as atomics.
        let slots = unsafe { slice::from_raw_parts(first, len) };
        Self { slots }
    }

    /// How many slots may be in use before the table grows.
    pub(super) fn used_max(self) -> usize {
        self.slots.len() / 8 * 5
    }

    /// The slots in which an event with this hash may be, in probe order.
    #[inline(always)]
    pub(super) fn probe(self, hash: u64) -> impl Iterator<Item = (usize, &'a CacheSlot<E>)> {
        let (from, slots) = (hash as usize, self.slots);
        (0..slots.len()).map(move |step| {
            let index = from.wrapping_add(step) & (slots.len() - 1);
            (index, &slots[index])
        })
    }

    /// The slot, if it still belongs to the key that was seen in it.
    #[inline(always)]
    pub(super) fn place_at(
        self,
        SlotTenure { index, born }: SlotTenure,
        hash: u64,
    ) -> Option<(&'a CacheSlot<E>, SlotPosition)> {
        let slot = self.slots.get(index)?;
        let word = slot.word();
        let is_same = slot.born.load(Ordering::Relaxed) == born
            && slot.hash.load(Ordering::Relaxed) == hash
            && matches!(word.kind(), SlotKind::Live | SlotKind::Removed);
        is_same.then_some((slot, SlotPosition { index, born, word }))
    }

    /// Whether every slot with this hash was seen and belongs to another key.
    #[cold]
    pub(super) fn is_absent(self, hash: u64, seen: &Seen) -> bool {
        let in_use = self
            .probe(hash)
            .take_while(|(_, slot)| slot.word() != SlotWord::EMPTY);
        let same_hash =
            in_use.filter(|(_, slot)| !slot.is_free() && slot.hash.load(Ordering::Relaxed) == hash);
        let mut tenures = same_hash.map(|(index, slot)| SlotTenure {
            index,
            born: slot.born.load(Ordering::Relaxed),
        });
        tenures.all(|tenure| seen.others.contains(&tenure))
    }
}

impl<E> Clone for CacheSlots<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for CacheSlots<'_, E> {}

// SAFETY: zero is the word of an empty slot, whose hash and stay nobody looks
// at, and the null pointer.
unsafe impl<E> Zeroed for CacheSlot<E> {
    fn zeroed() -> Self {
        Self {
            word: AtomicU64::new(SlotWord::EMPTY.bits()),
            hash: AtomicU64::new(0),
            born: AtomicU64::new(0),
            event: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl<E> CacheSlot<E> {
    /// The word, for the writer, which alone changes it.
    #[inline(always)]
    pub(super) fn word(&self) -> SlotWord {
        SlotWord::from_bits(self.word.load(Ordering::Relaxed))
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self.word().kind(), SlotKind::Empty | SlotKind::Vacated)
    }

    /// The current event, for a reader without a lock.
    #[inline(always)]
    pub(super) fn read<'a>(&'a self, _pin: &'a Pin<'_>) -> Option<&'a E> {
        let event = load_sequential_pointer(&self.event);
        // SAFETY: it is null or points to an event whose reference the writer
        // gives up only after this pin has ended.
        unsafe { event.as_ref() }.map(Node::event)
    }

    /// A new reference to the event, for the writer.
    pub(super) fn share(&self) -> Option<SharedEvent<E>> {
        let event = NonNull::new(self.event.load(Ordering::Relaxed))?;
        // SAFETY: the slot holds a reference, which only the writer gives up,
        // and which is left to it here.
        let shared = ManuallyDrop::new(unsafe { SharedEvent::from_raw(event) });
        Some(SharedEvent::clone(&shared))
    }

    /// The current event, for a reader that may want a reference of its own later.
    #[inline(always)]
    pub(super) fn pinned<'a>(&'a self, _pin: &'a Pin<'_>) -> Option<PinnedEvent<'a, E>> {
        let node = NonNull::new(load_sequential_pointer(&self.event))?;
        let pinned = PhantomData;
        Some(PinnedEvent { node, pinned })
    }

    #[inline(always)]
    pub(super) fn set_word(&self, word: SlotWord) {
        self.word.store(word.bits(), Ordering::Release);
    }

    /// Puts an event into a free slot.
    pub(super) fn fill(&self, hash: u64, version: u64, event: SharedEvent<E>) {
        self.hash.store(hash, Ordering::Relaxed);
        // After the previous tenure's pointer became null, and before the new
        // pointer: see `CacheTable::look`.
        self.born.store(version, Ordering::Release);
        let empty = self.exchange(Some(event));
        debug_assert!(empty.is_none(), "a free slot has no event");
        self.set_word(SlotWord::new(SlotKind::Live, version));
    }

    /// Puts an event in the place of the one there.
    #[inline(always)]
    pub(super) fn replace(&self, word: SlotWord, event: SharedEvent<E>) -> Option<SharedEvent<E>> {
        let old = self.exchange(Some(event));
        self.set_word(word);
        old
    }

    /// Takes the event out; probes continue past the slot.
    pub(super) fn vacate(&self, version: u64) -> Option<SharedEvent<E>> {
        self.set_word(SlotWord::new(SlotKind::Vacated, version));
        self.exchange(None)
    }

    /// For the writer: replaces the slot's reference.
    #[inline(always)]
    pub(super) fn exchange(&self, event: Option<SharedEvent<E>>) -> Option<SharedEvent<E>> {
        let old = NonNull::new(self.event.load(Ordering::Relaxed));
        let new = event.map_or(ptr::null_mut(), SharedEvent::into_raw);
        self.event.store(new, Ordering::Release);
        // SAFETY: what is not null came from `SharedEvent::into_raw`, and the slot's
        // one reference now belongs to the caller.
        old.map(|old| unsafe { SharedEvent::from_raw(old) })
    }

    /// The slot's reference, when there are no readers any more.
    pub(super) fn take(&self) -> Option<SharedEvent<E>> {
        self.exchange(None)
    }

    /// Copies a used slot into an array that no other thread sees yet. Readers
    /// of the old array still find the event there.
    pub(super) fn copy_to(&self, slots: CacheSlots<'_, E>) {
        let hash = self.hash.load(Ordering::Relaxed);
        let Some((_, slot)) = slots.probe(hash).find(|(_, slot)| slot.is_free()) else {
            unreachable!("the new array has room for all");
        };
        slot.hash.store(hash, Ordering::Relaxed);
        let born = self.born.load(Ordering::Relaxed);
        slot.born.store(born, Ordering::Relaxed);
        let event = self.event.load(Ordering::Relaxed);
        slot.event.store(event, Ordering::Relaxed);
        slot.set_word(self.word());
    }

    /// The change of this version, if it is the slot's last one.
    pub(super) fn change_at(&self, version: u64) -> Option<CachedChange<E>> {
        (self.word().version() == version)
            .then(|| self.change_since(version - 1))
            .flatten()
    }

    pub(super) fn change_since(&self, version: u64) -> Option<CachedChange<E>> {
        let word = self.word();
        if self.is_free() || word.version() <= version {
            return None;
        }
        let event = self.share()?;
        Some(CachedChange { word, event })
    }
}

/// Of most systems; smaller than those of the others.
const PAGE_BYTES: usize = 4096;

/// An event that was a slot's last one while the pin was held, which has not ended yet.
pub(in crate::bus) struct PinnedEvent<'a, E> {
    node: NonNull<Node<E>>,
    pinned: PhantomData<&'a E>,
}

impl<'a, E> PinnedEvent<'a, E> {
    #[inline(always)]
    pub(in crate::bus) fn event(&self) -> &'a E {
        // SAFETY: the writer gives up the slot's reference only after the pin has ended.
        unsafe { self.node.as_ref() }.event()
    }

    /// A reference of its own, which may outlive the pin.
    #[inline(always)]
    pub(in crate::bus) fn share(&self) -> SharedEvent<E> {
        // SAFETY: until the pin has ended there is the slot's reference, or that of what the
        // slot held; it is left there. So the count is not zero before it is raised here.
        let shared = ManuallyDrop::new(unsafe { SharedEvent::from_raw(self.node) });
        SharedEvent::clone(&shared)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_at_five_eighths_and_has_room_for_as_many_again() {
        let used_max = |len| SlotArray::<u64>::new(len).slots().used_max();
        assert_eq!([8, 64, 1024].map(used_max), [5, 40, 640]);
        for used in 1..1_000 {
            let len = SlotArray::<u64>::len_for(used);
            assert!(used_max(len) > used, "{used} in {len}");
            assert!(len <= (4 * used).max(8), "{used} in {len}");
        }
    }
}
