//! What the store kept of devices comes back at the start, before the server serves, and in a
//! cluster when a partition comes; it leaves memory when the partition goes. Limits do not apply
//! here: what was acknowledged is kept.

use super::{Device, device_context::DeviceContext, loading::unread_bindings::UnreadBindings};
use busyhour_registrar::{Contact, EndedBinding, Restored, watch::Restorable};
use busyhour_store::{BindingReader, SoftState, StoreError, StoredBinding};
use std::sync::Arc;

impl Device {
    /// Leaves memory, since another node of the cluster has it from now on. Nothing has ended,
    /// and nobody is told so.
    pub(in crate::server) fn forget(self: &Arc<Self>, context: &DeviceContext) {
        let mut state = self.lock();
        if state.is_retired {
            return;
        }
        let before = std::mem::take(&mut state.bindings);
        let counted = before.all().filter(|binding| !binding.is_removed());
        (context.log.counters.handed_over).add(counted.count() as u64);
        self.follow_flows(context, &before, &state.bindings);
        self.settle_contacts(context, &mut state);
        if let Some(publications) = state.publications() {
            context.compositor.forget(self.holder, publications);
        }
        let waiting = state.rare.take().and_then(|rare| rare.more);
        self.retire(context, &mut state);
        drop(state);
        for device_request in waiting.into_iter().flat_map(|more| more.waiting) {
            context.give_up_request(&device_request);
        }
    }
}

impl DeviceContext {
    /// Restores stored bindings with their remaining lifetimes: all of them at the start, those of an address that was
    /// not read then, or those of partitions that this node of a cluster was granted.
    pub(in crate::server) fn restore_bindings(self: &Arc<Self>, stored: Vec<StoredBinding>) {
        for device in self.restore_rows(stored) {
            device.fire(self);
        }
    }

    /// The registrations that were not read at the start are read from now on, each first when somebody asks for it.
    ///
    /// # Errors
    ///
    /// If it cannot be read which ones there are.
    pub(in crate::server) fn begin_reading(
        self: &Arc<Self>,
        reader: Arc<dyn BindingReader>,
    ) -> Result<(), StoreError> {
        let unread = UnreadBindings::look(reader, self)?;
        self.table.begin_reading(Arc::new(unread));
        Ok(())
    }

    /// Returns the devices that have rows.
    fn restore_rows(self: &Arc<Self>, stored: Vec<StoredBinding>) -> Vec<Arc<Device>> {
        let mut devices: Vec<Arc<Device>> = Vec::with_capacity(stored.len());
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
            let contact = self.reached_contact(contact);
            let device = self.table.reopen(aor, self);
            let is_more = match device.restore(self, id, contact, lease, at) {
                Restored::Taken => true,
                Restored::InsteadOf(ended) => {
                    over.push(ended.ended());
                    ended.is_removed()
                }
                Restored::Over => {
                    over.push(EndedBinding { id, expires_at });
                    false
                }
            };
            if is_more && !lease.removed {
                self.log.counters.restored.increment();
            }
            devices.push(device);
        }
        if !over.is_empty() {
            self.persistence.store().purge(&over);
        }
        // A device with several rows needs one turn; another one changes nothing.
        devices.dedup_by(|one, other| Arc::ptr_eq(one, other));
        devices
    }

    /// A connection ends with the process that has it; in a cluster that may be another one than the last.
    fn reached_contact(&self, contact: Contact) -> Contact {
        let is_over = contact.transport().is_reliable() && {
            let flow = contact.flow();
            flow.connection != 0 && !self.responder.network().may_stand(flow)
        };
        match is_over {
            true => contact.without_connection(),
            false => contact,
        }
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
            // Its registrations come first, if they are not read yet.
            self.table.find(stored.device());
            let device = self.table.reopen(stored.device().into(), self);
            self.compositor.take_back_in(&stored, device.holder());
            device.restore_publication(self, stored, row.ended(), at.now + remaining);
        }
        self.persistence.store().purge(&over);
    }
}
