//! The removed keys that laggards are still to be told, in the order of their removals.

use super::*;

/// The slot of each removed key that has kept its slot, oldest removal first. A slot that got
/// another event meanwhile is still named here for a while.
pub(super) struct Tombstones(Vec<Tombstone>);

#[derive(Clone, Copy)]
struct Tombstone {
    version: u64,
    index: usize,
}

impl Tombstones {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }
}

impl<E: Event> CacheTable<E> {
    /// Notes the slot of a key that has just been removed.
    pub(super) fn bury(&self, writer: &mut CacheWriter<E>, index: usize) {
        let version = writer.version;
        if writer.tombstones.0.len() > 2 * writer.removed_count.max(STALE_MIN) {
            let slots = self.writer_slots(writer);
            let is_removed = |it: &Tombstone| slots.at(it.index).is_removed_at(it.version);
            writer.tombstones.0.retain(is_removed);
        }
        writer.tombstones.0.push(Tombstone { version, index });
    }

    /// The slots have moved.
    pub(super) fn find_tombstones(&self, writer: &mut CacheWriter<E>) {
        writer.tombstones.0.clear();
        if writer.removed_count == 0 {
            return;
        }
        let slots = self.writer_slots(writer).iter().enumerate();
        let removed = slots.filter(|(_, slot)| slot.word().kind() == SlotKind::Removed);
        let mut removed: Vec<_> = removed
            .map(|(index, slot)| Tombstone {
                version: slot.word().version(),
                index,
            })
            .collect();
        removed.sort_unstable_by_key(|it| it.version);
        writer.tombstones.0 = removed;
    }

    /// Frees the slots of keys that were removed after `since` and of which no laggard is to be
    /// told; calls `forget` with the version of each. `lags` are the versions until which laggards
    /// have received changes, in order: one of them is to be told if the key was there then.
    pub(in crate::bus) fn purge(
        &self,
        writer: &mut CacheWriter<E>,
        since: u64,
        lags: &[u64],
        mut forget: impl FnMut(u64),
    ) {
        if writer.removed_count == 0 {
            return;
        }
        let first = (writer.tombstones.0).partition_point(|it| it.version <= since);
        for it in writer.tombstones.0.split_off(first) {
            let slot = self.writer_slots(writer).at(it.index);
            if !slot.is_removed_at(it.version) {
                continue;
            }
            let born = slot.state.born.load(Ordering::Relaxed);
            let next = lags.partition_point(|lag| *lag < born);
            if lags.get(next).is_some_and(|lag| *lag < it.version) {
                writer.tombstones.0.push(it);
                continue;
            }
            forget(it.version);
            let old = slot.vacate(writer.version);
            writer.retire(old);
            writer.removed_count -= 1;
            writer.vacated_count += 1;
        }
        self.shrink(writer);
    }
}

impl<E: Event> CacheSlot<'_, E> {
    fn is_removed_at(self, version: u64) -> bool {
        self.word() == self.word().removed_at(version)
    }
}

/// Fewer outdated ones than this are not cleaned up.
const STALE_MIN: usize = 16;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::bus::cache::pinned;
    use proptest::{collection::vec, prelude::*};

    #[derive(Clone)]
    struct Mark(u64);

    impl Event for Mark {
        type Key = u64;

        fn key(&self) -> &u64 {
            &self.0
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Put(u64),
        Remove(u64),
        /// One of the laggards receives everything, and lags anew from here.
        CatchUp(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (0..20_u64).prop_map(Change::Put),
            3 => (0..20_u64).prop_map(Change::Remove),
            2 => (0..3_usize).prop_map(Change::CatchUp),
        ]
    }

    proptest! {
        /// A key that one laggard is to be told of keeps its slot; once a laggard has been told, no
        /// slot is kept of which nobody else is to be told. Tenures are noted beside.
        #[test]
        fn a_removed_key_keeps_its_slot_as_long_as_somebody_is_to_be_told(
            changes in vec(change(), 1..200),
        ) {
            let (table, mut writer) = CacheTable::new();
            let mut lags = [1_u64; 3];
            let is_told_of = |lags: &[u64], born: u64, version: u64| {
                lags.iter().any(|lag| (born..version).contains(lag))
            };
            for change in changes {
                let find = |writer: &CacheWriter<Mark>, key: u64| {
                    let mut seen = Seen::NOTHING;
                    pinned(|pin| table.look(key, &key, pin, &mut seen));
                    table.place(writer, key, &seen).expect("nobody else writes")
                };
                let newest = lags.iter().copied().max().unwrap_or(0);
                match change {
                    Change::Put(key) => {
                        let place = find(&writer, key);
                        let (event, mut copy) = (SharedEvent::new(Mark(key)), EventCopy::NONE);
                        table.put(&mut writer, (key, place), (event, &mut copy), newest);
                    }
                    Change::Remove(key) => {
                        let place = find(&writer, key).filter(SlotPosition::is_live);
                        if let Some(place) = place {
                            let born = place.born;
                            let is_kept = table.clear(&mut writer, place, newest);
                            let is_told_of = is_told_of(&lags, born, writer.version());
                            prop_assert!(is_kept || !is_told_of);
                        }
                    }
                    Change::CatchUp(laggard) => {
                        let since = lags[laggard];
                        lags[laggard] = writer.version().max(1);
                        let mut sorted = lags;
                        sorted.sort_unstable();
                        table.purge(&mut writer, since, &sorted, |_| ());
                        let slots = table.writer_slots(&writer).iter();
                        let removed = slots.filter(|it| it.word().kind() == SlotKind::Removed);
                        for slot in removed {
                            let (born, version) =
                                (slot.state.born.load(Ordering::Relaxed), slot.word().version());
                            prop_assert!(
                                version <= since || is_told_of(&lags, born, version),
                                "kept from {} to {}, laggards since {:?}", born, version, lags
                            );
                        }
                    }
                }
            }
        }
    }
}
