//! The accounts and settings that programs other than the server change: when a store looks for
//! changes, and what it passes on.

mod account_watch;
mod setting_watch;
mod refused_settings;
mod followed_settings;

pub(crate) use account_watch::{ACCOUNT_NAMES_KEPT, AccountWatch, BATCH_LEN, Pace, are_names_kept};
pub(crate) use followed_settings::{FollowedSettings, SettingKey, SettingsToRead};
pub(crate) use setting_watch::SettingWatch;

use crate::{Account, AccountKey, AccountNews, Change};
use account_watch::Scan;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What a writer knows of the changes by other programs; the writer reads the database.
pub(crate) struct OutsideChanges {
    feed: Arc<AccountWatch>,
    pub(crate) account_looks: Pace,
    /// While all accounts are read.
    scan: Option<Scan>,
}

impl OutsideChanges {
    pub(crate) fn new(feed: Arc<AccountWatch>) -> Self {
        Self {
            feed,
            account_looks: Pace::default(),
            scan: None,
        }
    }

    /// How long the writer may wait for changes of the server, if nothing else is due before
    /// `next_look`.
    pub(crate) fn rest(&self, next_look: Duration) -> Duration {
        match self.scan {
            Some(_) => Duration::ZERO,
            None => next_look,
        }
    }

    /// Whether all accounts are being read, a batch at a time.
    pub(crate) fn is_scanning(&self) -> bool {
        self.scan.is_some()
    }

    /// Passes on the server's own changes, which led from one revision to another, if
    /// both are known; `false` if the accounts must be looked at first, since other
    /// changes came before.
    pub(crate) fn tell_own<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        revisions: Option<(u64, u64)>,
    ) -> bool {
        match (&self.scan, revisions) {
            (Some(_), _) => true,
            (None, Some((from, to))) => self.feed.changed(changes, from, to),
            (None, None) => false,
        }
    }

    /// Passes on the server's own changes if all accounts are being read; they may be
    /// behind the scan.
    pub(crate) fn tell_own_in_scan<'c>(&self, changes: impl Iterator<Item = &'c Change>) {
        if self.is_scanning() {
            self.feed.changed_in_scan(changes);
        }
    }

    /// The revision of accounts that the listener knows, if that is not this one.
    pub(crate) fn known_instead_of(&self, revision: u64) -> Option<u64> {
        self.feed.known_instead_of(revision)
    }

    /// Passes on what led to `revision`, or begins to read all accounts if the names of
    /// those that were changed are not kept.
    pub(crate) fn take_news(&mut self, news: Option<Vec<AccountNews>>, revision: u64) {
        match news {
            Some(news) => self.feed.caught_up(news, revision),
            None => self.scan = Some(Scan::begin(revision)),
        }
    }

    /// Behind whom the next batch of all accounts begins.
    pub(crate) fn after(&self) -> Option<&AccountKey> {
        self.scan.as_ref().and_then(Scan::after)
    }

    /// Passes on a batch of all accounts, whose reading began at `begun`.
    pub(crate) fn take_batch(&mut self, accounts: Vec<Account>, begun: Instant) {
        let Some(scan) = &mut self.scan else {
            return;
        };
        if let Some(took) = scan.tell(&self.feed, accounts, begun) {
            self.account_looks.took(took);
            self.scan = None;
        }
    }

    /// Reads no more of the accounts: a later look begins again.
    pub(crate) fn end_scan(&mut self) {
        self.scan = None;
    }
}
