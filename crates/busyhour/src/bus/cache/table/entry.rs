//! Where a slot's event is: the one word that a lookup reads of a slot.

use super::super::{
    epoch::Pin,
    lines::Zeroed,
    shared::{Node, TAG_MASK},
};
use crate::{
    bus::{
        Event,
        packing::{PackedEvent, Packing},
    },
    sync::{
        atomic::{AtomicPtr, Ordering, fence},
        load_sequential_pointer,
    },
};
use std::ptr;

/// A [`TaggedEvent`], written under the shard's lock, read by any thread that is pinned; or a word of
/// the packed event that follows one. The entries of a table stand beside one another and the rest of
/// its slots elsewhere, so a lookup touches an eighth of a line for a slot, and then the event.
pub(super) struct CacheEntry<E>(AtomicPtr<Node<E>>);

/// The pointer to an event, with what a search has to know before it follows it.
pub(super) struct TaggedEvent<E>(*mut Node<E>);

/// The entry of one slot, and the words of the packed event.
pub(super) struct EntryCells<'a, E> {
    entry: &'a CacheEntry<E>,
    /// Empty unless events of this type are packed.
    words: &'a [CacheEntry<E>],
}

/// What a lookup does after it has read an entry.
pub(super) enum EntryProbe<R> {
    /// The key has no value.
    End,
    /// Goes on: there is nothing here, or it is another key's.
    Pass,
    /// What the lookup said about the event.
    Found(R),
}

impl<E: Event> CacheEntry<E> {
    /// How many of these a slot has.
    pub(super) const WIDTH: usize = match Packing::<E>::of() {
        Some(packing) => 1 + packing.word_count(),
        None => 1,
    };
}

impl<E> CacheEntry<E> {
    /// For the writer, which alone changes it.
    #[inline(always)]
    fn get(&self) -> TaggedEvent<E> {
        TaggedEvent(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set(&self, to: TaggedEvent<E>) {
        self.0.store(to.0, Ordering::Release);
    }

    #[inline(always)]
    fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed).addr() as u64
    }

    #[inline(always)]
    fn set_word(&self, word: u64) {
        let word = ptr::without_provenance_mut(word as usize);
        self.0.store(word, Ordering::Relaxed);
    }
}

impl<E> Clone for EntryCells<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for EntryCells<'_, E> {}

impl<'a, E: Event> EntryCells<'a, E> {
    /// Those of one slot, in a row of all.
    ///
    /// # Safety
    ///
    /// - The row has [`CacheEntry::WIDTH`] entries for each slot, and more slots than the index.
    #[inline(always)]
    pub(super) unsafe fn at(row: &'a [CacheEntry<E>], index: usize) -> Self {
        let begin = index * CacheEntry::<E>::WIDTH;
        debug_assert!(begin + CacheEntry::<E>::WIDTH <= row.len());
        // SAFETY: the row is as long as the caller says.
        let cells = unsafe { row.get_unchecked(begin..begin + CacheEntry::<E>::WIDTH) };
        // SAFETY: the width is at least one.
        let (entry, words) = unsafe { (cells.get_unchecked(0), cells.get_unchecked(1..)) };
        Self { entry, words }
    }

    pub(super) fn address(self) -> usize {
        ptr::from_ref(self.entry).addr()
    }

    /// For a reader without a lock.
    #[inline(always)]
    pub(super) fn load(self, _pin: &Pin<'_>) -> TaggedEvent<E> {
        TaggedEvent(load_sequential_pointer(&self.entry.0))
    }

    /// For the writer, which alone changes it.
    #[inline(always)]
    pub(super) fn get(self) -> TaggedEvent<E> {
        self.entry.get()
    }

    /// For the writer: sets the entry, and the words of the event if they are known. The module's
    /// README.md says why a reader does not mix the words of two events.
    #[inline(always)]
    pub(super) fn set(self, to: TaggedEvent<E>, packed: Option<PackedEvent>) {
        let Some(packed) = packed.filter(|_| !self.words.is_empty()) else {
            return self.entry.set(to);
        };
        self.entry.set(self.entry.get().without_words());
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(packed) {
            cell.set_word(word);
        }
        self.entry.set(to.with_words());
    }

    /// For the writer: the words, if they are the event's.
    pub(super) fn packed(self) -> Option<PackedEvent> {
        self.get().has_words().then(|| self.words())
    }

    #[inline(always)]
    fn words(self) -> PackedEvent {
        let mut packed = PackedEvent::default();
        for (word, cell) in packed.iter_mut().zip(self.words) {
            *word = cell.word();
        }
        packed
    }

    /// What a search for a last value with this hash finds here.
    #[inline(always)]
    pub(super) fn probe<R>(
        self,
        hash: u64,
        pin: &Pin<'_>,
        look: impl FnOnce(&E) -> R,
    ) -> EntryProbe<R> {
        let tagged = self.load(pin);
        if tagged.is_live_with(hash) {
            if let Some(found) = self.look_at(&tagged, pin, look) {
                return EntryProbe::Found(found);
            }
        }
        match tagged.is_empty() {
            true => EntryProbe::End,
            false => EntryProbe::Pass,
        }
    }

    /// The same of a key that may have been removed, if `has_hash`, which is asked after the entry
    /// has been read, says so.
    #[inline(always)]
    pub(super) fn probe_all<R>(
        self,
        hash: u64,
        pin: &Pin<'_>,
        has_hash: impl FnOnce() -> bool,
        look: impl FnOnce(&E) -> R,
    ) -> EntryProbe<R> {
        let tagged = self.load(pin);
        if tagged.is_empty() {
            return EntryProbe::End;
        }
        if !tagged.is_with(hash) || !has_hash() {
            return EntryProbe::Pass;
        }
        self.look_at(&tagged, pin, look)
            .map_or(EntryProbe::Pass, EntryProbe::Found)
    }

    /// `tagged` was loaded from here while the pin was held.
    #[inline(always)]
    fn look_at<R>(
        self,
        tagged: &TaggedEvent<E>,
        _pin: &Pin<'_>,
        look: impl FnOnce(&E) -> R,
    ) -> Option<R> {
        if let Some(packing) = Packing::<E>::of().filter(|_| tagged.has_words()) {
            let packed = self.words();
            fence(Ordering::Acquire);
            if self.get().0 == tagged.0 {
                return Some(look(&packing.unpack(packed)));
            }
        }
        // SAFETY: it is null or points to an event whose reference the writer gives up only after
        // the pin has ended.
        unsafe { tagged.node().as_ref() }.map(|node| look(node.event()))
    }
}

impl<E> TaggedEvent<E> {
    /// Nothing yet: a search ends here.
    pub(super) const EMPTY: Self = Self(ptr::null_mut());
    /// No longer anything: a search goes on.
    pub(super) const VACATED: Self = Self(ptr::without_provenance_mut(NOT_LIVE));

    /// The event of a key with this hash.
    #[inline(always)]
    pub(super) fn live(node: *mut Node<E>, hash: u64) -> Self {
        let others = TAG_MASK | NOT_LIVE | HAS_WORDS;
        debug_assert_eq!(node.addr() & others, 0, "see `Room::new`");
        Self(node.map_addr(|address| address | tag(hash)))
    }

    /// Another event of the same key.
    #[inline(always)]
    pub(super) fn replaced_by(&self, node: *mut Node<E>) -> Self {
        Self(node.map_addr(|address| address | self.0.addr() & TAG_MASK))
    }

    /// The same event, whose words follow.
    #[inline(always)]
    fn with_words(&self) -> Self {
        Self(self.0.map_addr(|address| address | HAS_WORDS))
    }

    /// The same event, whose words do not follow any more.
    #[inline(always)]
    fn without_words(&self) -> Self {
        Self(self.0.map_addr(|address| address & !HAS_WORDS))
    }

    #[inline(always)]
    fn has_words(&self) -> bool {
        self.0.addr() & HAS_WORDS != 0
    }

    /// The same event, of a key that was removed: lookups pass it.
    #[inline(always)]
    pub(super) fn removed(&self) -> Self {
        Self(self.0.map_addr(|address| address | NOT_LIVE))
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Whether a key with this hash may have its last value here. Of an empty entry the answer may be wrong: whoever looks
    /// at it finds nothing.
    #[inline(always)]
    pub(super) fn is_live_with(&self, hash: u64) -> bool {
        self.0.addr() & (TAG_MASK | NOT_LIVE) == tag(hash)
    }

    /// Whether a key with this hash may have its event here, be it a removed one.
    #[inline(always)]
    pub(super) fn is_with(&self, hash: u64) -> bool {
        self.0.addr() & TAG_MASK == tag(hash)
    }

    /// The event's memory; null if there is none.
    #[inline(always)]
    pub(super) fn node(&self) -> *mut Node<E> {
        self.0
            .map_addr(|address| address & !(TAG_MASK | NOT_LIVE | HAS_WORDS))
    }
}

/// The bits of a hash that are compared before an event is read. Others choose the slot.
#[inline(always)]
fn tag(hash: u64) -> usize {
    hash as usize & TAG_MASK
}

// SAFETY: zero is the null pointer, an empty entry.
unsafe impl<E> Zeroed for CacheEntry<E> {
    fn zeroed() -> Self {
        Self(AtomicPtr::new(TaggedEvent::EMPTY.0))
    }
}

/// The bit that is zero in the address of an event, and says that a lookup finds nothing here.
const NOT_LIVE: usize = 1;
/// The same, and says that the event's words follow.
const HAS_WORDS: usize = 2;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::bus::cache::shared::SharedEvent;

    #[test]
    fn an_entry_tells_hashes_apart_and_keeps_the_event() {
        let node = SharedEvent::new(7_u32).into_raw();
        for hash in [0, 1 << 56, u64::MAX, 0x8100_0000_0000_0001] {
            let live = TaggedEvent::live(node, hash);
            assert!(live.is_live_with(hash) && live.is_with(hash) && !live.is_empty());
            assert_eq!(live.node(), node);
            let is_tagged = TAG_MASK != 0;
            assert_eq!(live.is_live_with(hash ^ 1 << 60), !is_tagged);
            assert_eq!(live.with_words().node(), node);
            assert!(live.with_words().is_live_with(hash) && !live.has_words());
            assert!(!live.with_words().without_words().has_words());
            let removed = live.removed();
            assert!(!removed.is_live_with(hash) && removed.is_with(hash));
            assert_eq!(removed.node(), node);
            assert!(removed.replaced_by(node).is_live_with(hash));
            let vacated = TaggedEvent::<u32>::VACATED;
            assert!(!vacated.is_live_with(hash) && !vacated.is_empty());
            assert!(vacated.node().is_null());
        }
        let node = ptr::NonNull::new(node).unwrap();
        // SAFETY: the reference is the one that was made a pointer above.
        drop(unsafe { SharedEvent::from_raw(node) });
    }
}
