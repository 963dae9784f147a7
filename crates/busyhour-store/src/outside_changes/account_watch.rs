//! The listener for changes of accounts, and the revision that it knows.
//!
//! The database counts each change of an account, by whatever program, in its
//! `revision`, and keeps the names of those changed last. The writer compares
//! revisions: it passes its own changes on one by one; when another program has changed
//! the revision, it reads the accounts that were changed since, or all accounts if
//! those are too many.
//!
//! Reading hundreds of thousands of accounts takes seconds, and changes would have to
//! wait. So the writer reads them in batches, in the order of their names, and writes
//! the waiting changes after each batch. It passes a batch on as soon as it is read:
//! these are all accounts between two names. The batches need not be consistent with
//! each other: a change behind the scan has a later revision than the one at which the
//! scan began, so it is read after the scan. The writer passes its own changes on at
//! once, as always.

use crate::{
    Account, AccountKey, AccountListener, AccountNews, AccountRange, Change, queue::LOOK_PERIOD,
};
use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// The one listener of a store, and the revision that it knows.
#[derive(Default)]
pub(crate) struct AccountWatch(Mutex<Option<WatchedAccounts>>);

struct WatchedAccounts {
    revision: u64,
    listener: AccountListener,
}

impl AccountWatch {
    /// Sets `listener`, which knows the accounts of `revision`.
    pub(crate) fn start(&self, revision: u64, listener: AccountListener) {
        *self.lock() = Some(WatchedAccounts { revision, listener });
    }

    /// Removes the listener and returns it, so that the caller can drop it.
    pub(crate) fn end(&self) -> Option<AccountListener> {
        self.lock().take().map(|feed| feed.listener)
    }

    /// The revision that the listener knows, if that is not this one.
    pub(crate) fn known_instead_of(&self, revision: u64) -> Option<u64> {
        let known = self.lock().as_ref().map(|feed| feed.revision);
        known.filter(|known| *known != revision)
    }

    /// Passes on our own changes, which led from one revision to another; `false` if
    /// another program's changes came before them and must be read first.
    pub(crate) fn changed<'c>(
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

    /// Passes on our own changes during a scan; the known revision stays as it is.
    pub(crate) fn changed_in_scan<'c>(&self, changes: impl Iterator<Item = &'c Change>) {
        if let Some(feed) = &*self.lock() {
            let news = changes.filter_map(AccountNews::of);
            news.for_each(|one| (feed.listener)(one));
        }
    }

    /// Tells what was read, and leads to `revision`.
    pub(crate) fn caught_up(&self, news: Vec<AccountNews>, revision: u64) {
        if let Some(feed) = &mut *self.lock() {
            feed.revision = revision;
            news.into_iter().for_each(|one| (feed.listener)(one));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<WatchedAccounts>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl AccountNews {
    /// The news for the listener about a change; `None` if the change is not about
    /// accounts.
    fn of(change: &Change) -> Option<Self> {
        match change {
            Change::PutAccount(account) => Some(Self::Put(Account::clone(account))),
            Change::RemoveAccount { username, realm } => Some(Self::Removed {
                username: username.clone(),
                realm: realm.clone(),
            }),
            Change::Binding(_)
            | Change::PutSoftState(_)
            | Change::RemoveSoftState(_)
            | Change::PutSetting { .. }
            | Change::RemoveSetting { .. }
            | Change::PutCallRecord(_) => None,
        }
    }
}

/// All accounts on their way to the listener, a batch at a time.
pub(super) struct Scan {
    /// The revision that the listener knows at least when the scan has ended.
    revision: u64,
    after: Option<AccountKey>,
    took: Duration,
}

impl Scan {
    /// Begins at `revision`: everything that is read is at least as new.
    pub(super) fn begin(revision: u64) -> Self {
        Self {
            revision,
            after: None,
            took: Duration::ZERO,
        }
    }

    /// Behind whom the next batch begins.
    pub(super) fn after(&self) -> Option<&AccountKey> {
        self.after.as_ref()
    }

    /// Passes on a batch, with the time that reading it took; returns the total time if
    /// it was the last batch.
    pub(super) fn tell(
        &mut self,
        feed: &AccountWatch,
        accounts: Vec<Account>,
        begun: Instant,
    ) -> Option<Duration> {
        let range = AccountRange::read(self.after.take(), accounts, BATCH_LEN);
        self.after.clone_from(&range.until);
        if let Some(feed) = &mut *feed.lock() {
            (feed.listener)(AccountNews::Range(range));
            if self.after.is_none() {
                feed.revision = self.revision;
            }
        }
        self.took += begun.elapsed();
        self.after.is_none().then_some(self.took)
    }
}

/// When to look again for changes by other programs.
pub(crate) struct Pace {
    due_at: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        let due_at = Instant::now() + LOOK_PERIOD;
        Self { due_at }
    }
}

impl Pace {
    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.due_at
    }

    /// How long until then.
    pub(crate) fn rest(&self) -> Duration {
        self.due_at.saturating_duration_since(Instant::now())
    }

    /// A look has ended that took so long.
    pub(crate) fn took(&mut self, took: Duration) {
        self.due_at = Instant::now() + rest_after(took);
    }
}

/// If a check takes long, the next one comes later, so that most of the time is left
/// for commits. But it comes soon: one that had to read everything is followed by those
/// that read what has changed.
fn rest_after(took: Duration) -> Duration {
    LOOK_PERIOD.max((took * 4).min(REST_MAX))
}

/// Whether the names of everything that was changed between two revisions are kept, if those of
/// the last `kept` changes are.
pub(crate) fn are_names_kept(known: u64, revision: u64, kept: u64) -> bool {
    let gap = revision.checked_sub(known);
    gap.is_some_and(|gap| gap <= kept)
}

/// Without a look for so long at most, other programs' changes are not seen.
const REST_MAX: Duration = Duration::from_secs(2);

/// Names of changed accounts that a database keeps, in its count of changes. The
/// triggers of both databases know the same number.
pub(crate) const ACCOUNT_NAMES_KEPT: u64 = 1000;

/// Accounts that are read in one go; a few milliseconds.
pub(crate) const BATCH_LEN: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_looks_are_made_seldom_but_are_made() {
        assert_eq!(rest_after(Duration::from_millis(3)), LOOK_PERIOD);
        let took = LOOK_PERIOD * 3 / 8;
        assert_eq!(rest_after(took), took * 4);
        assert_eq!(rest_after(Duration::from_secs(30)), REST_MAX);
    }

    #[test]
    fn removed_names_are_kept_for_a_while_unless_the_revision_was_set_back() {
        assert!(are_names_kept(5, 5 + 1000, 1000));
        assert!(!are_names_kept(5, 6 + 1000, 1000));
        assert!(!are_names_kept(6, 5, 1000), "the database was set back");
    }
}
