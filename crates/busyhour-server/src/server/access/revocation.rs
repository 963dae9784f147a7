//! What an account has ends with it: its bindings, its publications and the
//! subscriptions that it opened. The one who removes an account, a person over HTTP, a
//! command beside the server or another program in the database:
//!
//! 1. the directory knows it no more, so nothing new is admitted;
//! 2. `is_needed` is set, and from now on each device looks in each of its turns
//!    whether its account is there;
//! 3. a walk over all watchers and devices, in batches, gives each of those that
//!    are concerned a turn. One that has not begun does for all that go before it.
//!
//! A request that was admitted before 1 may take its turn after the walk has passed:
//! it finds its account gone by 2. The walk and the request both take the lock of
//! the table, so whichever comes second sees the other.
//!
//! Nothing of this need be durable. A row that a crash leaves behind is read back
//! at the start, where its account is looked for, too.

use crate::server::{core::Core, device::Device, watcher::Watcher};
use busyhour::task::{Executor, Task};
use busyhour_registrar::{user_of, watch::End};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// How far the ends of accounts have come.
#[derive(Debug)]
pub(in crate::server) struct Revocation {
    /// What the store gave back is being looked at.
    is_starting: AtomicBool,
    /// An account has gone since the start. Until then nobody looks for one.
    is_needed: AtomicBool,
    /// A walk waits, and has not begun.
    is_due: AtomicBool,
}

impl Revocation {
    /// What the store gives back may be of accounts that are there no more.
    pub(in crate::server) fn new() -> Self {
        Self {
            is_starting: AtomicBool::new(true),
            is_needed: AtomicBool::new(true),
            is_due: AtomicBool::new(false),
        }
    }
}

impl Core {
    /// Everything that the store gave back has been looked at.
    pub(in crate::server) fn end_first_revocation(&self) {
        self.revocation.is_needed.store(false, Ordering::Release);
        self.revocation.is_starting.store(false, Ordering::Release);
    }

    /// Why a registration ends now that has no account, for the log. At the start nobody
    /// knows whether it was removed, or never was since everybody could register.
    pub(in crate::server) fn why_revoked(&self) -> &'static str {
        match self.revocation.is_starting.load(Ordering::Acquire) {
            true => "there is no account for it",
            false => "its account was removed",
        }
    }

    /// Whether there is no account any more whose address of record this is.
    pub(in crate::server) fn is_revoked(&self, aor: &str) -> bool {
        let (_, address) = aor.split_once(':').unwrap_or(("", aor));
        self.may_be_revoked() && self.is_gone(user_of(aor)) && self.is_gone(address)
    }

    /// Accounts have gone. What they had ends soon after, and is told.
    pub(in crate::server) fn revoke(self: &Arc<Self>) {
        self.revocation.is_needed.store(true, Ordering::Release);
        if self.revocation.is_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.push_walk(|core| {
            core.revocation.is_due.swap(false, Ordering::AcqRel);
            for watcher in core.watchers().all() {
                core.revoke_watcher(&watcher);
            }
            core.revoke_devices(0);
        });
    }

    /// Ends a subscription if the account is gone that opened it.
    pub(in crate::server) fn revoke_watcher(&self, watcher: &Arc<Watcher>) {
        if self.may_be_revoked() && watcher.is_of(|account| self.is_gone(account)) {
            watcher.push_end(End::Rejected);
        }
    }

    fn revoke_devices(self: &Arc<Self>, first_shard: usize) {
        let Some(devices) = self.devices().of_shards(first_shard, PORTION_SHARDS) else {
            return;
        };
        let is_concerned = |device: &&Arc<Device>| self.is_revoked(device.aor());
        for device in devices.iter().filter(is_concerned) {
            device.fire(self);
        }
        self.push_walk(move |core| core.revoke_devices(first_shard + PORTION_SHARDS));
    }

    /// Beyond the bound of the serializer, since there is one of these at most.
    fn push_walk(self: &Arc<Self>, walk: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let core = Arc::downgrade(self);
        let task = Task::new(move || {
            if let Some(core) = core.upgrade() {
                walk(&core);
            }
        });
        // One that takes no more is shut down already.
        let _ = self.devices().expiry_serializer().execute_unbounded(task);
    }

    fn may_be_revoked(&self) -> bool {
        self.revocation.is_needed.load(Ordering::Acquire) && self.parts.authenticator.is_some()
    }

    fn is_gone(&self, account: &str) -> bool {
        !self.parts.directory.knows(account)
    }
}

/// Of a million devices these have about twelve thousand: some milliseconds.
const PORTION_SHARDS: usize = 16;
