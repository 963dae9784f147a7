//! Who is told when accounts change, and from which revision on.
//!
//! The database counts each change of an account, by whatever program, in its
//! `revision`, and keeps the names of those changed last. The writer compares:
//! its own changes it passes on one by one; when another program moved the count,
//! it reads the accounts that were changed since, or all where they are too many.
//!
//! Reading all takes seconds where there are hundreds of thousands, and what is to
//! be stored would wait for it. So they are read in batches, by their names, and
//! after each the writer does what has arrived meanwhile. A batch is told as soon
//! as it is read: between these two names these are all there are. Nothing holds
//! the whole together, and nothing must: what is changed behind the scan has a
//! revision after the one at which the scan began, and is read when it has ended.
//! Changes of our own are told at once, by the same thread, as ever.

use super::{
    Account, AccountKey, AccountListener, AccountNews, AccountRange, Change, queue::LOOK_PERIOD,
};
use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// The one listener of a store, and the revision that it knows.
#[derive(Default)]
pub(super) struct AccountWatch(Mutex<Option<WatchedAccounts>>);

struct WatchedAccounts {
    revision: u64,
    listener: AccountListener,
}

impl AccountWatch {
    /// From now on tells `listener`, which knows what holds at `revision`.
    pub(super) fn start(&self, revision: u64, listener: AccountListener) {
        *self.lock() = Some(WatchedAccounts { revision, listener });
    }

    /// Ends the telling, and gives the listener to the caller, which may drop it.
    pub(super) fn end(&self) -> Option<AccountListener> {
        self.lock().take().map(|feed| feed.listener)
    }

    /// The revision that the listener knows, if that is not this one.
    pub(super) fn known_instead_of(&self, revision: u64) -> Option<u64> {
        let known = self.lock().as_ref().map(|feed| feed.revision);
        known.filter(|known| *known != revision)
    }

    /// Tells of changes of ours, which led from one revision to another;
    /// `false` when somebody else's came before them, which must be read first.
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

    /// Tells of changes of ours in the middle of a scan, whose revision stays as it is.
    pub(super) fn changed_in_scan<'c>(&self, changes: impl Iterator<Item = &'c Change>) {
        if let Some(feed) = &*self.lock() {
            let news = changes.filter_map(AccountNews::of);
            news.for_each(|one| (feed.listener)(one));
        }
    }

    /// Tells what was read, and leads to `revision`.
    pub(super) fn caught_up(&self, news: Vec<AccountNews>, revision: u64) {
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
    /// What a change means to who keeps accounts; `None` when it is of other things.
    fn of(change: &Change) -> Option<Self> {
        match change {
            Change::PutAccount(account) => Some(Self::Put(account.clone())),
            Change::RemoveAccount { username, realm } => Some(Self::Removed {
                username: username.clone(),
                realm: realm.clone(),
            }),
            Change::Binding(_)
            | Change::PutSoftState(_)
            | Change::RemoveSoftState(_)
            | Change::PutSetting { .. }
            | Change::RemoveSetting { .. } => None,
        }
    }
}

/// All accounts on their way to the listener, a batch at a time.
pub(super) struct Scan {
    /// What the listener knows at least when it has ended.
    revision: u64,
    after: Option<AccountKey>,
    took: Duration,
}

impl Scan {
    /// Begins at `revision`, which nothing that is read is older than.
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

    /// Tells a batch, which took so long to read, and says how long all took if
    /// it was the last.
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
pub(super) struct Pace {
    due_at: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        let due_at = Instant::now() + LOOK_PERIOD;
        Self { due_at }
    }
}

impl Pace {
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due_at
    }

    /// How long until then.
    pub(super) fn rest(&self) -> Duration {
        self.due_at.saturating_duration_since(Instant::now())
    }

    /// A look has ended that took so long.
    pub(super) fn took(&mut self, took: Duration) {
        self.due_at = Instant::now() + rest_after(took);
    }
}

/// Looks that take long leave most of the time to commits, which wait for them.
fn rest_after(took: Duration) -> Duration {
    LOOK_PERIOD.max(took * 4)
}

/// Whether the names of all accounts that were changed between two revisions are
/// kept.
pub(super) fn are_names_kept(known: u64, revision: u64) -> bool {
    let gap = revision.checked_sub(known);
    gap.is_some_and(|gap| gap <= NAMES_KEPT)
}

/// Names of changed accounts that a database keeps, in its count of changes. The
/// triggers of both databases know the same number.
const NAMES_KEPT: u64 = 1000;

/// Accounts that are read in one go; a few milliseconds.
pub(super) const BATCH_LEN: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_take_long_come_seldom() {
        assert_eq!(rest_after(Duration::from_millis(3)), LOOK_PERIOD);
        assert_eq!(rest_after(Duration::from_secs(3)), Duration::from_secs(12));
    }

    #[test]
    fn names_are_kept_for_a_while_and_not_for_what_never_was() {
        assert!(are_names_kept(5, 5 + NAMES_KEPT));
        assert!(!are_names_kept(5, 6 + NAMES_KEPT));
        assert!(!are_names_kept(6, 5), "the database was set back");
    }
}
