//! What only the holder of the shard's lock does with the table.

use super::*;

impl<E: Event> CacheWriter<E> {
    pub(super) fn new(array: SlotArray<E>) -> Self {
        Self {
            garbage: Garbage::new(),
            version: 0,
            live_count: 0,
            removed_count: 0,
            vacated_count: 0,
            array,
            recent: RecentChanges::new(),
            copies: RecentCopies::new(),
            tombstones: Tombstones::new(),
        }
    }

    #[inline(always)]
    pub(super) fn retire(&mut self, old: Option<SharedEvent<E>>) {
        debug_assert!(old.is_some(), "a slot in use has an event");
        if let Some(old) = old {
            self.garbage.retire_value(old);
        }
    }

    /// The number of keys with a last value.
    pub(in crate::bus) fn len(&self) -> usize {
        self.live_count
    }

    /// The version of the last change; 0 before the first.
    #[inline(always)]
    pub(in crate::bus) fn version(&self) -> u64 {
        self.version
    }

    /// Copies of all that has changed after version `since`, if there are copies of it.
    pub(in crate::bus) fn copied_since(&mut self, since: u64) -> Option<CopiedChanges<E>> {
        self.copies.since(since, self.version)
    }

    /// Whether some removed key has kept its slot.
    pub(in crate::bus) fn has_tombstones(&self) -> bool {
        self.removed_count > 0
    }

    /// Replaced events that may still have readers.
    pub(in crate::bus) fn retired_len(&self) -> usize {
        self.garbage.len()
    }

    /// Makes the event shareable; also returns a replaced event that must be
    /// dropped after the lock.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn share(&mut self, event: Given<E>) -> (SharedEvent<E>, Option<Given<E>>) {
        let overdue = self.garbage.pop(mem::needs_drop::<E>());
        if let Some(next) = self.garbage.next() {
            prefetch_to_write(next.address());
        }
        event.share(overdue)
    }

    /// Garbage that can be dropped now, after the lock is released.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn sweep(&mut self) -> Swept<E> {
        self.garbage.sweep(epochs)
    }

    /// Like [`Self::sweep`], after a change that did not replace the array.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn sweep_values(&mut self) -> Swept<E> {
        self.garbage.sweep_values(epochs)
    }

    /// Like [`Self::sweep`], but all garbage, even a little.
    #[must_use]
    pub(in crate::bus) fn sweep_all(&mut self) -> Swept<E> {
        self.garbage.sweep_all(epochs())
    }
}
