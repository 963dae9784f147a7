//! Who is told when tokens in the store change.
//!
//! There are few of them, so the writer reads them all once a second, and tells them
//! when they are not as they were. One that is taken back is refused as soon however
//! long accounts take: looks at tokens have a pace of their own, also between two
//! batches of accounts.

use super::{TokenListener, TokenRows};
use std::sync::{Mutex, MutexGuard};

/// The one listener of a store, and what it knows.
#[derive(Default)]
pub(super) struct TokenWatch(Mutex<Option<WatchedTokens>>);

struct WatchedTokens {
    /// `None` before the first look.
    known: Option<TokenRows>,
    listener: TokenListener,
}

impl TokenWatch {
    /// From now on tells `listener`.
    pub(super) fn start(&self, listener: TokenListener) {
        let known = None;
        *self.lock() = Some(WatchedTokens { known, listener });
    }

    /// Whether anybody wants to know.
    pub(super) fn is_followed(&self) -> bool {
        self.lock().is_some()
    }

    /// Tells what was read, where that is news.
    pub(super) fn found(&self, rows: TokenRows) {
        let mut state = self.lock();
        let Some(feed) = &mut *state else {
            return;
        };
        if feed.known.as_ref() != Some(&rows) {
            (feed.listener)(&rows);
            feed.known = Some(rows);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<WatchedTokens>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
