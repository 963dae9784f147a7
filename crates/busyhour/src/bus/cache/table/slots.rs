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
    entry::{CacheEntry, EntryCells, TaggedEvent},
    tags::{SlotTags, TagWindow},
};
use crate::{
    bus::{Event, packing::PackedEvent},
    sync::atomic::{AtomicU64, Ordering},
};
use std::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

/// The memory of slots, as many as a power of two. It is behind the shard's lock; others follow its
/// [`SlotArray::tagged`] pointer.
pub(in crate::bus) struct SlotArray<E>(SlotRows<E>);

/// Entries, [`CacheEntry::WIDTH`] for each slot; states; and tags.
type SlotRows<E> = Lines<CacheEntry<E>, CacheSlotState, SlotTags>;

/// The slots of an array, for whoever may use them now.
pub(in crate::bus) struct CacheSlots<'a, E> {
    /// [`CacheEntry::WIDTH`] for each slot.
    entries: &'a [CacheEntry<E>],
    states: &'a [CacheSlotState],
    /// Written if [`CacheSlots::are_tagged`].
    tags: &'a [SlotTags],
}

/// One slot: written under the shard's lock, read by any thread that is pinned.
pub(super) struct CacheSlot<'a, E> {
    pub(super) cells: EntryCells<'a, E>,
    pub(super) state: &'a CacheSlotState,
}

/// What a slot has beside its entry. Lookups do not read it.
pub(super) struct CacheSlotState {
    /// A [`SlotWord`].
    pub(super) word: AtomicU64,
    /// Written before the entry says that there is an event.
    pub(super) hash: AtomicU64,
    /// The version at which the key got the slot.
    pub(super) born: AtomicU64,
}

impl<E: Event> SlotArray<E> {
    /// Slots of the smallest array.
    pub(super) const LEN_MIN: usize = 8;

    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        let new = Self(Lines::zeroed(len, CacheEntry::<E>::WIDTH));
        new.touch();
        new
    }

    /// Writes to each page of a large array. Otherwise a search would be the first to touch it: the
    /// system would give it a page of zeros that others share, and at the first write another one,
    /// for which it interrupts all processors.
    fn touch(&self) {
        let (entries, states, _) = self.0.rows();
        for entry in entries
            .iter()
            .step_by(PAGE_BYTES / size_of::<CacheEntry<E>>())
        {
            entry.set(TaggedEvent::EMPTY);
        }
        for state in states
            .iter()
            .step_by(PAGE_BYTES / size_of::<CacheSlotState>())
        {
            state.set_word(SlotWord::EMPTY);
        }
    }

    /// The size for this many events: with room for at most as many again.
    pub(super) fn len_for(used: usize) -> usize {
        (used * 2).next_power_of_two().max(Self::LEN_MIN)
    }

    pub(super) fn slots(&self) -> CacheSlots<'_, E> {
        let (entries, states, tags) = self.0.rows();
        CacheSlots {
            entries,
            states,
            tags,
        }
    }

    /// The address of the first entry, with the logarithm of the length in the bits that are zero
    /// since an array begins on a line. So a search needs one load, and no line, to find the array.
    pub(super) fn tagged(&self) -> *mut CacheEntry<E> {
        let tag = self.0.len().trailing_zeros() as usize;
        let first = self.0.first();
        debug_assert!(first.addr() % LINE_BYTES == 0 && tag < LINE_BYTES);
        first.map_addr(|address| address | tag)
    }
}

/// The address of the first entry, and the length, of a [`SlotArray::tagged`] pointer.
#[inline(always)]
fn untagged<E>(tagged: *mut CacheEntry<E>) -> (*const CacheEntry<E>, usize) {
    let first = tagged.map_addr(|address| address & !(LINE_BYTES - 1));
    (first, 1 << (tagged.addr() % LINE_BYTES))
}

/// Where the entry of a hash is, and the rest of its slot, in the array with this
/// [`SlotArray::tagged`] pointer.
#[inline(always)]
pub(super) fn addresses<E: Event>(tagged: *mut CacheEntry<E>, hash: u64) -> (usize, usize) {
    let (first, len) = untagged(tagged);
    let index = hash as usize & (len - 1);
    let width = CacheEntry::<E>::WIDTH;
    let states = first.addr() + SlotRows::<E>::second_offset(len, width);
    (
        first.addr() + index * width * size_of::<CacheEntry<E>>(),
        states + index * size_of::<CacheSlotState>(),
    )
}

impl<'a, E: Event> CacheSlots<'a, E> {
    /// # Safety
    ///
    /// - The pointer came from [`SlotArray::tagged`], and the array lives as long as `'a`.
    #[inline(always)]
    pub(super) unsafe fn of_tagged(tagged: *mut CacheEntry<E>) -> Self {
        let (first, len) = untagged(tagged);
        // SAFETY: so many slots begin there, and the array is there for `'a`. Slots are changed only
        // as atomics.
        let (entries, states, tags) =
            unsafe { SlotRows::<E>::rows_at(first, len, CacheEntry::<E>::WIDTH) };
        Self {
            entries,
            states,
            tags,
        }
    }

    pub(super) fn len(self) -> usize {
        self.states.len()
    }

    #[inline(always)]
    pub(super) fn at(self, index: usize) -> CacheSlot<'a, E> {
        assert!(index < self.len(), "an index of another array");
        // SAFETY: it has just been compared.
        unsafe { self.slot_at(index) }
    }

    /// # Safety
    ///
    /// - The index is below the length.
    #[inline(always)]
    unsafe fn slot_at(self, index: usize) -> CacheSlot<'a, E> {
        debug_assert!(index < self.len());
        // SAFETY: the row of entries has `WIDTH` for each state.
        let cells = unsafe { EntryCells::at(self.entries, index) };
        // SAFETY: the index is below the length.
        let state = unsafe { self.states.get_unchecked(index) };
        CacheSlot { cells, state }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = CacheSlot<'a, E>> {
        (0..self.len()).map(move |index| self.at(index))
    }

    /// How many slots may be in use before the table grows. A small array has short ways to search;
    /// a large one has few lines, since memory answers later than a longer way takes.
    pub(super) fn used_max(self) -> usize {
        match self.len() <= SPARSE_LEN_MAX {
            true => self.len() / 8 * 5,
            false => self.len() / 16 * 13,
        }
    }

    /// Whether slots have tags. In a small array, which is sparse, the first entry is mostly the
    /// right one; and of a large one the tags would not fit into a processor's second cache.
    #[inline(always)]
    fn are_tagged(self) -> bool {
        cfg!(loom) || (self.len() > SPARSE_LEN_MAX && self.len() <= TAGGED_LEN_MAX)
    }

    /// For the writer, before it puts an event of this hash into a free slot.
    pub(super) fn set_tag(self, index: usize, hash: u64) {
        if self.are_tagged() {
            self.tags[index / TagWindow::LEN].set(index, hash);
        }
    }

    /// The entry that is probably that of a key with this hash, by the tags. It may be another
    /// key's, and a key may have an entry of which no tag tells.
    #[inline(always)]
    pub(super) fn probable(self, hash: u64) -> Option<EntryCells<'a, E>> {
        if !self.are_tagged() {
            return None;
        }
        let mask = self.len() - 1;
        let mut from = hash as usize & mask;
        for _ in 0..WINDOWS_MAX {
            let window = self.window(from);
            if let Some(offset) = window.first_with(hash) {
                let index = (from + offset) & mask;
                // SAFETY: the length is a power of two, so no index is above the mask.
                return Some(unsafe { EntryCells::at(self.entries, index) });
            }
            if window.ends_search() {
                return None;
            }
            from = (from + TagWindow::LEN) & mask;
        }
        None
    }

    #[inline(always)]
    fn window(self, from: usize) -> TagWindow {
        let next = (from + TagWindow::LEN) & (self.len() - 1);
        let [low, high] = [from, next].map(|index| {
            // SAFETY: there is a word for each eight slots, and both are below the length.
            unsafe { self.tags.get_unchecked(index / TagWindow::LEN) }
        });
        TagWindow::load([low, high], from)
    }

    /// The entries in which an event with this hash may be, in probe order.
    #[inline(always)]
    pub(super) fn probe_entries(self, hash: u64) -> impl Iterator<Item = EntryCells<'a, E>> {
        let (from, entries, mask) = (hash as usize, self.entries, self.len() - 1);
        (0..self.len()).map(move |step| {
            let index = from.wrapping_add(step) & mask;
            // SAFETY: the length is a power of two, so no index is above the mask.
            unsafe { EntryCells::at(entries, index) }
        })
    }

    /// The slots in which an event with this hash may be, in probe order.
    #[inline(always)]
    pub(super) fn probe(self, hash: u64) -> impl Iterator<Item = (usize, CacheSlot<'a, E>)> {
        let from = hash as usize;
        (0..self.len()).map(move |step| {
            let index = from.wrapping_add(step) & (self.len() - 1);
            // SAFETY: the length is a power of two, so no index is above the mask.
            (index, unsafe { self.slot_at(index) })
        })
    }

    /// The slot, if it still belongs to the key that was seen in it.
    #[inline(always)]
    pub(super) fn place_at(
        self,
        SlotTenure { index, born }: SlotTenure,
        hash: u64,
    ) -> Option<(CacheSlot<'a, E>, SlotPosition)> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: it has just been compared.
        let slot = unsafe { self.slot_at(index) };
        let word = slot.word();
        let is_same = slot.state.born.load(Ordering::Relaxed) == born
            && slot.hash() == hash
            && matches!(word.kind(), SlotKind::Live | SlotKind::Removed);
        is_same.then_some((slot, SlotPosition { index, born, word }))
    }

    /// Whether every slot with this hash was seen and belongs to another key.
    #[cold]
    pub(super) fn is_absent(self, hash: u64, seen: &Seen) -> bool {
        let in_use = self
            .probe(hash)
            .take_while(|(_, slot)| slot.word() != SlotWord::EMPTY);
        let same_hash = in_use.filter(|(_, slot)| !slot.is_free() && slot.hash() == hash);
        let mut tenures = same_hash.map(|(index, slot)| SlotTenure {
            index,
            born: slot.state.born.load(Ordering::Relaxed),
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

impl<E> Clone for CacheSlot<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for CacheSlot<'_, E> {}

// SAFETY: zero is the word of an empty slot, whose hash and tenure nobody looks at.
unsafe impl Zeroed for CacheSlotState {
    fn zeroed() -> Self {
        Self {
            word: AtomicU64::new(SlotWord::EMPTY.bits()),
            hash: AtomicU64::new(0),
            born: AtomicU64::new(0),
        }
    }
}

// SAFETY: zero is the tags of unused slots.
unsafe impl Zeroed for SlotTags {
    fn zeroed() -> Self {
        Self::unused()
    }
}

impl CacheSlotState {
    #[inline(always)]
    fn set_word(&self, word: SlotWord) {
        self.word.store(word.bits(), Ordering::Release);
    }
}

impl<'a, E: Event> CacheSlot<'a, E> {
    /// The word, for the writer, which alone changes it.
    #[inline(always)]
    pub(super) fn word(self) -> SlotWord {
        SlotWord::from_bits(self.state.word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        self.state.hash.load(Ordering::Relaxed)
    }

    pub(super) fn is_free(self) -> bool {
        matches!(self.word().kind(), SlotKind::Empty | SlotKind::Vacated)
    }

    /// A new reference to the event, for the writer.
    pub(super) fn share(self) -> Option<SharedEvent<E>> {
        let event = NonNull::new(self.cells.get().node())?;
        // SAFETY: the slot holds a reference, which only the writer gives up,
        // and which is left to it here.
        let shared = ManuallyDrop::new(unsafe { SharedEvent::from_raw(event) });
        Some(SharedEvent::clone(&shared))
    }

    /// The current event, for a reader that may want a reference of its own later.
    #[inline(always)]
    pub(super) fn pinned(self, pin: &'a Pin<'_>) -> Option<PinnedEvent<'a, E>> {
        let node = NonNull::new(self.cells.load(pin).node())?;
        let pinned = PhantomData;
        Some(PinnedEvent { node, pinned })
    }

    /// Puts an event into a free slot.
    pub(super) fn fill(
        self,
        hash: u64,
        version: u64,
        (event, packed): (SharedEvent<E>, Option<PackedEvent>),
    ) {
        self.state.hash.store(hash, Ordering::Relaxed);
        // After the previous tenure's entry became vacated, and before the new
        // one: see `CacheTable::look`.
        self.state.born.store(version, Ordering::Release);
        let empty = self.exchange(TaggedEvent::live(event.into_raw(), hash), packed);
        debug_assert!(empty.is_none(), "a free slot has no event");
        (self.state).set_word(SlotWord::new(SlotKind::Live, version));
    }

    /// Puts an event in the place of the one there.
    #[inline(always)]
    pub(super) fn replace(
        self,
        word: SlotWord,
        (event, packed): (SharedEvent<E>, Option<PackedEvent>),
    ) -> Option<SharedEvent<E>> {
        let old = self.cells.get();
        (self.cells).set(old.replaced_by(event.into_raw()), packed);
        self.state.set_word(word);
        // SAFETY: what is not null came from `SharedEvent::into_raw`, and the slot's
        // one reference now belongs to the caller.
        NonNull::new(old.node()).map(|old| unsafe { SharedEvent::from_raw(old) })
    }

    /// Hides the event from lookups, and keeps it for laggards.
    pub(super) fn remove(self, word: SlotWord) {
        self.cells.set(self.cells.get().removed(), None);
        self.state.set_word(word);
    }

    /// Takes the event out; probes continue past the slot.
    pub(super) fn vacate(self, version: u64) -> Option<SharedEvent<E>> {
        (self.state).set_word(SlotWord::new(SlotKind::Vacated, version));
        self.exchange(TaggedEvent::VACATED, None)
    }

    /// For the writer: replaces the slot's reference.
    #[inline(always)]
    fn exchange(
        self,
        entry: TaggedEvent<E>,
        packed: Option<PackedEvent>,
    ) -> Option<SharedEvent<E>> {
        let old = NonNull::new(self.cells.get().node());
        self.cells.set(entry, packed);
        // SAFETY: what is not null came from `SharedEvent::into_raw`, and the slot's
        // one reference now belongs to the caller.
        old.map(|old| unsafe { SharedEvent::from_raw(old) })
    }

    /// The slot's reference, when there are no readers any more.
    pub(super) fn take(self) -> Option<SharedEvent<E>> {
        self.exchange(TaggedEvent::VACATED, None)
    }

    /// Copies a used slot into an array that no other thread sees yet. Readers
    /// of the old array still find the event there.
    pub(super) fn copy_to(self, slots: CacheSlots<'_, E>) {
        let hash = self.hash();
        let Some((index, slot)) = slots.probe(hash).find(|(_, slot)| slot.is_free()) else {
            unreachable!("the new array has room for all");
        };
        slots.set_tag(index, hash);
        slot.state.hash.store(hash, Ordering::Relaxed);
        let born = self.state.born.load(Ordering::Relaxed);
        slot.state.born.store(born, Ordering::Relaxed);
        slot.cells.set(self.cells.get(), self.cells.packed());
        slot.state.set_word(self.word());
    }

    /// The change of this version, if it is the slot's last one.
    pub(super) fn change_at(self, version: u64) -> Option<CachedChange<E>> {
        (self.word().version() == version)
            .then(|| self.change_since(version - 1))
            .flatten()
    }

    pub(super) fn change_since(self, version: u64) -> Option<CachedChange<E>> {
        let word = self.word();
        if self.is_free() || word.version() <= version {
            return None;
        }
        let event = self.share()?;
        Some(CachedChange { word, event })
    }
}

/// 64 shards of so many slots still fit into a processor's second cache, as far as lookups read them.
const SPARSE_LEN_MAX: usize = 512;
/// The tags of 64 shards of so many slots are a quarter of a processor's second cache.
const TAGGED_LEN_MAX: usize = 4096;
/// Few keys are farther from where their search begins.
const WINDOWS_MAX: usize = 4;

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

    #[derive(Clone)]
    struct Plain(u64);

    impl Event for Plain {
        type Key = u64;

        fn key(&self) -> &u64 {
            &self.0
        }
    }

    #[test]
    fn a_large_table_is_fuller_before_it_grows_and_has_room_for_as_many_again() {
        let used_max = |len| SlotArray::<Plain>::new(len).slots().used_max();
        assert_eq!([8, 64, 512, 1024].map(used_max), [5, 40, 320, 832]);
        for used in 1..1_000 {
            let len = SlotArray::<Plain>::len_for(used);
            assert!(used_max(len) > used, "{used} in {len}");
            assert!(len <= (4 * used).max(8), "{used} in {len}");
        }
    }
}
