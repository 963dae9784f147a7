//! Which slots have changed lately, in order, so that bringing a laggard up to date costs what
//! it has missed and not a look at every key.

/// The slot of each of the last changes, noted while somebody lags. Only the holder of the
/// shard's lock uses it.
pub(super) struct RecentChanges {
    /// The slot that the change of a version wrote is at that version modulo the length, a power
    /// of two. Empty until somebody has lagged since the array of slots was made.
    slots: Box<[u32]>,
    /// Each change after this version is noted, if no newer one has taken its place.
    begin: u64,
    /// The newest change that is noted.
    end: u64,
}

impl RecentChanges {
    pub(super) fn new() -> Self {
        let (begin, end) = (0, 0);
        Self {
            slots: Box::default(),
            begin,
            end,
        }
    }

    /// Notes the slot that the change of `version` has written, in an array of so many slots. A
    /// gap before it makes what is older useless, and so does a slot with a larger index than fits.
    #[inline(always)]
    pub(super) fn note(&mut self, version: u64, slot: usize, slot_count: usize) {
        let Ok(slot) = u32::try_from(slot) else {
            return;
        };
        if self.slots.is_empty() {
            self.slots = vec![0; slot_count / SLOTS_PER_CHANGE].into();
        }
        if version != self.end + 1 {
            self.begin = version - 1;
        }
        self.end = version;
        let mask = self.slots.len() - 1;
        self.slots[version as usize & mask] = slot;
    }

    /// The slots have moved: nothing is known of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Each change after `version` until `newest`, which is the last one, with its slot, in order.
    /// `None` if not all of them are noted.
    pub(super) fn since(
        &self,
        version: u64,
        newest: u64,
    ) -> Option<impl Iterator<Item = (u64, usize)>> {
        let is_whole = self.end == newest
            && self.begin <= version
            && newest.saturating_sub(version) <= self.slots.len() as u64;
        let slot_of = |version| self.slots[version as usize & (self.slots.len() - 1)] as usize;
        is_whole.then(|| (version + 1..=newest).map(move |version| (version, slot_of(version))))
    }
}

/// One change is noted for so many slots. A noted change leads to a slot anywhere in memory, so
/// it costs about as much as a look at this many slots in a row.
const SLOTS_PER_CHANGE: usize = 4;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn noted(recent: &RecentChanges, version: u64, newest: u64) -> Option<Vec<(u64, usize)>> {
        recent.since(version, newest).map(Iterator::collect)
    }

    #[test]
    fn what_was_missed_is_known_while_it_fits_and_has_no_gap() {
        let mut recent = RecentChanges::new();
        assert_eq!(noted(&recent, 0, 5), None, "nobody has noted anything");
        for version in 6..=9 {
            recent.note(version, 10 * version as usize, 16);
        }
        assert_eq!(noted(&recent, 7, 9), Some(vec![(8, 80), (9, 90)]));
        assert_eq!(noted(&recent, 5, 9).map(|it| it.len()), Some(4));
        assert_eq!(noted(&recent, 4, 9), None, "a change was not noted");
        assert_eq!(noted(&recent, 8, 10), None, "the last one was not noted");
        recent.note(10, 100, 16);
        assert_eq!(noted(&recent, 5, 10), None, "there is no room for five");
        assert_eq!(noted(&recent, 6, 10).map(|it| it.len()), Some(4));
        recent.note(12, 120, 16);
        assert_eq!(noted(&recent, 10, 12), None, "11 is missing");
        assert_eq!(noted(&recent, 11, 12), Some(vec![(12, 120)]));
        recent.clear();
        assert_eq!(noted(&recent, 11, 12), None);
    }
}
