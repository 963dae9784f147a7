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
//! Nothing of this need be durable. A row that a crash leaves behind is read at the
//! next start, which also checks for its account.

use crate::server::{core::Core, device::Device, watcher::Watcher};
use busyhour::task::{Executor, Task};
use busyhour_registrar::watch::End;
use std::sync::{Arc, atomic::Ordering};

impl Core {
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
                core.revoke_watcher(&watcher);
            }
            core.revoke_devices(0);
        });
    }

    /// Ends a subscription if the account that opened it is gone.
    pub(in crate::server) fn revoke_watcher(&self, watcher: &Arc<Watcher>) {
        let accounts = &self.accounts;
        if accounts.are_looked_for() && watcher.is_of(|account| accounts.is_gone(account)) {
            watcher.push_end(End::Rejected);
        }
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
