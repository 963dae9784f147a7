//! What the store kept of devices comes back at the start, before the server serves, and in a
//! cluster when a partition comes; it leaves memory when the partition goes. Limits do not apply
//! here: what was acknowledged is kept.

use super::{Device, device_context::DeviceContext};
use busyhour_registrar::{
    EndedBinding, Restored,
    watch::{Publications, Restorable},
};
use busyhour_store::{SoftState, StoredBinding};
use std::{collections::BTreeSet, sync::Arc};

impl Device {
    /// Leaves memory, since another node of the cluster has it from now on. Nothing has ended,
    /// and nobody is told so.
    pub(in crate::server) fn forget(self: &Arc<Self>, context: &DeviceContext) {
        let mut state = self.lock();
        if state.is_retired {
            return;
        }
        let before = std::mem::take(&mut state.bindings);
        self.follow_flows(context, &before, &state.bindings);
        self.settle_contacts(context, &mut state);
        let published = state.publications().map_or(0, Publications::len);
        context.compositor.forget(self.holder, published);
        let waiting = state.rare.take().and_then(|rare| rare.more);
        self.retire(context, &mut state);
        drop(state);
        for device_request in waiting.into_iter().flat_map(|more| more.waiting) {
            context.give_up_request(&device_request);
        }
    }
}

impl DeviceContext {
    /// Restores every stored binding with its remaining lifetime.
    pub(in crate::server) fn restore_bindings(self: &Arc<Self>, stored: Vec<StoredBinding>) {
        self.restore_rows(stored);
        for device in self.table.all() {
            device.fire(self);
        }
    }

    /// The same for partitions that this node of a cluster was granted.
    pub(in crate::server) fn restore_partitions(self: &Arc<Self>, stored: Vec<StoredBinding>) {
        let aors: BTreeSet<Box<str>> = stored.iter().map(|row| row.aor.clone()).collect();
        self.restore_rows(stored);
        for device in aors.iter().filter_map(|aor| self.table.find(aor)) {
            device.fire(self);
        }
    }

    fn restore_rows(self: &Arc<Self>, stored: Vec<StoredBinding>) {
        let at = self.clock.moment();
        let mut over = Vec::new();
        for binding in stored {
            let StoredBinding {
                id,
                aor,
                contact,
                lease,
            } = binding;
            let expires_at = lease.expires_at;
            let device = self.table.reopen(aor, self);
            let is_more = match device.restore(self, id, contact, lease, at) {
                Restored::Taken => true,
                Restored::InsteadOf(ended) => {
                    over.push(ended.ended());
                    ended.lease.removed
                }
                Restored::Over => {
                    over.push(EndedBinding { id, expires_at });
                    false
                }
            };
            if is_more && !lease.removed {
                self.log.counters.restored.increment();
            }
        }
        self.persistence.store().purge(&over);
    }

    /// Restores every stored publication with its remaining lifetime.
    pub(in crate::server) fn restore_publications(self: &Arc<Self>, rows: Vec<SoftState>) {
        let at = self.clock.moment();
        let mut over = Vec::new();
        for row in rows {
            let remaining = row.remaining(at.steady);
            let stored = Restorable::read(&row.value);
            if let Err(reason) = &stored {
                tracing::warn!(row = row.id.0, %reason, "a stored publication cannot be restored");
            }
            let (Ok(stored), false) = (stored, remaining.is_zero()) else {
                over.push(row.ended());
                continue;
            };
            let device = self.table.reopen(stored.device().into(), self);
            self.compositor.take_back_in(&stored, device.holder());
            device.restore_publication(self, stored, row.ended(), at.now + remaining);
        }
        self.persistence.store().purge(&over);
    }
}
