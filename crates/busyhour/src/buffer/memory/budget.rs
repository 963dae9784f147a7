//! The limit on the bytes that all buffers may hold together.

use crate::{
    buffer::address::BLOCK_BYTES_MAX,
    sync::{
        CachePadded,
        atomic::{AtomicU64, Ordering},
    },
};

/// Charged when blocks leave their bin, credited when they return, so blocks in
/// threads' caches count as well.
#[derive(Debug)]
pub(in crate::buffer) struct ByteBudget {
    bytes: u64,
    cached_bytes_max: usize,
    used_bytes: CachePadded<AtomicU64>,
    used_bytes_high_water: AtomicU64,
}

impl ByteBudget {
    pub(in crate::buffer) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            cached_bytes_max: CACHED_BYTES_MAX.min((bytes / CACHED_PART) as usize),
            used_bytes: CachePadded::default(),
            used_bytes_high_water: AtomicU64::new(0),
        }
    }

    /// Reserves `bytes`; `None` if they exceed the budget.
    pub(in crate::buffer) fn charge(&self, bytes: usize) -> Option<()> {
        let within = |used: u64| Some(used + bytes as u64).filter(|sum| *sum <= self.bytes);
        let before = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .ok()?;
        let used = before + bytes as u64;
        if used > self.used_bytes_high_water.load(Ordering::Relaxed) {
            self.used_bytes_high_water
                .fetch_max(used, Ordering::Relaxed);
        }
        Some(())
    }

    pub(in crate::buffer) fn discharge(&self, bytes: usize) {
        let before = self.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        debug_assert!(before >= bytes as u64, "more was given back than charged");
    }

    pub(in crate::buffer) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(in crate::buffer) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    pub(in crate::buffer) fn used_bytes_high_water(&self) -> u64 {
        self.used_bytes_high_water.load(Ordering::Relaxed)
    }

    /// How many bytes of free blocks one thread may keep.
    #[inline]
    pub(in crate::buffer) fn cached_bytes_max(&self) -> usize {
        self.cached_bytes_max
    }
}

const CACHED_BYTES_MAX: usize = 16 * BLOCK_BYTES_MAX;
/// A thread keeps at most this fraction of the budget.
const CACHED_PART: u64 = 64;
