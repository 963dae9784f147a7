//! Where the block is that a thread pinned last.

use std::cell::Cell;

use super::region::{BlockByte, SlotIndex};
use crate::sync::zeroed;

/// The block that a thread pinned last, so that its unpin, and the next pin of
/// the same block, need no arithmetic: what they read first is then at an
/// address that is known at once.
///
/// It never becomes outdated: a store never gives a block another place, and its
/// number is never given to another store. Whether the block is live is not
/// known from here.
#[derive(Debug)]
pub(in crate::buffer) struct RecentBlock {
    store_id: Cell<u64>,
    start: Cell<usize>,
    /// 0 until the first pin, so that no address is inside.
    block_bytes: Cell<usize>,
    place: Cell<usize>,
    /// How many pins in a row were of this block, up to [`STEADY`].
    streak: Cell<usize>,
}

zeroed!(RecentBlock {
    store_id,
    start,
    block_bytes,
    place,
    streak,
});

impl RecentBlock {
    /// The block and the offset of `address` in it, if it is this block of this
    /// store.
    #[inline(always)]
    pub(in crate::buffer) fn find(
        &self,
        store_id: u64,
        address: usize,
    ) -> Option<(SlotIndex, usize)> {
        let offset = address.wrapping_sub(self.start.get());
        let is_inside = offset < self.block_bytes.get() && store_id == self.store_id.get();
        is_inside.then(|| (SlotIndex(self.place.get()), offset))
    }

    /// The same for a pin, if the last ones were all of this block. Where pins
    /// alternate between a few blocks, a processor would predict wrongly, again
    /// and again, whether the next one is of the same block.
    #[inline(always)]
    pub(in crate::buffer) fn find_again(
        &self,
        store_id: u64,
        address: usize,
    ) -> Option<(SlotIndex, usize)> {
        match self.streak.get() >= STEADY {
            true => self.find(store_id, address),
            false => None,
        }
    }

    #[inline(always)]
    pub(in crate::buffer) fn note(&self, store_id: u64, address: usize, byte: &BlockByte) {
        let start = address - byte.offset;
        let is_same = start == self.start.get() && store_id == self.store_id.get();
        let longer = (self.streak.get() + 1).min(STEADY);
        self.streak.set(usize::from(is_same) * longer);
        self.store_id.set(store_id);
        self.start.set(start);
        self.block_bytes.set(byte.block_bytes);
        self.place.set(byte.place.0);
    }
}

/// So many pins in a row make it likely that the next one is of the same block.
const STEADY: usize = 8;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn none() -> RecentBlock {
        RecentBlock {
            store_id: Cell::new(0),
            start: Cell::new(0),
            block_bytes: Cell::new(0),
            place: Cell::new(0),
            streak: Cell::new(0),
        }
    }

    fn byte(place: usize, offset: usize) -> BlockByte {
        BlockByte {
            place: SlotIndex(place),
            offset,
            block_bytes: 64,
        }
    }

    #[test]
    fn only_the_bytes_of_the_last_block_of_its_store_are_found() {
        let recent = none();
        assert_eq!(recent.find(0, 0), None, "there was no pin");
        recent.note(3, 1000, &byte(5, 40));
        for (address, offset) in [(960, 0), (1000, 40), (1023, 63)] {
            assert_eq!(recent.find(3, address), Some((SlotIndex(5), offset)));
        }
        for address in [0, 959, 1024, usize::MAX] {
            assert_eq!(recent.find(3, address), None);
        }
        assert_eq!(recent.find(4, 1000), None, "another store");
    }

    #[test]
    fn a_pin_finds_it_after_some_pins_in_a_row() {
        let recent = none();
        for pins in 0..2 * STEADY {
            assert_eq!(recent.find_again(3, 960).is_some(), pins > STEADY);
            recent.note(3, 1000, &byte(5, 40));
        }
        recent.note(3, 2000, &byte(9, 0));
        assert_eq!(recent.find_again(3, 2000), None);
        recent.note(4, 2000, &byte(9, 0));
        assert_eq!(recent.streak.get(), 0, "another store");
    }
}
