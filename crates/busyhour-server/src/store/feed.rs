//! Who is told when accounts change, and from which revision on.
//!
//! The database counts each change of an account, whoever makes it, in its
//! `revision`. The writer compares: its own changes it passes on one by one;
//! a count that another program moved means reading all accounts anew.

use super::{Account, AccountListener, AccountNews, Change};
use std::sync::{Mutex, MutexGuard};

/// The one listener of a store, and the revision that it knows.
#[derive(Default)]
pub(super) struct AccountFeed(Mutex<Option<Feed>>);

struct Feed {
    revision: u64,
    listener: AccountListener,
}

impl AccountFeed {
    /// From now on tells `listener`, which knows what holds at `revision`.
    pub(super) fn start(&self, revision: u64, listener: AccountListener) {
        *self.lock() = Some(Feed { revision, listener });
    }

    /// Ends the telling, and gives the listener to whoever may drop it.
    pub(super) fn end(&self) -> Option<AccountListener> {
        self.lock().take().map(|feed| feed.listener)
    }

    /// Whether the listener does not know `revision`; nobody needs to know none.
    pub(super) fn lacks(&self, revision: u64) -> bool {
        self.lock()
            .as_ref()
            .is_some_and(|feed| feed.revision != revision)
    }

    /// Tells of changes of ours, which led from one revision to another;
    /// `false` when somebody else's came before them, so that all must be read.
    pub(super) fn changed<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        from: u64,
        to: u64,
    ) -> bool {
        let mut state = self.lock();
        let Some(feed) = &mut *state else {
            return true;
        };
        if feed.revision != from {
            return false;
        }
        feed.revision = to;
        changes
            .filter_map(AccountNews::of)
            .for_each(|news| (feed.listener)(news));
        true
    }

    /// Tells what holds at `revision`.
    pub(super) fn replaced(&self, accounts: Vec<Account>, revision: u64) {
        if let Some(feed) = &mut *self.lock() {
            feed.revision = revision;
            (feed.listener)(AccountNews::All(accounts));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Feed>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl AccountNews {
    /// What a change means to who keeps accounts; `None` when it is of other things.
    fn of(change: &Change) -> Option<Self> {
        match change {
            Change::PutAccount(account) => Some(Self::Put(account.clone())),
            Change::RemoveAccount { username, realm } => Some(Self::Removed {
                username: username.clone(),
                realm: realm.clone(),
            }),
            Change::Binding(_) | Change::PutSetting { .. } | Change::RemoveSetting { .. } => None,
        }
    }
}
