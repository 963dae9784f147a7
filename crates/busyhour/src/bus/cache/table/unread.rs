//! What a subscriber that reads from the cache has not read yet.

use super::{slots::PinnedEvent, *};

/// The last change of a key, whose event stays while the pin is held.
pub(in crate::bus) struct UnreadChange<'a, E> {
    word: SlotWord,
    pub(in crate::bus) event: PinnedEvent<'a, E>,
}

/// The next changes that a subscriber has not read, in order, of each key at most the last one.
pub(in crate::bus) struct Unread<'a, E> {
    pub(in crate::bus) changes: Vec<UnreadChange<'a, E>>,
    /// The version until which these are all.
    pub(in crate::bus) until: u64,
}

/// The slots of the next changes.
pub(in crate::bus) struct NextSlots<'a, E> {
    slots: CacheSlots<'a, E>,
    indices: Vec<usize>,
}

impl<E: Event> NextSlots<'_, E> {
    /// Lets the processor fetch them.
    pub(in crate::bus) fn prefetch(&self) {
        for index in &self.indices {
            let slot = self.slots.at(*index);
            prefetch(slot.cells.address());
            prefetch(std::ptr::from_ref(slot.state).addr());
        }
    }
}

impl<E> UnreadChange<'_, E> {
    pub(in crate::bus) fn version(&self) -> u64 {
        self.word.version()
    }

    /// Whether the key has been removed.
    pub(in crate::bus) fn is_removed(&self) -> bool {
        self.word.kind() == SlotKind::Removed
    }
}

impl<E: Event> CacheTable<E> {
    /// The changes after version `since`, of which at most `versions_max` are looked for; all of
    /// them if not each is noted. Only pointers are read here: the shard's lock is held.
    pub(in crate::bus) fn unread<'a>(
        &'a self,
        writer: &CacheWriter<E>,
        (since, versions_max): (u64, u64),
        pin: &'a Pin<'_>,
    ) -> Unread<'a, E> {
        let slots = self.pinned_slots(pin);
        let newest = writer.version;
        let Some(noted) = writer.recent.since(since, newest) else {
            let all = slots.iter();
            let mut changes: Vec<_> = all.filter_map(|it| it.unread(since, pin)).collect();
            changes.sort_unstable_by_key(UnreadChange::version);
            let until = newest;
            return Unread { changes, until };
        };
        let until = newest.min(since.saturating_add(versions_max));
        let mut changes = Vec::with_capacity((until - since) as usize);
        for (version, index) in noted.take((until - since) as usize) {
            let slot = slots.at(index);
            let is_last = slot.word().version() == version;
            changes.extend(is_last.then(|| slot.unread(since, pin)).flatten());
        }
        Unread { changes, until }
    }

    /// The last change of each key, in no order. Only pointers are read here: the shard's lock is held.
    pub(in crate::bus) fn pinned_changes<'a>(
        &'a self,
        writer: &CacheWriter<E>,
        pin: &'a Pin<'_>,
    ) -> Vec<UnreadChange<'a, E>> {
        let mut changes = Vec::with_capacity(writer.live_count + writer.removed_count);
        let slots = self.pinned_slots(pin).iter();
        changes.extend(slots.filter_map(|slot| slot.unread(0, pin)));
        changes
    }

    /// The slots of the next changes, as far as they are noted, which [`Self::unread`] will look
    /// at: fetched before the lock is taken again, they keep it for a shorter time.
    pub(in crate::bus) fn next_slots<'a>(
        &'a self,
        writer: &CacheWriter<E>,
        (since, versions_max): (u64, u64),
        pin: &'a Pin<'_>,
    ) -> NextSlots<'a, E> {
        let slots = self.pinned_slots(pin);
        let noted = writer.recent.since(since, writer.version);
        let noted = noted.into_iter().flatten().take(versions_max as usize);
        let indices = noted.map(|(_, index)| index).collect();
        NextSlots { slots, indices }
    }
}

impl<'a, E: Event> CacheSlot<'a, E> {
    /// The slot's last change, if it is newer than `since`.
    fn unread(self, since: u64, pin: &'a Pin<'_>) -> Option<UnreadChange<'a, E>> {
        let word = self.word();
        if self.is_free() || word.version() <= since {
            return None;
        }
        let event = self.pinned(pin)?;
        Some(UnreadChange { word, event })
    }
}

impl<E> PinnedEvent<'_, E> {
    /// Lets the processor fetch it.
    pub(in crate::bus) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self.event()).addr());
    }
}
