//! The end of an account: its bindings, its publications and the subscriptions that it
//! opened end with it. When a person over HTTP, a command or another program removes an
//! account:
//!
//! 1. the directory drops it, so nothing new is admitted;
//! 2. `is_any_gone` is set: from now on each device checks in each of its turns whether
//!    its account exists;
//! 3. a walk over all watchers and devices, in batches, gives a turn to each one that
//!    is affected. A walk that has not begun covers all accounts that are removed before
//!    it begins.
//!
//! A request that was admitted before step 1 may take its turn after the walk has
//! passed: because of step 2 it finds that its account is gone. The walk and the
//! request both take the lock of the table, so the second one sees the first.
//!
//! An account of the service for credentials ends in the same way, when the service says that it knows it no more, or when
//! somebody deletes it here over HTTP. It is among the removed ones until the service knows it again. Its rows are removed
//! some seconds later; if the server ends before, they are restored, and end with the next login that the service refuses.
//!
//! Nothing of this need be durable. A row that a crash leaves behind is read at the
//! next start, which also checks for its account.

use crate::server::{Server, core::Core, device::Device};
use busyhour::task::{Executor, Task};
use busyhour_registrar::address_of_record;
use busyhour_sip::Uri;
use std::sync::{Arc, atomic::Ordering};

impl Server {
    /// What the service for credentials has said of an account is forgotten, and what the account has ends; `false` if
    /// nothing is known of it. If the service still has it, it may log in again at once.
    pub fn forget_credentials(&self, account: &str) -> bool {
        let Some(credentials) = &self.core.credentials else {
            return false;
        };
        let was_found = credentials.forget(account);
        self.core.revoke_elsewhere(account, was_found)
    }
}

impl Core {
    /// The service for credentials has no such account, or is to be asked again: what it has ends. Names that nobody had
    /// before cost a look at the devices, and no walk over all of them.
    pub(in crate::server) fn revoke_elsewhere(
        self: &Arc<Self>,
        account: &str,
        was_found: bool,
    ) -> bool {
        let is_concerned = was_found || self.has_device(account);
        if is_concerned {
            if let Some(credentials) = &self.credentials {
                credentials.count_revoked();
            }
            self.accounts.note_removed(account);
            self.revoke();
        }
        is_concerned
    }

    /// Whether one of the addresses of an account has a device.
    fn has_device(&self, account: &str) -> bool {
        let (tenant, user) = self.domains.parts_of(account);
        let has_device = |host: &str| {
            let uri = format!("sip:{user}@{host}");
            let aor = Uri::parse(&uri).and_then(|uri| address_of_record(&uri, &self.domains).ok());
            aor.is_some_and(|aor| self.devices.table.find(&aor).is_some())
        };
        if let Some(tenant) = tenant {
            return has_device(&tenant.name);
        }
        let tenants = self.domains.tenants();
        let mut shared = tenants.iter().filter(|one| one.has_server_accounts);
        self.domains.hosts().iter().any(|host| has_device(host))
            || shared.any(|tenant| has_device(&tenant.name))
    }

    /// Accounts were removed. Their bindings, publications and subscriptions end soon
    /// after, and watchers are notified.
    pub(in crate::server) fn revoke(self: &Arc<Self>) {
        self.accounts.some_have_gone();
        if self.is_revocation_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.push_walk(|core| {
            core.is_revocation_due.swap(false, Ordering::AcqRel);
            for watcher in core.watchers.all() {
                core.watching.revoke(&watcher);
            }
            core.revoke_devices(0);
        });
    }

    fn revoke_devices(self: &Arc<Self>, first_shard: usize) {
        let Some(devices) = self.devices.table.of_shards(first_shard, PORTION_SHARDS) else {
            return;
        };
        let is_concerned = |device: &&Arc<Device>| self.accounts.is_revoked(device.aor());
        for device in devices.iter().filter(is_concerned) {
            device.fire(&self.devices);
        }
        self.push_walk(move |core| core.revoke_devices(first_shard + PORTION_SHARDS));
    }

    /// Counts for each domain the contacts that it has, since one of them has been set up.
    pub(in crate::server) fn count_contacts(self: &Arc<Self>) {
        self.push_walk(|core| core.count_contacts_from(0));
    }

    fn count_contacts_from(self: &Arc<Self>, first_shard: usize) {
        let Some(devices) = self.devices.table.of_shards(first_shard, PORTION_SHARDS) else {
            return;
        };
        for device in &devices {
            device.count_contacts(&self.devices);
        }
        self.push_walk(move |core| core.count_contacts_from(first_shard + PORTION_SHARDS));
    }

    /// Pushed beyond the bound of the serializer, since there is at most one such task.
    fn push_walk(self: &Arc<Self>, walk: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let core = Arc::downgrade(self);
        let task = Task::labelled(&"accounts that have gone", move || {
            if let Some(core) = core.upgrade() {
                walk(&core);
            }
        });
        // One that takes no more is shut down already.
        let _ = self
            .devices
            .table
            .expiry_serializer()
            .execute_unbounded(task);
    }
}

/// Of a million devices these have about twelve thousand: some milliseconds.
const PORTION_SHARDS: usize = 16;
