use std::fmt;

/// The state of one table slot in one word: what it holds and the version of
/// its last change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) struct SlotWord(u64);

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bus) enum SlotKind {
    /// Nothing yet: a probe ends here.
    Empty,
    /// The last event of a key.
    Live,
    /// The event of a removed key, for laggards that must be told.
    Removed,
    /// No longer anything: a probe continues past it.
    Vacated,
}

impl SlotWord {
    pub(in crate::bus) const EMPTY: Self = Self(0);
    const KIND_MASK: u64 = 0b11;
    const KNOWN_TO_LAGGARD: u64 = 1 << 2;
    const VERSION_SHIFT: u32 = 3;

    pub(in crate::bus) const fn new(kind: SlotKind, version: u64) -> Self {
        Self(version << Self::VERSION_SHIFT | kind as u64)
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(in crate::bus) const fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(in crate::bus) fn kind(self) -> SlotKind {
        match self.0 & Self::KIND_MASK {
            0 => SlotKind::Empty,
            1 => SlotKind::Live,
            2 => SlotKind::Removed,
            _ => SlotKind::Vacated,
        }
    }

    pub(in crate::bus) const fn version(self) -> u64 {
        self.0 >> Self::VERSION_SHIFT
    }

    /// Whether a laggard has received an event of this key.
    pub(super) const fn is_known_to_laggard(self) -> bool {
        self.0 & Self::KNOWN_TO_LAGGARD != 0
    }

    /// What this word is if it says that the key was removed at this version.
    pub(super) const fn removed_at(self, version: u64) -> Self {
        let known = self.0 & Self::KNOWN_TO_LAGGARD;
        Self(Self::new(SlotKind::Removed, version).0 | known)
    }

    /// The word after a change. `laggards_since` is the newest version at which
    /// some subscriber began to lag, 0 if none lags: then the mark for earlier
    /// laggards is cleared, since they have been told.
    #[must_use]
    pub(in crate::bus) const fn changed(
        self,
        kind: SlotKind,
        version: u64,
        laggards_since: u64,
    ) -> Self {
        let changed = Self::new(kind, version);
        let is_noted = laggards_since > 0 && self.is_known_to_laggard();
        if is_noted || self.version() <= laggards_since {
            return Self(changed.0 | Self::KNOWN_TO_LAGGARD);
        }
        changed
    }
}

const _: () = assert!(SlotWord::new(SlotKind::Empty, 0).0 == SlotWord::EMPTY.0);

impl fmt::Debug for SlotWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} at {}", self.kind(), self.version())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_change_marks_what_a_laggard_has_received_and_keeps_the_mark_while_any_lags() {
        let word = SlotWord::new(SlotKind::Live, 5);
        assert!(!word.changed(SlotKind::Live, 6, 4).is_known_to_laggard());
        let known = word.changed(SlotKind::Live, 6, 5);
        assert!(known.is_known_to_laggard());
        assert!(known.changed(SlotKind::Removed, 9, 5).is_known_to_laggard());
        assert!(!known.changed(SlotKind::Removed, 9, 0).is_known_to_laggard());
    }
}
