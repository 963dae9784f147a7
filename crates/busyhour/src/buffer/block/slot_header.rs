//! The packed word that counts the holders of a block. Pure: [`super::slot`]
//! has the atomics, and this module's `README.md` describes the protocol.

/// One value of a block's word.
///
/// | bits | meaning |
/// |---|---|
/// | 0–30 | handles |
/// | 31 | one pin that is not in a stripe: that of `find`, or the one that reopened |
/// | 32 | striped: the other pins are in the stripes |
/// | 33 | traced: there is a trace of where the block was opened |
/// | 34 | orphan: the pool's last handle was dropped before this block |
/// | 35–63 | version: how often the block was reopened or finished while striped |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) struct SlotHeader(pub(in crate::buffer) u64);

impl SlotHeader {
    /// The word of a block when it is opened, computed from its free word.
    #[inline]
    pub(in crate::buffer) fn opened(self, hold: Ref) -> Self {
        Self(self.0 & VERSION_MASK | hold.unit())
    }

    /// Whether a hold may be added or a pin removed.
    #[inline]
    pub(in crate::buffer) fn is_live(self) -> bool {
        self.0 & (COUNT_MASK | STRIPED) != 0
    }

    /// Whether the word itself counts a holder. If not, a striped block is
    /// closed: it lives only while its stripes count a pin.
    #[inline]
    pub(super) fn is_open(self) -> bool {
        self.0 & COUNT_MASK != 0
    }

    #[inline]
    pub(super) fn is_striped(self) -> bool {
        self.0 & STRIPED != 0
    }

    #[inline]
    pub(in crate::buffer) fn is_closed(self) -> bool {
        self.is_striped() && !self.is_open()
    }

    #[inline]
    pub(in crate::buffer) fn is_traced(self) -> bool {
        self.0 & TRACED != 0
    }

    #[inline]
    pub(in crate::buffer) fn is_orphan(self) -> bool {
        self.0 & ORPHAN != 0
    }

    #[inline]
    pub(in crate::buffer) fn handles(self) -> u64 {
        self.0 & HANDLE_MASK
    }

    /// Whether there is a pin that is not in a stripe.
    #[inline]
    pub(in crate::buffer) fn has_pin(self) -> bool {
        self.0 & PIN != 0
    }

    /// The word with one more handle, of an open block.
    #[inline]
    pub(super) fn with_handle(self) -> Self {
        Self(self.0 + HANDLE)
    }

    /// The word with a first hold, of a closed block.
    #[inline]
    pub(super) fn reopened(self, hold: Ref) -> Self {
        Self(self.next_version().0 + hold.unit())
    }

    /// The free word, of a closed block without pins in its stripes. The marks
    /// stay for readers of this word; opening clears them.
    #[inline]
    pub(super) fn finished(self) -> Self {
        Self(self.next_version().0 & !STRIPED)
    }

    #[inline]
    pub(super) fn dropped(self, hold: Ref) -> Self {
        Self(self.0 - hold.unit())
    }

    #[inline]
    pub(in crate::buffer) fn striped(self) -> Self {
        Self(self.0 | STRIPED)
    }

    #[inline]
    pub(in crate::buffer) fn traced(self) -> Self {
        Self(self.0 | TRACED)
    }

    #[inline]
    pub(in crate::buffer) fn orphaned(self) -> Self {
        Self(self.0 | ORPHAN)
    }

    #[inline]
    fn next_version(self) -> Self {
        Self(self.0.wrapping_add(VERSION))
    }
}

/// The two kinds of hold on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::buffer) enum Ref {
    /// By a Rust value, which drops the hold exactly once.
    Handle,
    /// By address; must also be removed by address.
    Pin,
}

impl Ref {
    /// What one such hold adds to the word.
    #[inline]
    pub(in crate::buffer) const fn unit(self) -> u64 {
        match self {
            Self::Handle => HANDLE,
            Self::Pin => PIN,
        }
    }
}

/// The maximum number of handles of a block; the field can count twice as many,
/// so that threads that pass the limit at the same time do not overflow it.
pub(super) const HANDLE_COUNT_MAX: u64 = HANDLE_MASK / 2;

const HANDLE: u64 = 1;
const HANDLE_MASK: u64 = PIN - 1;
const PIN: u64 = 1 << 31;
const COUNT_MASK: u64 = HANDLE_MASK | PIN;
const STRIPED: u64 = 1 << 32;
const TRACED: u64 = 1 << 33;
const ORPHAN: u64 = 1 << 34;
const VERSION: u64 = 1 << 35;
const VERSION_MASK: u64 = !(VERSION - 1);
