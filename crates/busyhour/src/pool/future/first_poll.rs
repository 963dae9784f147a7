use crate::sync::atomic::{AtomicBool, Ordering};

/// Tells the first poll of a future, which a bounded queue may refuse, from
/// those that follow, which it may not.
#[derive(Default)]
pub(crate) struct FirstPoll {
    is_over: AtomicBool,
}

impl FirstPoll {
    /// Whether this poll is the first; at most once. Two polls of a future are
    /// never queued at the same time.
    pub(crate) fn is_it(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }
}
