//! The block size for a length: twenty sizes, two for each doubling, so that at
//! most a third of a block is rounding; longer buffers get whole granules.

/// One of the block sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) struct SizeClass(u8);

impl SizeClass {
    /// The smallest class whose block holds `len` bytes; `None` if only
    /// granules do.
    #[inline]
    pub(in crate::buffer) fn of(len: usize) -> Option<Self> {
        let lines = len.div_ceil(LINE_BYTES);
        CLASS_BY_LINES.get(lines).map(|class| Self(*class))
    }

    /// Every class, from the smallest block to the largest.
    pub(in crate::buffer) fn all() -> impl Iterator<Item = Self> {
        (0..CLASS_COUNT as u8).map(Self)
    }

    /// The class at `index`, which is below [`CLASS_COUNT`].
    #[inline]
    pub(in crate::buffer) const fn at(index: usize) -> Self {
        Self(index as u8)
    }

    /// Its index in the order of classes.
    #[inline]
    pub(in crate::buffer) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes in each block of the class at `index`; 0 if there is no such
    /// class.
    pub(in crate::buffer) fn block_bytes_at(index: usize) -> u64 {
        BLOCK_BYTES.get(index).map_or(0, |bytes| *bytes as u64)
    }

    /// Bytes in each of its blocks.
    #[inline]
    pub(in crate::buffer) const fn block_bytes(self) -> usize {
        BLOCK_BYTES[self.index()]
    }

    /// Blocks that get and give back their memory together: at most 64 KiB, in
    /// whole pages of 4 KiB. On systems with longer pages, extents that are not
    /// whole pages keep their memory.
    pub(in crate::buffer) const fn blocks_per_extent(self) -> usize {
        let mut blocks = 64;
        while blocks * self.block_bytes() > EXTENT_BYTES_MAX {
            blocks /= 2;
        }
        blocks
    }

    /// The block that holds the byte at `offset` from the start of the class's
    /// range.
    ///
    /// A multiplication with the rounded-up reciprocal instead of a division:
    /// exact as long as `offset * block_bytes` stays below 2^64.
    #[inline]
    pub(super) const fn block_holding(self, offset: usize) -> usize {
        ((offset as u128 * RECIPROCAL[self.index()] as u128) >> 64) as usize
    }
}

/// Number of block sizes.
pub(in crate::buffer) const CLASS_COUNT: usize = BLOCK_BYTES.len();
/// The shortest block.
pub(in crate::buffer) const BLOCK_BYTES_MIN: usize = BLOCK_BYTES[0];
/// The longest buffer that gets a block.
pub(in crate::buffer) const BLOCK_BYTES_MAX: usize = BLOCK_BYTES[CLASS_COUNT - 1];
/// The unit of longer buffers.
pub(in crate::buffer) const GRANULE_BYTES: usize = 64 * 1024;

const BLOCK_BYTES: [usize; 20] = [
    64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
    24576, 32768, 49152, 65536,
];
const LINE_BYTES: usize = 64;
const EXTENT_BYTES_MAX: usize = 64 * 1024;
const PAGE_BYTES: usize = 4096;

const CLASS_BY_LINES: [u8; BLOCK_BYTES_MAX / LINE_BYTES + 1] = class_by_lines();
const RECIPROCAL: [u64; CLASS_COUNT] = reciprocals();

const fn class_by_lines() -> [u8; BLOCK_BYTES_MAX / LINE_BYTES + 1] {
    let mut table = [0; BLOCK_BYTES_MAX / LINE_BYTES + 1];
    let (mut lines, mut class) = (0, 0);
    while lines < table.len() {
        if lines * LINE_BYTES > BLOCK_BYTES[class] {
            class += 1;
        }
        table[lines] = class as u8;
        lines += 1;
    }
    table
}

const fn reciprocals() -> [u64; CLASS_COUNT] {
    let mut table = [0; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        table[class] = (1u128 << 64).div_ceil(BLOCK_BYTES[class] as u128) as u64;
        class += 1;
    }
    table
}

const _: () = {
    let mut class = 0;
    while class < CLASS_COUNT {
        let size = SizeClass(class as u8);
        assert!(size.block_bytes() % LINE_BYTES == 0);
        assert!((size.blocks_per_extent() * size.block_bytes()) % PAGE_BYTES == 0);
        class += 1;
    }
};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_block_that_holds_it() {
        for len in 0..=BLOCK_BYTES_MAX {
            let class = SizeClass::of(len).unwrap();
            assert!(class.block_bytes() >= len);
            let smaller = class.index().checked_sub(1).map(|i| BLOCK_BYTES[i]);
            assert!(smaller.is_none_or(|bytes| bytes < len), "{len}");
        }
        assert_eq!(SizeClass::of(BLOCK_BYTES_MAX + 1), None);
    }

    #[test]
    fn the_reciprocal_divides_exactly_to_the_end_of_the_largest_range() {
        for class in SizeClass::all() {
            let bytes = class.block_bytes();
            let blocks = [1, 2, 3, 1000, (1 << 38) / bytes - 1, (1 << 38) / bytes];
            for start in blocks.map(|block| block * bytes) {
                for offset in [start - 1, start, start + 1] {
                    assert_eq!(class.block_holding(offset), offset / bytes);
                }
            }
        }
    }
}
