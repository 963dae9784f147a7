//! The state of one block: who holds it, and how many of its bytes are in use.
//!
//! The protocol is in this module's `README.md`. In short: the word counts
//! handles (Rust's `Buffer`, `BufferMut`) and pins (by raw address) apart, and
//! a word of zero is a free block, so fresh memory is a table of free blocks.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is known about one block.
///
/// | field | written by | when |
/// |---|---|---|
/// | `word` | whoever opens the block | once, while it is free and theirs |
/// | | every holder | to add or drop its own hold |
/// | `len` | whoever opened the block | until it is published, then never |
/// | `born` | whoever opens the block | once, before it is published |
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Slot {
    word: AtomicU64,
    len: AtomicU32,
    born: AtomicU32,
}

impl Slot {
    /// Takes a free block, which the caller got from its shelf, for one holder.
    /// No address inside it can be pinned before [`Slot::publish`].
    #[inline]
    pub(super) fn open(&self, hold: Hold, born: u32) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed), FREE);
        self.len.store(0, Ordering::Relaxed);
        self.born.store(born, Ordering::Relaxed);
        self.word.store(hold.unit(), Ordering::Release);
    }

    /// Lets the first `len` bytes be pinned by address from now on.
    #[inline]
    pub(super) fn publish(&self, len: usize) {
        self.len.store(len as u32, Ordering::Release);
    }

    /// Adds a hold for whoever knows an address `offset` bytes into the block.
    #[inline]
    pub(super) fn hold_byte(&self, offset: usize, hold: Hold) -> HoldByte {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word == FREE || !self.covers(offset) {
                return HoldByte::NotLive;
            }
            if hold.count(word) == hold.count_max() {
                return HoldByte::TooMany;
            }
            match self.swap(word, word + hold.unit()) {
                Ok(()) => return self.confirm(offset, hold),
                Err(now) => word = now,
            }
        }
    }

    /// Adds a handle beside one that the caller has.
    #[inline]
    pub(super) fn add_handle(&self) {
        let before = self.word.fetch_add(HANDLE, Ordering::Relaxed);
        if Hold::Handle.count(before) >= HANDLE_COUNT_MAX / 2 {
            too_many_handles();
        }
    }

    /// Drops a handle that the caller has.
    #[inline]
    pub(super) fn drop_handle(&self) -> Remaining {
        let before = self.word.fetch_sub(HANDLE, Ordering::AcqRel);
        debug_assert!(Hold::Handle.count(before) > 0);
        Remaining::after(before - HANDLE)
    }

    /// Drops a pin, if the block is live, covers the byte at `offset` and has one.
    #[inline]
    pub(super) fn drop_pin(&self, offset: usize) -> DropPin {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word == FREE || !self.covers(offset) {
                return DropPin::NotLive;
            }
            if Hold::Pin.count(word) == 0 {
                return DropPin::NotPinned;
            }
            match self.swap(word, word - PIN) {
                Ok(()) => return DropPin::Dropped(Remaining::after(word - PIN)),
                Err(now) => word = now,
            }
        }
    }

    /// How many handles and pins the block has now.
    pub(super) fn holds(&self) -> Holds {
        let word = self.word.load(Ordering::Acquire);
        Holds {
            handles: Hold::Handle.count(word),
            pins: Hold::Pin.count(word),
        }
    }

    /// The bytes in use, 0 while they are still being written.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// The stamp it was opened with.
    pub(super) fn born(&self) -> u32 {
        self.born.load(Ordering::Relaxed)
    }

    #[inline]
    fn covers(&self, offset: usize) -> bool {
        offset < self.len()
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.word
            .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }

    /// The block may have been freed and opened again between the look at its
    /// length and the hold. Now that it is held the length stands still.
    #[inline]
    fn confirm(&self, offset: usize, hold: Hold) -> HoldByte {
        if self.covers(offset) {
            return HoldByte::Held;
        }
        let before = self.word.fetch_sub(hold.unit(), Ordering::AcqRel);
        HoldByte::Withdrawn(Remaining::after(before - hold.unit()))
    }
}

/// The two kinds of hold on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// By a Rust value, which drops it exactly once.
    Handle,
    /// By address, to be dropped by address.
    Pin,
}

impl Hold {
    const fn unit(self) -> u64 {
        match self {
            Self::Handle => HANDLE,
            Self::Pin => PIN,
        }
    }

    const fn count(self, word: u64) -> u64 {
        match self {
            Self::Handle => word & HANDLE_COUNT_MAX,
            Self::Pin => word >> PIN.trailing_zeros(),
        }
    }

    const fn count_max(self) -> u64 {
        match self {
            Self::Handle => HANDLE_COUNT_MAX / 2,
            Self::Pin => PIN_COUNT_MAX,
        }
    }
}

/// What came of a hold by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum HoldByte {
    /// The caller holds the block.
    Held,
    /// No live buffer has that byte; nothing changed.
    NotLive,
    /// The count is full; nothing changed.
    TooMany,
    /// No live buffer has that byte any more; the hold taken meanwhile is
    /// given back, which may have been the last one.
    Withdrawn(Remaining),
}

/// What came of dropping a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum DropPin {
    /// The pin is gone.
    Dropped(Remaining),
    /// No live buffer has that byte; nothing changed.
    NotLive,
    /// The buffer is live, but nobody pinned it by address; nothing changed.
    NotPinned,
}

/// Whether anybody still holds the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Remaining {
    /// Somebody does.
    Some,
    /// The caller was the last: the block is free, and the caller's to put back.
    None,
}

impl Remaining {
    #[inline]
    fn after(word: u64) -> Self {
        if word == FREE { Self::None } else { Self::Some }
    }
}

/// How many hold a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holds {
    /// Rust values.
    pub(super) handles: u64,
    /// Pins by address.
    pub(super) pins: u64,
}

#[cold]
fn too_many_handles() -> ! {
    // As `Arc` does: going on would free memory in use.
    std::process::abort()
}

const FREE: u64 = 0;
const HANDLE: u64 = 1;
const HANDLE_COUNT_MAX: u64 = u32::MAX as u64;
const PIN: u64 = 1 << 32;
const PIN_COUNT_MAX: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_block_refuses_every_hold() {
        let slot = Slot::default();
        assert_eq!(slot.hold_byte(0, Hold::Pin), HoldByte::NotLive);
        assert_eq!(slot.drop_pin(0), DropPin::NotLive);
    }

    #[test]
    fn a_byte_past_the_length_is_not_the_buffers() {
        let slot = Slot::default();
        slot.open(Hold::Handle, 0);
        assert_eq!(slot.hold_byte(0, Hold::Pin), HoldByte::NotLive);
        slot.publish(10);
        assert_eq!(slot.hold_byte(9, Hold::Pin), HoldByte::Held);
        assert_eq!(slot.hold_byte(10, Hold::Pin), HoldByte::NotLive);
    }

    #[test]
    fn a_handle_can_not_be_dropped_by_address() {
        let slot = Slot::default();
        slot.open(Hold::Handle, 0);
        slot.publish(10);
        assert_eq!(slot.drop_pin(0), DropPin::NotPinned);
        assert_eq!(slot.hold_byte(0, Hold::Pin), HoldByte::Held);
        assert_eq!(slot.drop_handle(), Remaining::Some);
        assert_eq!(slot.drop_pin(0), DropPin::Dropped(Remaining::None));
        assert_eq!(slot.drop_pin(0), DropPin::NotLive);
    }
}
