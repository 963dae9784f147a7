//! The free blocks of one size class, and which of them are backed by memory.

use super::free_map::FreeMap;
use crate::buffer::address::{Range, Region, SizeClass};

/// Free blocks of one class, behind the class's lock.
///
/// Blocks get and give back memory by extents. An extent that becomes
/// completely free stays resident while there are few of them, so that a pool
/// whose use rises and falls does not call the operating system each time.
#[derive(Debug)]
pub(in crate::buffer) struct Bin {
    class: SizeClass,
    /// Whether an extent is a whole number of the system's pages, so that it
    /// can be given back without its neighbours.
    gives_back: bool,
    taken: FreeMap,
    resident: Vec<u64>,
    idle_extents: usize,
    touched_end: usize,
}

impl Bin {
    pub(in crate::buffer) fn new(class: SizeClass, region: &Region) -> Self {
        let capacity = region.capacity(Range::Blocks(class));
        Self {
            class,
            gives_back: region.takes_back(class.blocks_per_extent() * class.block_bytes()),
            taken: FreeMap::new(capacity),
            resident: vec![0; capacity.div_ceil(class.blocks_per_extent()).div_ceil(64)],
            idle_extents: 0,
            touched_end: 0,
        }
    }

    /// Takes the lowest free block.
    pub(in crate::buffer) fn take(&mut self) -> Option<usize> {
        let index = self.taken.lowest_free()?;
        let was_idle = self.is_extent_free(index);
        self.taken.mark_taken(index);
        self.touched_end = self.touched_end.max(index + 1);
        if was_idle {
            self.wake_extent(index);
        }
        Some(index)
    }

    /// Puts back a block without holders.
    pub(in crate::buffer) fn put(&mut self, index: usize, region: &Region) {
        let was_taken = self.taken.put(index);
        debug_assert!(was_taken, "a block was put back twice");
        if self.is_extent_free(index) {
            self.idle_extents += 1;
            if self.gives_back && self.idle_extents * self.extent_bytes() > IDLE_BYTES_MAX {
                self.give_back(self.extent_of(index), region);
            }
        }
    }

    /// Gives the memory of every completely free extent back; returns the
    /// number of bytes.
    pub(in crate::buffer) fn trim(&mut self, region: &Region) -> usize {
        let mut given_extents = 0;
        if !self.gives_back {
            return 0;
        }
        for extent in 0..self.resident.len() * 64 {
            if self.idle_extents == 0 {
                break;
            }
            let first = extent * self.class.blocks_per_extent();
            if self.is_resident(extent) && self.is_extent_free(first) {
                self.give_back(extent, region);
                given_extents += 1;
            }
        }
        given_extents * self.extent_bytes()
    }

    /// No block from this index on was ever taken.
    pub(in crate::buffer) fn touched_end(&self) -> usize {
        self.touched_end
    }

    /// Bytes of the extents that are backed by memory.
    pub(in crate::buffer) fn resident_bytes(&self) -> usize {
        let extents: u32 = self.resident.iter().map(|word| word.count_ones()).sum();
        extents as usize * self.extent_bytes()
    }

    fn wake_extent(&mut self, index: usize) {
        let extent = self.extent_of(index);
        if self.is_resident(extent) {
            self.idle_extents -= 1;
        }
        self.resident[extent / 64] |= 1 << (extent % 64);
    }

    fn give_back(&mut self, extent: usize, region: &Region) {
        let first = extent * self.class.blocks_per_extent();
        debug_assert!(self.is_resident(extent) && self.is_extent_free(first));
        let place = region.place(Range::Blocks(self.class), first);
        // SAFETY: every block of the extent is on this bin, and the bin is
        // locked, so nobody holds one and nobody can take one.
        unsafe { region.give_back(place, self.extent_bytes()) };
        self.resident[extent / 64] &= !(1 << (extent % 64));
        self.idle_extents -= 1;
    }

    fn is_resident(&self, extent: usize) -> bool {
        self.resident[extent / 64] >> (extent % 64) & 1 == 1
    }

    fn is_extent_free(&self, index: usize) -> bool {
        self.taken
            .is_group_free(index, self.class.blocks_per_extent())
    }

    fn extent_of(&self, index: usize) -> usize {
        index / self.class.blocks_per_extent()
    }

    fn extent_bytes(&self) -> usize {
        self.class.blocks_per_extent() * self.class.block_bytes()
    }
}

/// Free memory that a class keeps for the next burst.
const IDLE_BYTES_MAX: usize = 512 * 1024;
