use crate::sync::atomic::{AtomicU8, Ordering};

/// Which threads may push, and whether workers continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    /// Every thread may push.
    Open,
    /// Only tasks of the pool may push, so that what was accepted can finish.
    Draining,
    /// Like `Draining`, and workers end once the pool is quiet.
    Ending,
    /// No thread may push; workers end after their current task.
    Sealed,
}

/// The phase of one pool; it only moves forward.
#[derive(Debug)]
pub(super) struct PhaseCell(AtomicU8);

impl PhaseCell {
    pub(super) fn open() -> Self {
        Self(AtomicU8::new(Phase::Open as u8))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            2 => Phase::Ending,
            _ => Phase::Sealed,
        }
    }

    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == Phase::Open as u8
    }

    #[inline(always)]
    pub(super) fn is_sealed(&self) -> bool {
        self.0.load(Ordering::Acquire) == Phase::Sealed as u8
    }

    /// Moves to `phase`, if it is a later one.
    pub(super) fn enter(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::SeqCst);
    }
}
