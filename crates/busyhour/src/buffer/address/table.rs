//! A large table of atomics that costs memory only where it is used.

use std::marker::PhantomData;

use memmap2::{MmapOptions, MmapRaw};

use crate::{
    buffer::block::Slot,
    sync::atomic::{AtomicU16, AtomicU32},
};

/// A fixed number of `T`, initially all zero.
#[derive(Debug)]
pub(in crate::buffer) struct ZeroedTable<T> {
    memory: MmapRaw,
    len: usize,
    entries: PhantomData<T>,
}

/// Types for which zeroed memory is a valid value, and which change only
/// through atomics.
///
/// # Safety
///
/// - All-zero bytes are a valid value.
/// - It is `Sync` and needs no drop and at most the alignment of a page.
pub(in crate::buffer) unsafe trait Zeroable: Sync {}

// SAFETY: it consists of atomic integers.
unsafe impl Zeroable for Slot {}
// SAFETY: it is an atomic integer.
unsafe impl Zeroable for AtomicU32 {}
// SAFETY: it is an atomic integer.
unsafe impl Zeroable for AtomicU16 {}

impl<T: Zeroable> ZeroedTable<T> {
    /// A table of `len` zeros; `None` if the address space is used up.
    pub(in crate::buffer) fn reserve(len: usize) -> Option<Self> {
        Some(Self {
            memory: reserve_bytes(len.checked_mul(size_of::<T>())?)?,
            len,
            entries: PhantomData,
        })
    }

    /// The number of entries.
    #[inline]
    pub(in crate::buffer) fn len(&self) -> usize {
        self.len
    }

    /// The index of `entry`, which must be from this table.
    #[inline]
    pub(in crate::buffer) fn index_of(&self, entry: &T) -> usize {
        let offset = (&raw const *entry).addr() - self.memory.as_ptr().addr();
        offset / size_of::<T>()
    }

    /// The entry at `index`.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[inline]
    pub(in crate::buffer) fn get(&self, index: usize) -> &T {
        assert!(index < self.len);
        // SAFETY: the index is inside the mapping, which lives as long as
        // `self` and starts on a page; zeroed bytes are a valid `T`, and only
        // a `T`'s own atomics write there.
        unsafe { &*self.memory.as_ptr().cast::<T>().add(index) }
    }
}

/// Reserves `len` bytes that read as zero and get memory when they are written.
pub(super) fn reserve_bytes(len: usize) -> Option<MmapRaw> {
    MmapOptions::new()
        .len(len)
        .no_reserve_swap()
        .map_anon()
        .ok()
        .map(MmapRaw::from)
}
