//! The last-value table of one shard: one writer at a time, readers who take
//! no lock.
//!
//! Open addressing with linear probing. A slot holds the event itself beside
//! its hash, so that a lookup and a replacement touch one place in memory.
//! Each slot is a sequence lock, its word being the sequence; a value that
//! owns memory is dropped only when no reader can still be cloning it. The
//! proof is in README.md beside this file.

use super::{
    Event,
    epoch::{Pin, epochs},
    garbage::{Garbage, Overdue, Retired},
    lines::{Lines, Zeroed},
    word::{Kind, Word},
};
use crate::sync::{
    RacyCell,
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    load_sequential_pointer, load_sequential_u64, spin_loop, thread,
};
use std::{
    marker::PhantomData,
    mem::{MaybeUninit, needs_drop},
    ops::Deref,
};

/// What readers see. The other half, [`Writer`], lives behind the shard's lock.
pub(super) struct Table<E: Event> {
    /// The array in use: written by the writer, followed by pinned readers.
    slots: AtomicPtr<Slots<E>>,
    /// Where its first slot is and its mask: written by the writer, and only a
    /// hint. Nobody follows it, so it may be old, or the one new and the other old.
    first: AtomicUsize,
    mask: AtomicUsize,
}

/// What only the holder of the shard's lock touches.
pub(super) struct Writer<E: Event> {
    version: u64,
    live_count: usize,
    cleared_count: usize,
    vacated_count: usize,
    garbage: Garbage<E, Box<Slots<E>>>,
}

/// What can be dropped when the shard's lock has been left.
pub(super) type Swept<E> = Option<Overdue<E, Box<Slots<E>>>>;

/// What a key had before its last event was put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Replaced,
    NewKey,
}

pub(super) struct Slots<E> {
    mask: usize,
    slots: Lines<Slot<E>>,
}

struct Slot<E> {
    /// A [`Word`]. Written under the shard's lock, read by anybody.
    word: AtomicU64,
    /// Written before the word says that the slot is in use.
    hash: AtomicU64,
    /// An event while the word says live or cleared.
    event: RacyCell<E>,
}

/// An event as it was at one moment, not yet cloned; a pin keeps what it owns
/// from being freed.
pub(super) struct Frozen<'a, E> {
    word: Word,
    bytes: MaybeUninit<E>,
    pin: PhantomData<&'a Pin<'a>>,
}

impl<E> Frozen<'_, E> {
    pub(super) fn version(&self) -> u64 {
        self.word.version()
    }

    /// Whether its key has been cleared.
    pub(super) fn is_cleared(&self) -> bool {
        self.word.kind() == Kind::Cleared
    }
}

impl<E> Deref for Frozen<'_, E> {
    type Target = E;

    #[inline(always)]
    fn deref(&self) -> &E {
        // SAFETY: a frozen event is made only of bytes that no write
        // overlapped. What they own is not freed while the pin lives, since
        // the writer retires replaced events to the epochs.
        unsafe { self.bytes.assume_init_ref() }
    }
}

impl<E: Event> Table<E> {
    pub(super) fn new() -> (Self, Writer<E>) {
        let slots = Slots::new(Slots::<E>::LEN_MIN);
        let table = Self {
            first: AtomicUsize::new(slots.first()),
            mask: AtomicUsize::new(slots.mask),
            slots: AtomicPtr::new(Box::into_raw(slots)),
        };
        (table, Writer::new())
    }

    /// The array, for readers.
    #[inline(always)]
    fn pinned_slots<'a>(&'a self, _pin: &'a Pin<'_>) -> &'a Slots<E> {
        // SAFETY: the array that is current when the pin is held is freed by
        // the writer only after the pin has ended, or with the table itself.
        unsafe { &*load_sequential_pointer(&self.slots) }
    }

    /// The array, for the writer, who alone replaces and frees it.
    #[inline(always)]
    fn writer_slots(&self, _writer: &Writer<E>) -> &Slots<E> {
        // SAFETY: only the one writer replaces the array, and it borrows it
        // from here no longer than until then.
        unsafe { &*self.slots.load(Ordering::Relaxed) }
    }

    /// The last event of the key.
    #[inline]
    pub(super) fn get(&self, hash: u64, key: &E::Key, pin: &Pin<'_>) -> Option<E> {
        let slots = self.pinned_slots(pin);
        for slot in slots.probe(hash) {
            let word = Word::from_bits(load_sequential_u64(&slot.word));
            if word == Word::EMPTY {
                return None;
            }
            if slot.hash.load(Ordering::Relaxed) == hash
                && let Some(event) = slot.read(hash, pin)
                && event.key() == key
            {
                return Some(event.clone());
            }
        }
        None
    }

    /// Sends for the memory where the key's event lies, so that it is on its
    /// way while the caller takes a lock or a pin.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let index = hash as usize & self.mask.load(Ordering::Relaxed);
        let first = self.first.load(Ordering::Relaxed);
        prefetch(first.wrapping_add(index * size_of::<Slot<E>>()));
    }

    /// The version of the key's last event, if it has one; for the writer.
    pub(super) fn version_of(
        &self,
        writer: &Writer<E>,
        (hash, key): (u64, &E::Key),
    ) -> Option<u64> {
        let (_, word) = self.find(writer, hash, key)?;
        (word.kind() == Kind::Live).then(|| word.version())
    }

    /// The version of the key's last change, which may be that it was cleared,
    /// if the table still holds it; for the writer.
    pub(super) fn last_change(
        &self,
        writer: &Writer<E>,
        (hash, key): (u64, &E::Key),
    ) -> Option<u64> {
        let (_, word) = self.find(writer, hash, key)?;
        Some(word.version())
    }

    /// The key's last event; for the writer.
    pub(super) fn get_locked(&self, writer: &Writer<E>, (hash, key): (u64, &E::Key)) -> Option<E> {
        let (slot, word) = self.find(writer, hash, key)?;
        // SAFETY: the slot that was found holds an event, and only the writer
        // could change that.
        (word.kind() == Kind::Live).then(|| unsafe { slot.event.peek(E::clone) })
    }

    #[inline]
    fn find(&self, writer: &Writer<E>, hash: u64, key: &E::Key) -> Option<(&Slot<E>, Word)> {
        for slot in self.writer_slots(writer).probe(hash) {
            let word = slot.word();
            if word == Word::EMPTY {
                return None;
            }
            if slot.is_for(word, hash, key) {
                return Some((slot, word));
            }
        }
        None
    }

    /// Replaces the last event of the key.
    #[inline]
    pub(super) fn put(
        &self,
        writer: &mut Writer<E>,
        hash: u64,
        event: E,
        laggards_since: u64,
    ) -> Put {
        writer.version += 1;
        let Some((slot, word)) = self.find(writer, hash, event.key()) else {
            self.insert(writer, hash, event);
            return Put::NewKey;
        };
        let changed = word.changed(Kind::Live, writer.version, laggards_since);
        let old = slot.replace(changed, event);
        writer.garbage.retire_value(old);
        if word.kind() == Kind::Live {
            return Put::Replaced;
        }
        writer.cleared_count -= 1;
        writer.live_count += 1;
        Put::NewKey
    }

    #[cold]
    fn insert(&self, writer: &mut Writer<E>, hash: u64, event: E) {
        let used = writer.live_count + writer.cleared_count + writer.vacated_count;
        if used + 1 > self.writer_slots(writer).used_max() {
            self.rebuild(writer);
        }
        let word = Word::new(Kind::Live, writer.version);
        let slots = self.writer_slots(writer);
        let Some(slot) = slots.probe(hash).find(|slot| slot.is_free()) else {
            unreachable!("a table is never more than five eighths full");
        };
        writer.vacated_count -= usize::from(slot.word().kind() == Kind::Vacated);
        writer.live_count += 1;
        slot.fill(hash, word, event);
    }

    /// Takes the key's last value away; keeps its grave while somebody who
    /// lags has to be told, and says whether it does. The key must have a value.
    pub(super) fn clear(
        &self,
        writer: &mut Writer<E>,
        hash: u64,
        key: &E::Key,
        laggards_since: u64,
    ) -> bool {
        let Some((slot, word)) = self.find(writer, hash, key) else {
            return false;
        };
        writer.version += 1;
        writer.live_count -= 1;
        let cleared = word.changed(Kind::Cleared, writer.version, laggards_since);
        if cleared.is_known_to_laggard() {
            writer.cleared_count += 1;
            slot.set_word(cleared);
        } else {
            writer.vacated_count += 1;
            let old = slot.vacate(writer.version);
            writer.garbage.retire_value(old);
        }
        self.shrink(writer);
        cleared.is_known_to_laggard()
    }

    /// Every change after `version`, in no order; of one key only the last.
    pub(super) fn changes_since<'a>(
        &self,
        writer: &Writer<E>,
        version: u64,
        _pin: &'a Pin<'a>,
    ) -> Vec<Frozen<'a, E>> {
        let slots = self.writer_slots(writer).slots.iter();
        let changes = slots.filter_map(|slot| slot.change_since(version));
        changes.collect()
    }

    /// The change of one key after `version`, if there was one.
    pub(super) fn change_of<'a>(
        &self,
        writer: &Writer<E>,
        (hash, key): (u64, &E::Key),
        version: u64,
        _pin: &'a Pin<'a>,
    ) -> Option<Frozen<'a, E>> {
        let (slot, _) = self.find(writer, hash, key)?;
        slot.change_since(version)
    }

    /// Removes the graves, telling the version of each: nobody lags any more.
    pub(super) fn bury(&self, writer: &mut Writer<E>, mut bury: impl FnMut(u64)) {
        if writer.cleared_count == 0 {
            return;
        }
        for slot in self.writer_slots(writer).slots.iter() {
            let word = slot.word();
            if word.kind() == Kind::Cleared {
                bury(word.version());
                let old = slot.vacate(writer.version);
                writer.garbage.retire_value(old);
            }
        }
        writer.vacated_count += writer.cleared_count;
        writer.cleared_count = 0;
        self.shrink(writer);
    }

    /// Gives memory back once the table is nearly empty.
    fn shrink(&self, writer: &mut Writer<E>) {
        let len = self.writer_slots(writer).slots.len();
        let used = writer.live_count + writer.cleared_count;
        if len > Slots::<E>::LEN_MIN && used < len / 16 {
            self.rebuild(writer);
        }
    }

    /// Moves everything to an array of the right size.
    #[cold]
    fn rebuild(&self, writer: &mut Writer<E>) {
        let old = self.writer_slots(writer);
        let new = Slots::new(Slots::<E>::len_for(
            writer.live_count + writer.cleared_count,
        ));
        for slot in old.slots.iter().filter(|slot| slot.is_used()) {
            slot.copy_to(&new);
        }
        writer.vacated_count = 0;
        self.first.store(new.first(), Ordering::Relaxed);
        self.mask.store(new.mask, Ordering::Relaxed);
        let old = self.slots.swap(Box::into_raw(new), Ordering::AcqRel);
        // SAFETY: the pointer came from a box, and it is no longer current.
        // The events in it have moved: the slots do not drop theirs.
        writer.garbage.retire_array(unsafe { Box::from_raw(old) });
    }
}

impl<E: Event> Drop for Table<E> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box; nobody reads or writes, since
        // the table is borrowed mutably.
        let slots = unsafe { Box::from_raw(self.slots.load(Ordering::Relaxed)) };
        if needs_drop::<E>() {
            let used = slots.slots.iter().filter(|slot| slot.is_used());
            // SAFETY: a used slot holds an event, and it is not read again.
            used.for_each(|slot| drop(unsafe { slot.event.read().assume_init() }));
        }
    }
}

impl<E: Event> Writer<E> {
    fn new() -> Self {
        Self {
            version: 0,
            live_count: 0,
            cleared_count: 0,
            vacated_count: 0,
            garbage: Garbage::new(),
        }
    }

    /// Keys with a last value.
    pub(super) fn len(&self) -> usize {
        self.live_count
    }

    /// The version of the last change; 0 before the first.
    #[inline(always)]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Replaced events that somebody may still be reading.
    pub(super) fn retired_len(&self) -> usize {
        self.garbage.len()
    }

    /// What can be dropped now. Drop it when the lock is left.
    #[inline(always)]
    #[must_use]
    pub(super) fn sweep(&mut self) -> Swept<E> {
        self.garbage.sweep(epochs())
    }
}

impl<E> Slots<E> {
    /// Slots of the smallest table.
    const LEN_MIN: usize = 8;

    fn new(len: usize) -> Box<Self> {
        debug_assert!(len.is_power_of_two());
        Box::new(Self {
            mask: len - 1,
            slots: Lines::zeroed(len),
        })
    }

    /// The address of the first slot.
    fn first(&self) -> usize {
        self.slots.as_ptr().addr()
    }

    /// The size for this many events, with room for as many again at most.
    fn len_for(used: usize) -> usize {
        (used * 2).next_power_of_two().max(Self::LEN_MIN)
    }

    /// Slots that may be in use before the table grows.
    fn used_max(&self) -> usize {
        self.slots.len() / 8 * 5
    }

    /// The slots in which an event of this hash may be, in order.
    #[inline(always)]
    fn probe(&self, hash: u64) -> impl Iterator<Item = &Slot<E>> {
        let from = hash as usize;
        (0..self.slots.len()).map(move |step| &self.slots[from.wrapping_add(step) & self.mask])
    }
}

// SAFETY: zero is the word of an empty slot, whose hash and event nobody
// looks at.
unsafe impl<E> Zeroed for Slot<E> {
    fn zeroed() -> Self {
        Self {
            word: AtomicU64::new(Word::EMPTY.bits()),
            hash: AtomicU64::new(0),
            event: RacyCell::uninit(),
        }
    }
}

impl<E> Slot<E> {
    /// The word, for the writer, who alone changes it.
    #[inline(always)]
    fn word(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::Relaxed))
    }

    fn is_free(&self) -> bool {
        matches!(self.word().kind(), Kind::Empty | Kind::Vacated)
    }

    fn is_used(&self) -> bool {
        !self.is_free()
    }

    /// Reads the event of a live slot with this hash without a lock.
    #[inline]
    fn read<'a>(&self, hash: u64, _pin: &'a Pin<'a>) -> Option<Frozen<'a, E>> {
        let mut tries = 0;
        loop {
            let word = Word::from_bits(load_sequential_u64(&self.word));
            if !word.is_writing() {
                if word.kind() != Kind::Live || self.hash.load(Ordering::Relaxed) != hash {
                    return None;
                }
                let bytes = self.event.read();
                fence(Ordering::Acquire);
                if self.word.load(Ordering::Relaxed) == word.bits() {
                    let pin = PhantomData;
                    return Some(Frozen { word, bytes, pin });
                }
            }
            wait_for_writer(&mut tries);
        }
    }

    #[inline(always)]
    fn begin_write(&self) {
        let word = self.word().writing();
        self.word.store(word.bits(), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    #[inline(always)]
    fn set_word(&self, word: Word) {
        self.word.store(word.bits(), Ordering::Release);
    }

    /// Puts an event into a free slot.
    fn fill(&self, hash: u64, word: Word, event: E) {
        self.begin_write();
        self.hash.store(hash, Ordering::Relaxed);
        // SAFETY: the caller has the writer, so nobody else writes.
        unsafe { self.event.write(MaybeUninit::new(event)) };
        self.set_word(word);
    }

    /// Puts an event in the place of the one there.
    #[inline(always)]
    fn replace(&self, word: Word, event: E) -> Retired<E> {
        let old = self.event.read();
        self.begin_write();
        // SAFETY: the caller has the writer, so nobody else writes.
        unsafe { self.event.write(MaybeUninit::new(event)) };
        self.set_word(word);
        // SAFETY: the slot held an event and holds another one now.
        unsafe { Retired::new(old) }
    }

    /// Takes the event out; searches go on past the slot.
    fn vacate(&self, version: u64) -> Retired<E> {
        self.set_word(Word::new(Kind::Vacated, version));
        // SAFETY: the slot held an event and is now said to hold none.
        unsafe { Retired::new(self.event.read()) }
    }

    /// Copies a used slot into an array that nobody else sees yet.
    fn copy_to(&self, slots: &Slots<E>) {
        let hash = self.hash.load(Ordering::Relaxed);
        let Some(slot) = slots.probe(hash).find(|slot| slot.is_free()) else {
            unreachable!("the new array has room for all");
        };
        slot.hash.store(hash, Ordering::Relaxed);
        // SAFETY: nobody else sees the new array.
        unsafe { slot.event.write(self.event.read()) };
        slot.set_word(self.word());
    }

    fn change_since<'a>(&self, version: u64) -> Option<Frozen<'a, E>> {
        let word = self.word();
        let is_change = self.is_used() && word.version() > version;
        is_change.then(|| Frozen {
            word,
            bytes: self.event.read(),
            pin: PhantomData,
        })
    }
}

impl<E: Event> Slot<E> {
    #[inline(always)]
    fn is_for(&self, word: Word, hash: u64, key: &E::Key) -> bool {
        self.hash.load(Ordering::Relaxed) == hash
            && matches!(word.kind(), Kind::Live | Kind::Cleared)
            // SAFETY: the slot holds an event, and the caller has the writer.
            && unsafe { self.event.peek(|event| event.key() == key) }
    }
}

/// Sends for the cache line at this address, to be written.
#[inline(always)]
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a hint that cannot fault and changes nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::without_provenance(address)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint_here = address;
}

#[cold]
fn wait_for_writer(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(64) {
        thread::yield_now();
    } else {
        spin_loop();
    }
}
