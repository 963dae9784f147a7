//! What only the holder of the shard's lock does to the table.

use super::*;

impl<E: Event> CacheWriter<E> {
    pub(super) fn new() -> Self {
        Self {
            version: 0,
            live_count: 0,
            cleared_count: 0,
            vacated_count: 0,
            garbage: Garbage::new(),
        }
    }

    #[inline(always)]
    pub(super) fn retire(&mut self, old: Option<SharedEvent<E>>) {
        debug_assert!(old.is_some(), "a slot in use has an event");
        if let Some(old) = old {
            self.garbage.retire_value(old);
        }
    }

    /// Keys with a last value.
    pub(in crate::bus) fn len(&self) -> usize {
        self.live_count
    }

    /// The version of the last change; 0 before the first.
    #[inline(always)]
    pub(in crate::bus) fn version(&self) -> u64 {
        self.version
    }

    /// Replaced events that somebody may still be reading.
    pub(in crate::bus) fn retired_len(&self) -> usize {
        self.garbage.len()
    }

    /// Makes the event one that can be shared; also one that was replaced
    /// before and is to be dropped when the lock is left.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn share(&mut self, event: Given<E>) -> (SharedEvent<E>, Option<Given<E>>) {
        event.share(self.garbage.pop(mem::needs_drop::<E>()))
    }

    /// What can be dropped now. Drop it when the lock is left.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn sweep(&mut self) -> Swept<E> {
        self.garbage.sweep(epochs)
    }

    /// The same after a change that left the array as it was.
    #[inline(always)]
    #[must_use]
    pub(in crate::bus) fn sweep_values(&mut self) -> Swept<E> {
        self.garbage.sweep_values(epochs)
    }

    /// The same of everything that was ever replaced, however little it is.
    #[must_use]
    pub(in crate::bus) fn sweep_all(&mut self) -> Swept<E> {
        self.garbage.sweep_all(epochs())
    }
}
