//! What the server knows of accounts, and what follows from it for who has one: how much
//! it may register, and whether what it has is to end.

use super::{accounts::AccountDirectory, live_policy::LivePolicy};
use crate::server::tenant::{tenant_config::TenantConfig, tenants::Tenants};
use busyhour_registrar::{RegistrationPolicy, Tenant};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The accounts, and the policy of registrations.
pub(in crate::server) struct AccountPolicy {
    pub(in crate::server) directory: AccountDirectory,
    /// The domains with settings of their own.
    pub(in crate::server) tenants: Arc<Tenants>,
    registration: LivePolicy,
    /// Everybody may register, with an account or without.
    is_open: bool,
    /// Users without an account here are asked for elsewhere, so they may have one.
    asks_elsewhere: bool,
    /// If so, accounts that were removed here, until they are found elsewhere.
    removed: Mutex<BTreeSet<String>>,
    /// What the store gave back is being looked at: it may be of accounts that are there
    /// no more.
    is_starting: AtomicBool,
    /// An account was removed since the start. Until then no device checks for its
    /// account.
    is_any_gone: AtomicBool,
    /// An account was removed while restored registrations were still being checked.
    was_one_gone: AtomicBool,
}

impl AccountPolicy {
    pub(in crate::server) fn new(
        directory: AccountDirectory,
        tenants: Arc<Tenants>,
        registration: RegistrationPolicy,
        (is_open, asks_elsewhere): (bool, bool),
    ) -> Self {
        Self {
            directory,
            tenants,
            registration: LivePolicy::new(&registration),
            is_open,
            asks_elsewhere,
            removed: Mutex::default(),
            is_starting: AtomicBool::new(true),
            is_any_gone: AtomicBool::new(true),
            was_one_gone: AtomicBool::new(false),
        }
    }

    /// The policy for the bindings of `aor`: the server's, with the limit of its
    /// account if the account has one.
    pub(in crate::server) fn of(&self, aor: &str) -> RegistrationPolicy {
        let policy = self.registration.get();
        let own = self.directory.contacts_max(self.account_of(aor));
        RegistrationPolicy {
            contacts_max: own.unwrap_or(policy.contacts_max),
            ..policy
        }
    }

    /// From now on registrations have this policy.
    pub(in crate::server) fn set_registration(&self, policy: &RegistrationPolicy) {
        self.registration.set(policy);
    }

    /// The account that has an address of record: its user, or `user@domain` in a domain
    /// with accounts of its own.
    pub(in crate::server) fn account_of<'a>(&self, aor: &'a str) -> &'a str {
        self.directory.domains().account_of(aor)
    }

    /// The account of a user who has logged in under this name, which may have a domain behind
    /// it that is no part of the account's.
    pub(in crate::server) fn account_of_login<'a>(&self, username: &'a str) -> &'a str {
        match self.directory.domains().parts_of(username).0 {
            Some(_) => username,
            None => username.split_once('@').map_or(username, |(user, _)| user),
        }
    }

    /// Whether an account may watch what another one, or an extension, does: if it is of the
    /// same domain, or the watched account or its domain allows it.
    pub(in crate::server) fn may_watch(&self, watcher: &str, watched: &str) -> bool {
        if watcher == watched {
            return true;
        }
        if let Some(allowed) = self.directory.watchers(watched) {
            return self.are_of(watcher, &allowed, watched);
        }
        let domain = |account| self.directory.domains().parts_of(account).0;
        let (theirs, ours) = (domain(watcher), domain(watched));
        let name = |tenant: &Option<Arc<Tenant>>| tenant.as_ref().map(|one| one.name.clone());
        name(&theirs) == name(&ours) || self.domain_lets_watch(watcher, watched, name(&ours))
    }

    fn domain_lets_watch(&self, watcher: &str, watched: &str, domain: Option<String>) -> bool {
        let mut states = match domain {
            Some(name) => self.tenants.find(&name).into_iter().collect(),
            None => self.tenants.all(),
        };
        if !watched.contains('@') {
            states.retain(|state| state.tenant.has_server_accounts);
        }
        let mut lists = states.iter().map(|state| &state.config.watchers);
        lists.any(|watchers| self.are_of(watcher, watchers, watched))
    }

    /// Whether one of the entries of a list means an account. A user without a domain is of
    /// the domain of `watched`.
    fn are_of(&self, watcher: &str, entries: &[String], watched: &str) -> bool {
        let (user, domain) = watcher.rsplit_once('@').unwrap_or((watcher, ""));
        let own = watched.rsplit_once('@').map_or("", |(_, domain)| domain);
        let is_at = |named: &str| match domain.is_empty() {
            true => TenantConfig::is_host_of(self.directory.domains(), named),
            false => named == domain,
        };
        entries.iter().any(|entry| match entry.rsplit_once('@') {
            None if entry == "*" => true,
            None => entry == user && domain == own,
            Some(("", named)) => is_at(named),
            Some((named_user, named)) => named_user == user && is_at(named),
        })
    }

    /// All restored rows have been checked.
    pub(in crate::server) fn end_start(&self) {
        self.is_any_gone.store(false, Ordering::SeqCst);
        // Whichever thread comes second sees what the first has stored, so no removal is forgotten.
        if self.was_one_gone.load(Ordering::SeqCst) {
            self.is_any_gone.store(true, Ordering::SeqCst);
        }
        self.is_starting.store(false, Ordering::Release);
    }

    /// From now on accounts are looked for.
    pub(in crate::server) fn some_have_gone(&self) {
        self.was_one_gone.store(true, Ordering::SeqCst);
        self.is_any_gone.store(true, Ordering::SeqCst);
    }

    /// Whether no account has this address of record any more.
    pub(in crate::server) fn is_revoked(&self, aor: &str) -> bool {
        let (_, address) = aor.split_once(':').unwrap_or(("", aor));
        self.are_looked_for()
            && (self.is_homeless(address) || self.are_gone(&[self.account_of(aor), address]))
    }

    /// Whether its domain was removed. At the start the domains of the configuration may
    /// have changed, and what is registered there may stay until it ends.
    fn is_homeless(&self, address: &str) -> bool {
        if self.is_starting.load(Ordering::Acquire) {
            return false;
        }
        !self.directory.domains().contain_address(address)
    }

    /// The reason in the log when a registration without an account ends. At the start
    /// it is unknown whether the account was removed or never existed, because
    /// everybody could register.
    pub(in crate::server) fn why_revoked(&self) -> &'static str {
        match self.is_starting.load(Ordering::Acquire) {
            true => "there is no account for it, or it is disabled",
            false => "its account was removed or disabled",
        }
    }

    /// Whether an account may have gone since what it has was given.
    pub(in crate::server) fn are_looked_for(&self) -> bool {
        self.is_any_gone.load(Ordering::Acquire) && !self.is_open
    }

    /// Whether there is no account of this name. One that is asked for elsewhere is gone if it was
    /// removed here. One that may do nothing is gone, too.
    pub(in crate::server) fn is_gone(&self, account: &str) -> bool {
        self.are_gone(&[account])
    }

    /// Whether there is no account of any of the names that one may have.
    fn are_gone(&self, names: &[&str]) -> bool {
        let is_active =
            |name: &&str| self.directory.knows(name) && !self.directory.is_disabled(name);
        // One that may be elsewhere is not gone before it was removed or disabled here.
        let has_ended =
            |name: &&str| self.removed().contains(*name) || self.directory.is_disabled(name);
        !names.iter().any(is_active) && (!self.asks_elsewhere || names.iter().any(has_ended))
    }

    /// Whether there is an account of this name, or one may be elsewhere.
    pub(in crate::server) fn may_exist(&self, account: &str) -> bool {
        self.asks_elsewhere || self.directory.knows(account)
    }

    /// The store has an account no more.
    pub(in crate::server) fn note_removed(&self, account: &str) {
        if self.asks_elsewhere {
            let mut removed = self.removed();
            // Then what they have ends when it expires.
            if removed.len() >= REMOVED_MAX {
                removed.clear();
            }
            removed.insert(account.to_owned());
        }
    }

    /// Another program has an account of this name.
    pub(in crate::server) fn found_elsewhere(&self, account: &str) {
        if self.is_any_gone.load(Ordering::Acquire) {
            self.removed().remove(account);
        }
    }

    /// No lock is taken under it but that of the directory.
    fn removed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removed accounts whose ends are under way.
const REMOVED_MAX: usize = 65_536;
