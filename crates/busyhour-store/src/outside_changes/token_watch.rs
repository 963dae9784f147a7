//! The listener for changes of the tokens in the store.
//!
//! There are few tokens, so the writer reads them all once a second, and passes them on
//! if they have changed. The writer checks them on its own schedule, also between two
//! batches of accounts, so a removed token is refused in time, however long reading the
//! accounts takes.

use crate::{TokenListener, TokenRows};
use std::sync::{Mutex, MutexGuard};

/// The one listener of a store, and what it knows.
#[derive(Default)]
pub(crate) struct TokenWatch(Mutex<Option<WatchedTokens>>);

struct WatchedTokens {
    /// `None` before the first look.
    known: Option<TokenRows>,
    listener: TokenListener,
}

impl TokenWatch {
    /// From now on tells `listener`.
    pub(crate) fn start(&self, listener: TokenListener) {
        let known = None;
        *self.lock() = Some(WatchedTokens { known, listener });
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_followed(&self) -> bool {
        self.lock().is_some()
    }

    /// Tells what was read, where that is news.
    pub(crate) fn found(&self, rows: TokenRows) {
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
