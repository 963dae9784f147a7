//! The address space of a pool, reserved once: a range of blocks for each size
//! class, one of granules, and the table of their states.
//!
//! A reservation costs page-table entries only where it is used. Because no
//! range ever changes its class, an address of any age leads to the state of
//! the same block; the word of a free block is zero in its count of holders.

use memmap2::{MmapRaw, UncheckedAdvice};

use super::{
    size_class::{CLASS_COUNT, GRANULE_BYTES, SizeClass},
    table::{ZeroedTable, reserve_bytes},
};
use crate::{
    buffer::{
        Error,
        block::{STRIPE_COUNT, Slot, Stripes},
    },
    sync::atomic::{AtomicU16, AtomicU32, Ordering},
};

/// The reserved ranges, and the conversion between an address and its block.
#[derive(Debug)]
pub(in crate::buffer) struct Region {
    /// That of no other region, whether it lives or has ended.
    id: u64,
    blocks: MmapRaw,
    slots: ZeroedTable<Slot>,
    /// One part per stripe, each as long as `slots`.
    pins: ZeroedTable<AtomicU32>,
    /// The owner of each block.
    owners: ZeroedTable<AtomicU16>,
    /// For each granule, the first granule of the buffer to which it belongs or
    /// belonged.
    heads: ZeroedTable<AtomicU32>,
    /// For each first granule, how many granules belong together.
    joined: ZeroedTable<AtomicU32>,
    range_shift: u32,
    /// The unit in which the system takes memory back: its page size.
    page_bytes: usize,
}

/// A range: that of a size class, or the granules of long buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) enum Range {
    Blocks(SizeClass),
    Granules,
}

/// A block or granule: its index in the table of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::buffer) struct SlotIndex(pub(super) usize);

/// A byte of a block.
#[derive(Debug, Clone, Copy)]
pub(in crate::buffer) struct BlockByte {
    pub(in crate::buffer) place: SlotIndex,
    /// Which byte of the block it is.
    pub(in crate::buffer) offset: usize,
    pub(super) block_bytes: usize,
}

impl Region {
    /// Reserves room for `budget_bytes` in each class.
    pub(in crate::buffer) fn reserve(budget_bytes: u64) -> Result<Self, Error> {
        Self::reserve_with_pages(budget_bytes, page_bytes())
    }

    /// Like [`Region::reserve`], on a system with pages of `page_bytes`.
    fn reserve_with_pages(budget_bytes: u64, page_bytes: usize) -> Result<Self, Error> {
        let refused = Error::NoAddressSpace { budget_bytes };
        if budget_bytes > BUDGET_BYTES_MAX {
            return Err(refused);
        }
        let range_bytes = (budget_bytes as usize + RANGE_BYTES_MIN).next_power_of_two();
        let range_shift = range_bytes.trailing_zeros();
        let slot_count = RANGE_COUNT << (range_shift - BLOCK_SHIFT_MIN);
        let granule_count = GRANULE_RANGE_COUNT * range_bytes / GRANULE_BYTES;
        Ok(Self {
            id: next_id(),
            blocks: reserve_bytes(RANGE_COUNT * range_bytes).ok_or(refused)?,
            slots: ZeroedTable::reserve(slot_count).ok_or(refused)?,
            pins: ZeroedTable::reserve(STRIPE_COUNT * slot_count).ok_or(refused)?,
            owners: ZeroedTable::reserve(slot_count).ok_or(refused)?,
            heads: ZeroedTable::reserve(granule_count).ok_or(refused)?,
            joined: ZeroedTable::reserve(granule_count).ok_or(refused)?,
            range_shift,
            page_bytes,
        })
    }

    /// Tells this region from all others that there ever were.
    #[inline]
    pub(in crate::buffer) fn id(&self) -> u64 {
        self.id
    }

    /// The block or granule at `address`, and the offset of `address` from its
    /// start; `None` for an address outside the reservation.
    pub(in crate::buffer) fn locate(&self, address: usize) -> Option<(SlotIndex, usize)> {
        let granule = || self.locate_granule(address.wrapping_sub(self.blocks.as_ptr() as usize));
        let block = self.locate_block(address);
        block.map_or_else(granule, |byte| Some((byte.place, byte.offset)))
    }

    /// The same for blocks; `None` for granules too.
    #[inline]
    pub(in crate::buffer) fn locate_block(&self, address: usize) -> Option<BlockByte> {
        let offset = address.wrapping_sub(self.blocks.as_ptr() as usize);
        let range_index = offset >> self.range_shift;
        if range_index >= CLASS_COUNT {
            return None;
        }
        let class = SizeClass::at(range_index);
        let offset = offset & (self.range_bytes() - 1);
        let index = class.block_holding(offset);
        Some(BlockByte {
            place: self.place_at(range_index, index),
            offset: offset - index * class.block_bytes(),
            block_bytes: class.block_bytes(),
        })
    }

    /// The block or granule at `index` of `range`.
    #[inline]
    pub(in crate::buffer) fn place(&self, range: Range, index: usize) -> SlotIndex {
        self.place_at(range.index(), index)
    }

    /// The range that contains `place`.
    #[inline]
    pub(in crate::buffer) fn range_of(&self, place: SlotIndex) -> Range {
        let range_index = place.0 >> self.slots_shift();
        match range_index < CLASS_COUNT {
            true => Range::Blocks(SizeClass::at(range_index)),
            false => Range::Granules,
        }
    }

    /// The index of `place` in its range.
    #[inline]
    pub(in crate::buffer) fn index_of(&self, place: SlotIndex) -> usize {
        place.0 - (self.range_of(place).index() << self.slots_shift())
    }

    /// The state of the block at `place`.
    #[inline]
    pub(in crate::buffer) fn slot(&self, place: SlotIndex) -> &Slot {
        self.slots.get(place.0)
    }

    /// The block whose state is `slot`.
    #[inline]
    pub(in crate::buffer) fn place_of(&self, slot: &Slot) -> SlotIndex {
        SlotIndex(self.slots.index_of(slot))
    }

    /// The pin counters of the block at `place`.
    #[inline]
    pub(in crate::buffer) fn stripes(&self, place: SlotIndex) -> BlockStripes<'_> {
        BlockStripes {
            region: self,
            place,
        }
    }

    /// The pin counter of `stripe` of the block at `place`.
    #[inline]
    pub(in crate::buffer) fn counter(&self, place: SlotIndex, stripe: usize) -> &AtomicU32 {
        self.pins.get(stripe * self.slots.len() + place.0)
    }

    /// The owner of the block at `place`.
    #[inline]
    pub(in crate::buffer) fn owner(&self, place: SlotIndex) -> &AtomicU16 {
        self.owners.get(place.0)
    }

    /// Bytes of the block at `place`, or of the granules joined there.
    pub(in crate::buffer) fn room(&self, place: SlotIndex) -> usize {
        match self.range_of(place) {
            Range::Blocks(class) => class.block_bytes(),
            Range::Granules => self.granules_joined(self.index_of(place)) * GRANULE_BYTES,
        }
    }

    /// Joins `count` granules: all of them lead to `head`.
    pub(in crate::buffer) fn join_granules(&self, head: usize, count: usize) {
        for granule in head..head + count {
            self.heads
                .get(granule)
                .store(head as u32, Ordering::Release);
        }
        self.joined.get(head).store(count as u32, Ordering::Relaxed);
    }

    /// How many granules were joined at `head`.
    pub(in crate::buffer) fn granules_joined(&self, head: usize) -> usize {
        self.joined.get(head).load(Ordering::Relaxed) as usize
    }

    /// The first byte of the block at `place`.
    #[inline]
    pub(in crate::buffer) fn block(&self, place: SlotIndex) -> *mut u8 {
        let range = self.range_of(place);
        let offset =
            (range.index() << self.range_shift) + self.index_of(place) * range.unit_bytes();
        debug_assert!(offset < self.blocks.len());
        self.blocks.as_mut_ptr().wrapping_add(offset)
    }

    /// Whether pieces of `len` bytes, one after the other from the start of a
    /// range, can be given back one by one, because each ends at the end of a
    /// page.
    pub(in crate::buffer) fn takes_back(&self, len: usize) -> bool {
        len % self.page_bytes == 0
    }

    /// Gives the memory of `len` bytes from the block at `place` back to the
    /// operating system, except for pages that are shared with other blocks.
    /// The bytes that were given back then read as zero.
    ///
    /// # Safety
    ///
    /// No block in there is held, and none can be opened meanwhile.
    pub(in crate::buffer) unsafe fn give_back(&self, place: SlotIndex, len: usize) {
        let offset = self.block(place) as usize - self.blocks.as_ptr() as usize;
        let Some((offset, len)) = whole_pages(offset, len, self.page_bytes) else {
            return;
        };
        // SAFETY: the range is inside the mapping, begins and ends with a page
        // so that the system takes no byte more, and by the caller's word no
        // reference into it exists.
        let outcome = unsafe {
            self.blocks
                .unchecked_advise_range(UncheckedAdvice::DontNeed, offset, len)
        };
        // If the system refuses the advice, the memory stays resident: only the
        // resident size is then too high.
        debug_assert!(outcome.is_ok(), "{outcome:?}");
    }

    /// The number of blocks or granules in `range`.
    pub(in crate::buffer) fn capacity(&self, range: Range) -> usize {
        match range {
            Range::Blocks(class) => {
                let extent_bytes = class.blocks_per_extent() * class.block_bytes();
                self.range_bytes() / extent_bytes * class.blocks_per_extent()
            }
            Range::Granules => GRANULE_RANGE_COUNT * self.range_bytes() / GRANULE_BYTES,
        }
    }

    #[inline]
    fn place_at(&self, range_index: usize, index: usize) -> SlotIndex {
        SlotIndex((range_index << self.slots_shift()) + index)
    }

    #[inline]
    fn slots_shift(&self) -> u32 {
        self.range_shift - BLOCK_SHIFT_MIN
    }

    #[inline]
    fn range_bytes(&self) -> usize {
        1 << self.range_shift
    }

    #[cold]
    fn locate_granule(&self, offset: usize) -> Option<(SlotIndex, usize)> {
        if offset >= self.blocks.len() {
            return None;
        }
        let offset = offset - (CLASS_COUNT << self.range_shift);
        let head = self
            .heads
            .get(offset / GRANULE_BYTES)
            .load(Ordering::Acquire) as usize;
        let place = self.place(Range::Granules, head);
        Some((place, offset.wrapping_sub(head * GRANULE_BYTES)))
    }
}

impl Range {
    #[inline]
    pub(in crate::buffer) fn index(self) -> usize {
        match self {
            Self::Blocks(class) => class.index(),
            Self::Granules => CLASS_COUNT,
        }
    }

    #[inline]
    pub(super) fn unit_bytes(self) -> usize {
        match self {
            Self::Blocks(class) => class.block_bytes(),
            Self::Granules => GRANULE_BYTES,
        }
    }
}

/// The pin counters of one block of a region.
pub(in crate::buffer) struct BlockStripes<'a> {
    region: &'a Region,
    place: SlotIndex,
}

impl Stripes for BlockStripes<'_> {
    #[inline]
    fn stripe(&self, stripe: usize) -> &AtomicU32 {
        self.region.counter(self.place, stripe)
    }
}

/// The whole pages among the `len` bytes from `offset` on, as offset and
/// length; `None` if there is none. Offset 0 is the start of a page.
fn whole_pages(offset: usize, len: usize, page_bytes: usize) -> Option<(usize, usize)> {
    let first = offset.next_multiple_of(page_bytes);
    let end = (offset + len) / page_bytes * page_bytes;
    (first < end).then(|| (first, end - first))
}

/// Ids are never used again, so what a thread remembers of a region that has
/// ended cannot be mistaken for something of a new one at the same address.
fn next_id() -> u64 {
    static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The system's page size.
#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: it reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).map_or(PAGE_BYTES_MAX, |bytes| bytes.max(1))
}

/// No smaller than the system's page size, whatever that is.
#[cfg(not(target_os = "linux"))]
fn page_bytes() -> usize {
    PAGE_BYTES_MAX
}

/// The largest page size of any system; a multiple of all smaller ones.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Twice the budget, so that gaps between long buffers do not use it up.
const GRANULE_RANGE_COUNT: usize = 2;
const RANGE_COUNT: usize = CLASS_COUNT + GRANULE_RANGE_COUNT;
const BLOCK_SHIFT_MIN: u32 = 6;
const RANGE_BYTES_MIN: usize = 1 << 20;
/// Block numbers stay below 2^32.
const BUDGET_BYTES_MAX: u64 = 1 << 38;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_neighbouring_blocks_leads_to_its_own_block() {
        let region = Region::reserve(1 << 20).unwrap();
        for class in SizeClass::all() {
            let range = Range::Blocks(class);
            for index in 0..region.capacity(range).min(9) {
                let place = region.place(range, index);
                let start = region.block(place) as usize;
                let last = class.block_bytes() - 1;
                assert_eq!(region.locate(start), Some((place, 0)));
                assert_eq!(region.locate(start + last), Some((place, last)));
            }
        }
    }

    #[test]
    fn only_whole_pages_are_given_back() {
        assert_eq!(whole_pages(4096, 4096, 4096), Some((4096, 4096)));
        assert_eq!(whole_pages(4096, 4096, 16_384), None);
        assert_eq!(whole_pages(12_288, 24_576, 16_384), Some((16_384, 16_384)));
        assert_eq!(
            whole_pages(65_536, 131_072, 65_536),
            Some((65_536, 131_072))
        );
        assert_eq!(whole_pages(0, 65_535, 65_536), None);
        assert_eq!(whole_pages(0, 0, 65_536), None);
    }

    /// Extents of the smallest class are 4 KiB: on a system with longer pages,
    /// four or sixteen of them share a page.
    #[test]
    fn an_extent_that_shares_its_page_is_not_given_back() {
        for (page_bytes, is_kept) in [(4096, false), (16_384, true), (65_536, true)] {
            let region = Region::reserve_with_pages(1 << 20, page_bytes).unwrap();
            let class = SizeClass::at(0);
            let extent_bytes = class.blocks_per_extent() * class.block_bytes();
            let second = region.place(Range::Blocks(class), class.blocks_per_extent());
            let block = region.block(second);
            // SAFETY: the block is inside the reservation, and nobody else has it.
            let kept = unsafe {
                block.write(7);
                region.give_back(second, extent_bytes);
                block.read() == 7
            };
            assert_eq!(kept, is_kept, "pages of {page_bytes} bytes");
            assert_eq!(region.takes_back(extent_bytes), !is_kept);
        }
    }

    /// The value from the system's own list of mappings, in KiB.
    #[cfg(target_os = "linux")]
    #[test]
    fn pages_are_as_long_as_the_systems() {
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let line = mappings
            .lines()
            .find_map(|line| line.strip_prefix("KernelPageSize:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let bytes = kib
            .and_then(|kib| kib.parse::<usize>().ok())
            .map(|kib| kib * 1024);
        assert_eq!(bytes, Some(page_bytes()));
    }

    #[test]
    fn addresses_around_the_reservation_are_foreign() {
        let region = Region::reserve(1 << 20).unwrap();
        let start = region.blocks.as_ptr() as usize;
        let end = start + region.blocks.len();
        assert!(region.locate(start).is_some());
        assert!(region.locate(end - 1).is_some());
        for address in [0, 1, start - 1, end, usize::MAX] {
            assert_eq!(region.locate(address), None);
        }
    }
}
