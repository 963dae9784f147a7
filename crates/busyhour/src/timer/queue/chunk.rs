use std::{iter, mem::MaybeUninit, num::NonZero, slice};

/// Slots that get and lose their memory together.
///
/// Released slots are chained, the last one first. Those that were not claimed
/// since the chunk was empty come after all others, in order. So an emptied
/// chunk is reset in one step, in whatever order its slots were released.
pub(super) struct Chunk<T> {
    /// `None` if it was returned.
    memory: Option<ChunkMemory<T>>,
    /// A number above every stamp that was used in returned memory.
    stamp: u32,
    /// The slot released last, or [`NO_SLOT`] if all that were released were
    /// claimed again.
    released: u16,
    /// Slots that are occupied or retired. If none is released, these are the
    /// first ones.
    in_use: u16,
    /// Whether it is among the chunks to claim from.
    pub(super) is_open: bool,
}

/// Deadlines are stored apart from what a cancel changes.
struct ChunkMemory<T> {
    slots: Box<[TimerSlot<T>; CHUNK_SLOTS]>,
    deadlines_ns: Box<[u64; CHUNK_SLOTS]>,
}

pub(super) struct TimerSlot<T> {
    /// Even while the timer waits in order, odd otherwise; increases with each
    /// change. The one entry with the same stamp is the live one.
    pub(super) stamp: u32,
    /// The stamp at the time of the claim, which is even, if `value` is there;
    /// otherwise twice the slot released before it, and one.
    claim: u32,
    value: MaybeUninit<T>,
}

impl<T> Chunk<T> {
    /// The memory of a chunk.
    pub(super) const BYTES: usize = CHUNK_SLOTS * (size_of::<TimerSlot<T>>() + size_of::<u64>());

    pub(super) const fn new() -> Self {
        Self {
            memory: None,
            stamp: 1,
            released: NO_SLOT,
            in_use: 0,
            is_open: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// Whether no slot can be claimed.
    pub(super) fn is_full(&self) -> bool {
        usize::from(self.in_use) == CHUNK_SLOTS
    }

    /// Whether a release may just have made the first room, or emptied it.
    #[inline]
    pub(super) fn is_at_an_edge(&self) -> bool {
        usize::from(self.in_use.wrapping_sub(1)) >= CHUNK_SLOTS - 2
    }

    /// Puts a value that waits for `deadline_ns` into a vacant slot; the chunk
    /// must not be full. Returns the slot and its stamp.
    #[inline]
    pub(super) fn claim(&mut self, deadline_ns: u64, value: T) -> (usize, NonZero<u32>) {
        debug_assert!(!self.is_full());
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(ChunkMemory::vacant(self.stamp)),
        };
        let is_released = self.released != NO_SLOT;
        let offset = if is_released {
            self.released
        } else {
            self.in_use
        };
        let offset = usize::from(offset) % CHUNK_SLOTS;
        let slot = &mut memory.slots[offset];
        if is_released {
            self.released = slot.next_released();
        }
        let stamp = slot.stamp + 1;
        *slot = TimerSlot {
            stamp,
            claim: stamp,
            value: MaybeUninit::new(value),
        };
        memory.deadlines_ns[offset] = deadline_ns;
        self.in_use += 1;
        (offset, NonZero::new(stamp).expect(NOT_RETIRED))
    }

    /// Takes the value out of an occupied slot, and whether it waited.
    #[inline]
    pub(super) fn release(&mut self, offset: usize) -> Option<(T, bool)> {
        let slot = &mut self.memory.as_mut()?.slots[offset];
        let waited = slot.waits();
        let value = slot.vacate(self.released)?;
        if slot.stamp < STAMP_RETIRED {
            self.released = offset as u16;
            self.in_use -= 1;
        }
        Some((value, waited))
    }

    #[inline]
    pub(super) fn slot(&self, offset: usize) -> Option<&TimerSlot<T>> {
        Some(&self.memory.as_ref()?.slots[offset])
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, offset: usize) -> Option<&mut TimerSlot<T>> {
        Some(&mut self.memory.as_mut()?.slots[offset])
    }

    #[inline]
    pub(super) fn deadline_mut(&mut self, offset: usize) -> Option<&mut u64> {
        Some(&mut self.memory.as_mut()?.deadlines_ns[offset])
    }

    pub(super) fn deadline_ns(&self, offset: usize) -> Option<u64> {
        Some(self.memory.as_ref()?.deadlines_ns[offset])
    }

    /// All slots, if they have memory.
    pub(super) fn slots(&self) -> impl Iterator<Item = &TimerSlot<T>> {
        self.memory.iter().flat_map(|memory| memory.slots.iter())
    }

    /// Lets an empty chunk start over.
    pub(super) fn reset(&mut self) {
        debug_assert!(self.is_empty());
        self.released = NO_SLOT;
    }

    /// Returns the memory of an empty chunk.
    ///
    /// Its stamps go on above the ones used so far, so that old handles and
    /// dead entries match nothing that comes.
    pub(super) fn strip(&mut self) {
        self.reset();
        self.stamp = self
            .slots()
            .map(|slot| slot.stamp)
            .max()
            .unwrap_or(self.stamp);
        self.memory = None;
    }
}

impl<T> ChunkMemory<T> {
    #[cold]
    fn vacant(stamp: u32) -> Self {
        let slot = || TimerSlot {
            stamp,
            claim: released_after(NO_SLOT),
            value: MaybeUninit::uninit(),
        };
        Self {
            slots: boxed_array(iter::repeat_with(slot)),
            deadlines_ns: boxed_array(iter::repeat(0)),
        }
    }
}

/// An array that is never on the stack.
fn boxed_array<E>(elements: impl Iterator<Item = E>) -> Box<[E; CHUNK_SLOTS]> {
    let elements: Vec<E> = elements.take(CHUNK_SLOTS).collect();
    match elements.try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the iterators that are given here do not end"),
    }
}

impl<T> Drop for ChunkMemory<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            Values(self.slots.iter_mut()).drop_all();
        }
    }
}

/// Values to drop. If a drop panics, the others are still dropped.
struct Values<'a, T>(slice::IterMut<'a, TimerSlot<T>>);

impl<T> Values<'_, T> {
    fn drop_all(&mut self) {
        for slot in &mut self.0 {
            drop(slot.vacate(NO_SLOT));
        }
    }
}

impl<T> Drop for Values<'_, T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

impl<T> TimerSlot<T> {
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.stamp % 2 == 0
    }

    /// Whether it is occupied since the claim that gave this stamp.
    #[inline]
    pub(super) fn is_claimed(&self, claimed: NonZero<u32>) -> bool {
        // Even, so that a slot with this claim is occupied.
        self.claim == claimed.get() & !1
    }

    /// The stamp of the claim, if it is occupied.
    #[inline]
    pub(super) fn claimed(&self) -> Option<NonZero<u32>> {
        NonZero::new(self.claim).filter(|_| self.is_occupied())
    }

    #[inline]
    fn is_occupied(&self) -> bool {
        self.claim % 2 == 0
    }

    /// The slot that was released before this one.
    #[inline]
    fn next_released(&self) -> u16 {
        debug_assert!(!self.is_occupied());
        (self.claim >> 1) as u16
    }

    /// Takes the value out of an occupied slot; `before` was released before it.
    #[inline]
    fn vacate(&mut self, before: u16) -> Option<T> {
        if !self.is_occupied() {
            return None;
        }
        self.claim = released_after(before);
        // Odd, and above what it was.
        self.stamp = (self.stamp + 1) | 1;
        // SAFETY: the slot was occupied, which says that the value is there;
        // it is marked as vacant from here on.
        Some(unsafe { self.value.assume_init_read() })
    }

    #[inline]
    pub(super) fn value(&self) -> Option<&T> {
        // SAFETY: an occupied slot has its value.
        let value = || unsafe { self.value.assume_init_ref() };
        self.is_occupied().then(value)
    }

    #[inline]
    pub(super) fn value_mut(&mut self) -> Option<&mut T> {
        if !self.is_occupied() {
            return None;
        }
        // SAFETY: an occupied slot has its value.
        Some(unsafe { self.value.assume_init_mut() })
    }
}

/// The claim of a vacant slot: odd, so that it is no stamp of a claim.
#[inline]
const fn released_after(before: u16) -> u32 {
    (before as u32) << 1 | 1
}

pub(super) const CHUNK_SLOTS: usize = 1024;
const NO_SLOT: u16 = CHUNK_SLOTS as u16;
/// A slot is not used again once its stamp is here.
const STAMP_RETIRED: u32 = u32::MAX / 2;
const NOT_RETIRED: &str = "a slot in use has stamps left";
