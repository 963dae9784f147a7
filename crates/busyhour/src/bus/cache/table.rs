//! The last-value table of one shard: one writer at a time; readers take no
//! lock and wait for no thread.
//!
//! Open addressing with linear probing. A slot has an entry, the pointer to the
//! event with a part of the hash, which is all that a lookup reads of it. In an array of a middle size
//! a byte of each hash says where to look first. A replaced event is dropped only when no reader can
//! still use it. The module's README.md has the proof.

mod entry;
mod slots;
mod tags;
mod tombstones;
mod unread;
mod writer;

use entry::{CacheEntry, EntryProbe};
use slots::{CacheSlot, CacheSlots, SlotArray, addresses};
use tombstones::Tombstones;
pub(in crate::bus) use unread::{NextSlots, Unread, UnreadChange};

use super::{
    copies::{CopiedChanges, RecentCopies},
    epoch::{Pin, epochs},
    garbage::{Garbage, Overdue},
    incoming::EventCopy,
    recent::RecentChanges,
    shared::{Given, SharedEvent},
    slot_word::{SlotKind, SlotWord},
};
use crate::{
    bus::{Event, packing::PackedEvent, panics::Panics},
    sync::{
        atomic::{AtomicPtr, Ordering},
        load_sequential_pointer, load_sequential_u64,
    },
};
use std::mem;

/// The part that readers use. The other part, [`CacheWriter`], is behind the
/// shard's lock.
pub(in crate::bus) struct CacheTable<E: Event> {
    /// The current array, as [`SlotArray::tagged`]: written by the writer, followed by pinned readers.
    slots: AtomicPtr<CacheEntry<E>>,
}

/// The part that only the holder of the shard's lock uses. What each publish uses comes first.
#[repr(C)]
pub(in crate::bus) struct CacheWriter<E: Event> {
    garbage: Garbage<SharedEvent<E>, SlotArray<E>>,
    version: u64,
    live_count: usize,
    removed_count: usize,
    vacated_count: usize,
    /// The memory of the current array.
    array: SlotArray<E>,
    /// Written while somebody lags.
    recent: RecentChanges,
    /// The same.
    copies: RecentCopies<E>,
    tombstones: Tombstones,
}

/// Garbage that can be dropped after the shard's lock is released.
pub(in crate::bus) type Swept<E> = Overdue<SharedEvent<E>, SlotArray<E>>;

/// What the key had before its new event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) enum Put {
    Replaced,
    NewKey,
}

/// Where a search without a lock found a key, and where it found other keys
/// with the same hash. The holder of the lock checks that this still holds.
pub(in crate::bus) struct Seen {
    found: Option<SlotTenure>,
    others: Vec<SlotTenure>,
}

/// A slot during the time in which it belongs to one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) struct SlotTenure {
    index: usize,
    /// The version at which the key got the slot. Unique: no other key has it,
    /// and neither has the same key in a later tenure.
    pub(in crate::bus) born: u64,
}

/// What a search without a lock found a key's last value to be.
pub(in crate::bus) enum Judged {
    /// The condition says that the value stays.
    Stays,
    /// The condition says that an event may replace it, or there is none.
    May(Expected),
}

/// What a key's last value must still be when the lock is held.
#[derive(Clone, Copy)]
pub(in crate::bus) enum Expected {
    /// None.
    Absent,
    /// The one of this version, in this slot.
    Version(SlotTenure, u64),
}

impl Expected {
    /// Whether this is what the holder of the lock finds.
    #[inline(always)]
    pub(in crate::bus) fn is(self, place: Option<SlotPosition>) -> bool {
        let live = place.filter(SlotPosition::is_live);
        match self {
            Self::Absent => live.is_none(),
            Self::Version(_, version) => live.is_some_and(|place| place.version() == version),
        }
    }
}

/// The table has changed since the search, which must be repeated.
#[derive(Debug)]
pub(in crate::bus) struct Stale;

/// A slot that is known to be a key's, while the shard's lock is held.
#[derive(Clone, Copy)]
pub(in crate::bus) struct SlotPosition {
    index: usize,
    pub(in crate::bus) born: u64,
    word: SlotWord,
}

/// Like [`SlotPosition`], of a key that has an event, in a shard where nobody
/// lags.
pub(in crate::bus) struct LiveSlot<'a, E> {
    slot: CacheSlot<'a, E>,
    place: SlotPosition,
}

/// The last change of a key.
pub(in crate::bus) struct CachedChange<E> {
    word: SlotWord,
    pub(in crate::bus) event: SharedEvent<E>,
}

impl Seen {
    /// The result before any search.
    pub(in crate::bus) const NOTHING: Self = Self {
        found: None,
        others: Vec::new(),
    };
}

impl SlotPosition {
    pub(in crate::bus) fn is_live(&self) -> bool {
        self.word.kind() == SlotKind::Live
    }

    /// The version of the key's last change.
    pub(in crate::bus) fn version(&self) -> u64 {
        self.word.version()
    }
}

impl<E: Event> LiveSlot<'_, E> {
    #[inline(always)]
    pub(in crate::bus) fn place(&self) -> SlotPosition {
        self.place
    }

    /// Replaces the last event of the key, in a shard where nobody lags;
    /// returns the new version.
    #[inline(always)]
    pub(in crate::bus) fn replace(
        self,
        writer: &mut CacheWriter<E>,
        event: (SharedEvent<E>, Option<PackedEvent>),
    ) -> u64 {
        let version = writer.version + 1;
        writer.version = version;
        let word = SlotWord::new(SlotKind::Live, version);
        writer.retire(self.slot.replace(word, event));
        version
    }
}

impl<E> CachedChange<E> {
    pub(in crate::bus) fn version(&self) -> u64 {
        self.word.version()
    }

    /// Whether the key has been removed.
    pub(in crate::bus) fn is_removed(&self) -> bool {
        self.word.kind() == SlotKind::Removed
    }
}

impl<E: Event> CacheTable<E> {
    pub(in crate::bus) fn new() -> (Self, CacheWriter<E>) {
        let array = SlotArray::new(SlotArray::<E>::LEN_MIN);
        let table = Self {
            slots: AtomicPtr::new(array.tagged()),
        };
        (table, CacheWriter::new(array))
    }

    /// The array, for readers.
    #[inline(always)]
    fn pinned_slots<'a>(&'a self, _pin: &'a Pin<'_>) -> CacheSlots<'a, E> {
        // SAFETY: the array that is current when the pin is held is freed by
        // the writer only after the pin has ended, or with the shard.
        unsafe { CacheSlots::of_tagged(load_sequential_pointer(&self.slots)) }
    }

    /// The array, for the writer, which alone replaces and frees it.
    #[inline(always)]
    fn writer_slots(&self, _writer: &CacheWriter<E>) -> CacheSlots<'_, E> {
        // SAFETY: only the one writer replaces the array, and it borrows it
        // from here no longer than until then.
        unsafe { CacheSlots::of_tagged(self.slots.load(Ordering::Relaxed)) }
    }

    /// The last event of the key.
    #[inline]
    pub(in crate::bus) fn get(&self, hash: u64, key: &E::Key, pin: &Pin<'_>) -> Option<E> {
        let wanted = |event: &E| (event.key() == key).then(|| event.clone());
        let slots = self.pinned_slots(pin);
        if let Some(cells) = slots.probable(hash) {
            if let EntryProbe::Found(Some(event)) = cells.probe(hash, pin, wanted) {
                return Some(event);
            }
        }
        for cells in slots.probe_entries(hash) {
            match cells.probe(hash, pin, wanted) {
                EntryProbe::End => return None,
                EntryProbe::Found(Some(event)) => return Some(event),
                EntryProbe::Found(None) | EntryProbe::Pass => {}
            }
        }
        None
    }

    /// Searches for the key without a lock. The key's own code runs here, and
    /// never under the lock.
    #[inline]
    pub(in crate::bus) fn look(&self, hash: u64, key: &E::Key, pin: &Pin<'_>, seen: &mut Seen) {
        let slots = self.pinned_slots(pin);
        seen.found = None;
        seen.others.clear();
        for (index, slot) in slots.probe(hash) {
            // Read before the event: an event that is read afterwards belongs
            // to this tenure or a later one, and the holder of the lock detects
            // a later one.
            let born = slot.state.born.load(Ordering::Acquire);
            let tenure = SlotTenure { index, born };
            let is_it = |event: &E| event.key() == key;
            match slot
                .cells
                .probe_all(hash, pin, || slot.hash() == hash, is_it)
            {
                EntryProbe::End => break,
                EntryProbe::Pass => {}
                EntryProbe::Found(true) => {
                    seen.found = Some(tenure);
                    return;
                }
                EntryProbe::Found(false) => seen.others.push(tenure),
            }
        }
    }

    /// Like [`Self::look`], for callers that need only a key that is present.
    #[inline(always)]
    pub(in crate::bus) fn find(
        &self,
        hash: u64,
        key: &E::Key,
        pin: &Pin<'_>,
    ) -> Option<SlotTenure> {
        for (index, slot) in self.pinned_slots(pin).probe(hash) {
            // Read before the event: see `Self::look`.
            let born = slot.state.born.load(Ordering::Acquire);
            let is_it = |event: &E| event.key() == key;
            match slot
                .cells
                .probe_all(hash, pin, || slot.hash() == hash, is_it)
            {
                EntryProbe::End => return None,
                EntryProbe::Found(true) => return Some(SlotTenure { index, born }),
                EntryProbe::Found(false) | EntryProbe::Pass => {}
            }
        }
        None
    }

    /// Searches for the key's last value without a lock, and asks whether an
    /// event may replace it. Runs user code.
    #[inline(always)]
    pub(in crate::bus) fn judge(
        &self,
        (hash, key): (u64, &E::Key),
        may_replace: &impl Fn(&E) -> bool,
        pin: &Pin<'_>,
    ) -> Judged {
        for (index, slot) in self.pinned_slots(pin).probe(hash) {
            // Read before the event: the event that is read afterwards is that of this version or
            // of a later one, and the holder of the lock detects a later one.
            let born = slot.state.born.load(Ordering::Acquire);
            let word = SlotWord::from_bits(load_sequential_u64(&slot.state.word));
            let judge = |event: &E| (event.key() == key).then(|| may_replace(event));
            let may_replace = match slot.cells.probe(hash, pin, judge) {
                EntryProbe::End => break,
                EntryProbe::Found(Some(may_replace)) => may_replace,
                EntryProbe::Found(None) | EntryProbe::Pass => continue,
            };
            let tenure = SlotTenure { index, born };
            return match may_replace {
                true => Judged::May(Expected::Version(tenure, word.version())),
                false => Judged::Stays,
            };
        }
        Judged::May(Expected::Absent)
    }

    /// The slot, if it still belongs to the key that was seen in it.
    #[inline(always)]
    pub(in crate::bus) fn place_of(
        &self,
        writer: &CacheWriter<E>,
        hash: u64,
        tenure: SlotTenure,
    ) -> Option<SlotPosition> {
        let (_, place) = self.writer_slots(writer).place_at(tenure, hash)?;
        Some(place)
    }

    /// Like [`Self::place_of`], if the slot has an event.
    #[inline(always)]
    pub(in crate::bus) fn live_slot(
        &self,
        writer: &CacheWriter<E>,
        hash: u64,
        tenure: SlotTenure,
    ) -> Option<LiveSlot<'_, E>> {
        let (slot, place) = self.writer_slots(writer).place_at(tenure, hash)?;
        place.is_live().then_some(LiveSlot { slot, place })
    }

    /// The key's slot, if it has one, according to a search without a lock.
    #[inline(always)]
    pub(in crate::bus) fn place(
        &self,
        writer: &CacheWriter<E>,
        hash: u64,
        seen: &Seen,
    ) -> Result<Option<SlotPosition>, Stale> {
        let slots = self.writer_slots(writer);
        match seen.found {
            Some(tenure) => match slots.place_at(tenure, hash) {
                Some((_, place)) => Ok(Some(place)),
                None => Err(Stale),
            },
            None => slots.is_absent(hash, seen).then_some(None).ok_or(Stale),
        }
    }

    /// Prefetches the memory of the key's slot for a publish, while the caller
    /// takes a lock or a pin.
    #[inline(always)]
    pub(in crate::bus) fn prefetch(&self, hash: u64) {
        let (entry, state) = addresses(self.slots.load(Ordering::Relaxed), hash);
        prefetch_to_write(entry);
        prefetch_to_write(state);
    }

    /// Prefetches what a lookup reads of the key's slot.
    #[inline(always)]
    pub(in crate::bus) fn prefetch_entry(&self, hash: u64) {
        prefetch(addresses(self.slots.load(Ordering::Relaxed), hash).0);
    }

    /// Prefetches the event that a search for this hash would look at first.
    #[inline(always)]
    pub(in crate::bus) fn prefetch_event(&self, hash: u64, pin: &Pin<'_>) {
        let entries = self.pinned_slots(pin).probe_entries(hash);
        let mut entries = entries.take(PROBES_AHEAD).map(|cells| cells.load(pin));
        if let Some(entry) = entries.find(|entry| entry.is_with(hash)) {
            prefetch(entry.node().addr());
        }
    }

    /// The event of a slot.
    pub(in crate::bus) fn event(
        &self,
        writer: &CacheWriter<E>,
        place: SlotPosition,
    ) -> Option<SharedEvent<E>> {
        self.writer_slots(writer).at(place.index).share()
    }

    /// Replaces the last event of the key; returns the version at which the key
    /// got its slot.
    #[inline(always)]
    pub(in crate::bus) fn put(
        &self,
        writer: &mut CacheWriter<E>,
        (hash, place): (u64, Option<SlotPosition>),
        (event, copy): (SharedEvent<E>, &mut EventCopy<E>),
        laggards_since: u64,
    ) -> (Put, u64) {
        writer.version += 1;
        if laggards_since > 0 {
            let before = place.map_or(0, |place| place.version());
            writer.copies.note((writer.version, before), copy.take());
        }
        let event = (event, copy.packed());
        let Some(SlotPosition { index, born, word }) = place else {
            let index = self.insert(writer, hash, event);
            self.note(writer, index, laggards_since);
            return (Put::NewKey, writer.version);
        };
        let changed = word.changed(SlotKind::Live, writer.version, laggards_since);
        let old = self.writer_slots(writer).at(index).replace(changed, event);
        self.note(writer, index, laggards_since);
        writer.retire(old);
        if word.kind() == SlotKind::Live {
            return (Put::Replaced, born);
        }
        writer.removed_count -= 1;
        writer.live_count += 1;
        (Put::NewKey, born)
    }

    /// Notes the slot of the last change, if somebody lags.
    #[inline(always)]
    fn note(&self, writer: &mut CacheWriter<E>, index: usize, laggards_since: u64) {
        if laggards_since > 0 {
            let slot_count = self.writer_slots(writer).len();
            writer.recent.note(writer.version, index, slot_count);
        }
    }

    /// Returns the slot's index.
    #[cold]
    fn insert(
        &self,
        writer: &mut CacheWriter<E>,
        hash: u64,
        event: (SharedEvent<E>, Option<PackedEvent>),
    ) -> usize {
        let used = writer.live_count + writer.removed_count + writer.vacated_count;
        if used + 1 > self.writer_slots(writer).used_max() {
            self.rebuild(writer);
        }
        let slots = self.writer_slots(writer);
        let Some((index, slot)) = slots.probe(hash).find(|(_, slot)| slot.is_free()) else {
            unreachable!("a table is never full");
        };
        writer.vacated_count -= usize::from(slot.word().kind() == SlotKind::Vacated);
        slots.set_tag(index, hash);
        writer.live_count += 1;
        slot.fill(hash, writer.version, event);
        index
    }

    /// Removes the key's last value. Keeps a tombstone while a laggard must be
    /// told; returns whether it does. The key must have a value.
    pub(in crate::bus) fn clear(
        &self,
        writer: &mut CacheWriter<E>,
        place: SlotPosition,
        laggards_since: u64,
    ) -> bool {
        debug_assert!(place.is_live(), "only a key with a value is removed");
        let slot = self.writer_slots(writer).at(place.index);
        writer.version += 1;
        writer.live_count -= 1;
        let removed = (place.word).changed(SlotKind::Removed, writer.version, laggards_since);
        if removed.is_known_to_laggard() {
            writer.removed_count += 1;
            slot.remove(removed);
            self.bury(writer, place.index);
        } else {
            writer.vacated_count += 1;
            let old = slot.vacate(writer.version);
            writer.retire(old);
        }
        self.note(writer, place.index, laggards_since);
        self.shrink(writer);
        removed.is_known_to_laggard()
    }

    /// Every change after `version`, in no order; for each key only the last
    /// one. Looks at all slots only if not each of the changes is noted.
    pub(in crate::bus) fn changes_since(
        &self,
        writer: &CacheWriter<E>,
        version: u64,
    ) -> Vec<CachedChange<E>> {
        let slots = self.writer_slots(writer);
        match writer.recent.since(version, writer.version) {
            Some(noted) => noted
                .filter_map(|(version, index)| slots.at(index).change_at(version))
                .collect(),
            None => slots
                .iter()
                .filter_map(|slot| slot.change_since(version))
                .collect(),
        }
    }

    /// The change of one key after `version`, if there was one.
    pub(in crate::bus) fn change_at(
        &self,
        writer: &CacheWriter<E>,
        place: SlotPosition,
        version: u64,
    ) -> Option<CachedChange<E>> {
        self.writer_slots(writer)
            .at(place.index)
            .change_since(version)
    }

    /// Frees memory once the table is nearly empty.
    fn shrink(&self, writer: &mut CacheWriter<E>) {
        let len = self.writer_slots(writer).len();
        let used = writer.live_count + writer.removed_count;
        if len > SlotArray::<E>::LEN_MIN && used < len / 16 {
            self.rebuild(writer);
        }
    }

    /// Moves all slots to an array of the right size.
    #[cold]
    fn rebuild(&self, writer: &mut CacheWriter<E>) {
        let old = self.writer_slots(writer);
        let used = writer.live_count + writer.removed_count;
        let new = SlotArray::new(SlotArray::<E>::len_for(used));
        for slot in old.iter().filter(|slot| !slot.is_free()) {
            slot.copy_to(new.slots());
        }
        writer.vacated_count = 0;
        writer.recent.clear();
        self.slots.store(new.tagged(), Ordering::Release);
        // The events have moved: the old slots do not drop theirs.
        let old = mem::replace(&mut writer.array, new);
        writer.garbage.retire_array(old);
        self.find_tombstones(writer);
    }
}

impl<E: Event> Drop for CacheWriter<E> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        for slot in self.array.slots().iter() {
            panics.drop(slot.take());
        }
    }
}

/// Prefetches the cache line at this address for reading: its other readers keep it.
#[inline(always)]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that cannot fault and changes nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint_here = address;
}

/// Prefetches it for writing, where the target has an instruction for that.
#[inline(always)]
fn prefetch_to_write(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::without_provenance(address)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint_here = address;
}

/// So many entries are looked at for an event that is only prefetched: a line of them.
const PROBES_AHEAD: usize = 8;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
