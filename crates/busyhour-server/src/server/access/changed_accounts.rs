//! Which accounts of the store have changed, for the index of devices while there is one.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Names of accounts that were put, replaced or removed.
#[derive(Default)]
pub(in crate::server) struct ChangedAccounts {
    is_on: AtomicBool,
    /// `None`: too many to remember each.
    names: Mutex<Option<Vec<String>>>,
}

impl ChangedAccounts {
    /// An account is another one than before. Called after the change.
    pub(super) fn note(&self, name: impl FnOnce() -> Option<String>) {
        if !self.is_on.load(Ordering::SeqCst) {
            return;
        }
        let mut names = self.lock();
        names.take_if(|names| names.len() >= NAMES_MAX);
        if let (Some(names), Some(name)) = (&mut *names, name()) {
            names.push(name);
        }
    }

    /// Accounts may have other names than before.
    pub(super) fn note_all(&self) {
        if self.is_on.load(Ordering::SeqCst) {
            *self.lock() = None;
        }
    }

    /// Changes are noted from now on, or no more.
    pub(in crate::server) fn turn(&self, is_on: bool) {
        let mut names = self.lock();
        *names = Some(Vec::new());
        self.is_on.store(is_on, Ordering::SeqCst);
    }

    /// What has changed since this was asked last; `None`: any.
    pub(in crate::server) fn take(&self) -> Option<Vec<String>> {
        self.lock().replace(Vec::new())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Their devices are read again in some milliseconds.
const NAMES_MAX: usize = 10_000;
