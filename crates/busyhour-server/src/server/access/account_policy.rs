//! What the server knows of accounts, and what follows from it for who has one: how much
//! it may register, and whether what it has is to end.

use super::accounts::AccountDirectory;
use busyhour_registrar::{RegistrationPolicy, user_of};
use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
};

/// The accounts, and the policy of registrations.
pub(in crate::server) struct AccountPolicy {
    pub(in crate::server) directory: AccountDirectory,
    registration: RegistrationPolicy,
    /// Everybody may register, with an account or without.
    is_open: bool,
    /// What the store gave back is being looked at: it may be of accounts that are there
    /// no more.
    is_starting: AtomicBool,
    /// An account was removed since the start. Until then no device checks for its
    /// account.
    is_any_gone: AtomicBool,
}

impl AccountPolicy {
    pub(in crate::server) fn new(
        directory: AccountDirectory,
        registration: RegistrationPolicy,
        is_open: bool,
    ) -> Self {
        Self {
            directory,
            registration,
            is_open,
            is_starting: AtomicBool::new(true),
            is_any_gone: AtomicBool::new(true),
        }
    }

    /// The policy for the bindings of `aor`: the server's, with the limit of its
    /// account if the account has one.
    pub(in crate::server) fn of(&self, aor: &str) -> Cow<'_, RegistrationPolicy> {
        let policy = &self.registration;
        match self.directory.contacts_max(user_of(aor)) {
            Some(contacts_max) => Cow::Owned(RegistrationPolicy {
                contacts_max,
                ..policy.clone()
            }),
            None => Cow::Borrowed(policy),
        }
    }

    /// All restored rows have been checked.
    pub(in crate::server) fn end_start(&self) {
        self.is_any_gone.store(false, Ordering::Release);
        self.is_starting.store(false, Ordering::Release);
    }

    /// From now on accounts are looked for.
    pub(in crate::server) fn some_have_gone(&self) {
        self.is_any_gone.store(true, Ordering::Release);
    }

    /// Whether no account has this address of record any more.
    pub(in crate::server) fn is_revoked(&self, aor: &str) -> bool {
        let (_, address) = aor.split_once(':').unwrap_or(("", aor));
        self.are_looked_for() && self.is_gone(user_of(aor)) && self.is_gone(address)
    }

    /// The reason in the log when a registration without an account ends. At the start
    /// it is unknown whether the account was removed or never existed, because
    /// everybody could register.
    pub(in crate::server) fn why_revoked(&self) -> &'static str {
        match self.is_starting.load(Ordering::Acquire) {
            true => "there is no account for it",
            false => "its account was removed",
        }
    }

    /// Whether an account may have gone since what it has was given.
    pub(in crate::server) fn are_looked_for(&self) -> bool {
        self.is_any_gone.load(Ordering::Acquire) && !self.is_open
    }

    /// Whether there is no account of this name.
    pub(in crate::server) fn is_gone(&self, account: &str) -> bool {
        !self.directory.knows(account)
    }
}
