//! What the store kept of devices comes back at the start, before the server serves.
//! Limits do not apply here: what was acknowledged is kept.

use super::device_context::DeviceContext;
use busyhour_registrar::{EndedBinding, Restored, watch::Restorable};
use busyhour_store::{SoftState, StoredBinding};
use std::sync::Arc;

impl DeviceContext {
    /// Restores every stored binding with its remaining lifetime.
    pub(in crate::server) fn restore_bindings(self: &Arc<Self>, stored: Vec<StoredBinding>) {
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
        for device in self.table.all() {
            device.fire(self);
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
