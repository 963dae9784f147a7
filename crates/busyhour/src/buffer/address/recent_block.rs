//! Where the block is that a thread pinned last.
//!
//! # What the note may be used for
//!
//! The note has the addresses of the block's slot and of the thread's pin
//! counter for it, and they are turned into references again. That is sound for
//! these reasons, of which each is kept by this file and by `region.rs`:
//!
//! 1. *They were right when they were noted*: [`RecentBlock::note`] alone writes
//!    them, and gets both from the region itself, as references.
//! 2. *They stay right as long as the region lives*: slots and counters lie in
//!    mappings that the region owns and that never move, grow or shrink,
//!    wherever the region itself lies; and only atomics write there.
//! 3. *The region lives*: they are used only for a caller that has a reference to
//!    a region with the noted id, for as long as that reference. No two regions
//!    ever have the same id, so it is the region that they were noted for.
//! 4. *They belong together*: the fields are a thread's own, and between the
//!    first and the last write of a note nothing else runs on the thread. A
//!    signal handler that interrupts it must not pin, as it must not allocate.
//!
//! So a note never becomes outdated. When its region ends, its addresses dangle,
//! and nothing looks at them until the next note replaces them. Before the first
//! note the block has 0 bytes, so that no address is inside. Whether the block is
//! live is not known from here: its slot is asked each time.

use std::cell::Cell;

use super::region::{BlockByte, Region};
use crate::{
    buffer::block::Slot,
    sync::{atomic::AtomicU32, zeroed},
};

/// The block that a thread pinned last, so that its unpin, and the next pin of
/// the same block, need no arithmetic: what they read and change is at addresses
/// that are known at once.
#[derive(Debug)]
pub(in crate::buffer) struct RecentBlock {
    region_id: Cell<u64>,
    start: Cell<usize>,
    /// 0 until the first pin, so that no address is inside.
    block_bytes: Cell<usize>,
    slot: Cell<*const Slot>,
    /// The thread's counter of the block's pins.
    counter: Cell<*const AtomicU32>,
    /// How many pins in a row were of this block, up to [`STEADY`].
    streak: Cell<usize>,
}

zeroed!(RecentBlock {
    region_id,
    start,
    block_bytes,
    slot,
    counter,
    streak,
});

/// A byte of a block, with what a thread needs to pin it.
#[derive(Debug, Clone, Copy)]
pub(in crate::buffer) struct PinnedByte<'a> {
    pub(in crate::buffer) slot: &'a Slot,
    /// The thread's counter of the block's pins.
    pub(in crate::buffer) counter: &'a AtomicU32,
    /// Which byte of the block it is.
    pub(in crate::buffer) offset: usize,
}

impl<'a> PinnedByte<'a> {
    /// For a thread that counts its pins in `stripe`.
    #[inline(always)]
    pub(in crate::buffer) fn of(region: &'a Region, byte: &BlockByte, stripe: usize) -> Self {
        Self {
            slot: region.slot(byte.place),
            counter: region.counter(byte.place, stripe),
            offset: byte.offset,
        }
    }
}

impl RecentBlock {
    /// The byte at `address`, if it is of this block of this region.
    #[inline(always)]
    pub(in crate::buffer) fn find<'a>(
        &self,
        region: &'a Region,
        address: usize,
    ) -> Option<PinnedByte<'a>> {
        let offset = address.wrapping_sub(self.start.get());
        let is_inside = offset < self.block_bytes.get() && region.id() == self.region_id.get();
        if !is_inside {
            return None;
        }
        // SAFETY: there was a note, since the block has bytes, and the region has
        // its id, so both point into mappings of `region` (1 to 4 above), which
        // live as long as `'a`; only atomics write to what they point at.
        let (slot, counter) = unsafe { (&*self.slot.get(), &*self.counter.get()) };
        Some(PinnedByte {
            slot,
            counter,
            offset,
        })
    }

    /// The same for a pin, if the last ones were all of this block. Where pins
    /// alternate between a few blocks, a processor would predict wrongly, again
    /// and again, whether the next one is of the same block.
    #[inline(always)]
    pub(in crate::buffer) fn find_again<'a>(
        &self,
        region: &'a Region,
        address: usize,
    ) -> Option<PinnedByte<'a>> {
        match self.streak.get() >= STEADY {
            true => self.find(region, address),
            false => None,
        }
    }

    /// Notes the block of the byte at `address`, for a thread that counts its pins in
    /// `stripe`, always the same one.
    #[inline(always)]
    pub(in crate::buffer) fn note<'a>(
        &self,
        region: &'a Region,
        address: usize,
        byte: &BlockByte,
        stripe: usize,
    ) -> PinnedByte<'a> {
        let pinned = PinnedByte::of(region, byte, stripe);
        let start = address.wrapping_sub(byte.offset);
        let is_same = start == self.start.get() && region.id() == self.region_id.get();
        let longer = (self.streak.get() + 1).min(STEADY);
        self.streak.set(usize::from(is_same) * longer);
        self.region_id.set(region.id());
        self.start.set(start);
        self.block_bytes.set(byte.block_bytes);
        self.slot.set(pinned.slot);
        self.counter.set(pinned.counter);
        pinned
    }
}

/// So many pins in a row make it likely that the next one is of the same block.
const STEADY: usize = 8;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::buffer::address::{Range, SizeClass};

    const STRIPE: usize = 3;

    fn none() -> RecentBlock {
        RecentBlock {
            region_id: Cell::new(0),
            start: Cell::new(0),
            block_bytes: Cell::new(0),
            slot: Cell::new(std::ptr::null()),
            counter: Cell::new(std::ptr::null()),
            streak: Cell::new(0),
        }
    }

    fn region() -> Region {
        Region::reserve(1 << 20).unwrap()
    }

    /// The address of the block at `index` of the smallest class.
    fn block(region: &Region, index: usize) -> usize {
        let class = SizeClass::all().next().unwrap();
        region
            .block(region.place(Range::Blocks(class), index))
            .addr()
    }

    fn note(recent: &RecentBlock, region: &Region, address: usize) {
        let byte = region.locate_block(address).unwrap();
        let _ = recent.note(region, address, &byte, STRIPE);
    }

    #[test]
    fn only_the_bytes_of_the_last_block_of_its_region_are_found() {
        let (recent, ours, other) = (none(), region(), region());
        assert!(recent.find(&ours, 0).is_none(), "there was no pin");
        let start = block(&ours, 5);
        note(&recent, &ours, start + 40);
        let byte = ours.locate_block(start).unwrap();
        for offset in [0, 40, 63] {
            let found = recent.find(&ours, start + offset).unwrap();
            assert_eq!(found.offset, offset);
            assert!(std::ptr::eq(found.slot, ours.slot(byte.place)));
            assert!(std::ptr::eq(
                found.counter,
                ours.counter(byte.place, STRIPE)
            ));
        }
        for address in [0, start - 1, start + 64, usize::MAX] {
            assert!(recent.find(&ours, address).is_none());
        }
        assert!(recent.find(&other, start).is_none(), "another region");
    }

    /// Where the ended region lay, or elsewhere.
    #[test]
    fn nothing_of_a_region_that_has_ended_is_found_in_a_new_one() {
        let recent = none();
        for _ in 0..20 {
            let ended = region();
            let start = block(&ended, 5);
            note(&recent, &ended, start);
            drop(ended);
            let new = region();
            for address in [start, block(&new, 5)] {
                assert!(recent.find(&new, address).is_none());
            }
        }
    }

    #[test]
    fn it_is_found_wherever_the_region_is_moved() {
        let (recent, region) = (none(), region());
        let start = block(&region, 5);
        note(&recent, &region, start);
        let moved = Box::new(region);
        let found = recent.find(&moved, start + 1).unwrap();
        found.slot.publish(7);
        let place = moved.locate_block(start).unwrap().place;
        assert_eq!(moved.slot(place).len(), 7);
    }

    #[test]
    fn a_pin_finds_it_after_some_pins_in_a_row() {
        let (recent, ours, other) = (none(), region(), region());
        let start = block(&ours, 5);
        for pins in 0..2 * STEADY {
            let found = recent.find_again(&ours, start);
            assert_eq!(found.is_some(), pins > STEADY);
            note(&recent, &ours, start + 40);
        }
        note(&recent, &ours, block(&ours, 9));
        assert!(recent.find_again(&ours, block(&ours, 9)).is_none());
        note(&recent, &other, block(&other, 9));
        assert_eq!(recent.streak.get(), 0, "another region");
    }
}
