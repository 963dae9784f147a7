//! Contacts that an operator takes away, in turn with the device's registrations.

use super::{
    Device, DeviceInner, Pending, device_context::DeviceContext, device_request::DeviceRequest,
    draft::Draft,
};
use crate::server::change::record::RegistrationEvent;
use busyhour::{
    clock::Instant,
    task::{Executor, Task},
};
use busyhour_registrar::{Bindings, Update};
use busyhour_store::Change;
use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
};
use thiserror::Error;

/// Why contacts are not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RemovalError {
    /// Too many requests wait for the device, or for the store.
    #[error("too much waits for this device already: try again")]
    Busy,
    /// The store did not take the change: all contacts are as they were.
    #[error("the store did not take the change")]
    Store,
}

/// Is told how many contacts were removed once that is durable. It is called on a worker,
/// once or, if the server ends before, never.
pub type RemovalListener = Arc<dyn Fn(Result<u64, RemovalError>) + Send + Sync>;

/// A removal on its way to its device.
pub(in crate::server) struct Removal {
    /// The URI of the contact; all of them without one.
    pub(in crate::server) contact: Option<Box<str>>,
    pub(in crate::server) arrived_at: Instant,
    /// Of the device.
    pub(in crate::server) hash: u64,
    pub(in crate::server) listener: RemovalListener,
}

impl Debug for Removal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Removal");
        fields
            .field("contact", &self.contact)
            .finish_non_exhaustive()
    }
}

impl Device {
    pub(super) fn take_removal(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        removal: Box<Removal>,
    ) {
        let at = context.clock.moment();
        let Update {
            bindings, changes, ..
        } = state.bindings.remove(removal.contact.as_deref(), at);
        let draft = Draft::Removal(RemovalDraft {
            bindings,
            count: changes.len() as u64,
        });
        let changes = changes.into_iter().map(Change::from).collect();
        let pending = Pending::new(DeviceRequest::Remove(removal), draft);
        self.commit(context, state, pending, changes);
    }

    /// The listener is told after the watchers.
    pub(super) fn accept_removal(
        self: &Arc<Self>,
        context: &DeviceContext,
        state: &mut DeviceInner,
        removal: &Removal,
        draft: RemovalDraft,
    ) {
        let now = context.clock.now();
        let last = state.bindings.active(now).max_by_key(|binding| binding.id);
        let flow = last.map(|binding| binding.contact.flow());
        self.hold(context, state, draft.bindings);
        if let Some(flow) = flow.filter(|_| draft.count > 0) {
            context.log.counters.removed.add(draft.count);
            let left = state.bindings.active(now).count();
            context.log.ended(&self.aor, flow, left, REASON);
            self.tell_registration(context, state, Some(RegistrationEvent::Deactivated));
            self.publish_registration(context, state, true);
        }
        context.conclude_removal(removal, Ok(draft.count));
    }
}

/// What holds once the removal is durable.
pub(super) struct RemovalDraft {
    pub(super) bindings: Bindings,
    count: u64,
}

impl DeviceContext {
    pub(in crate::server) fn remove_bindings(
        self: &Arc<Self>,
        aor: &str,
        contact: Option<&str>,
        listener: RemovalListener,
    ) {
        let device = self.table.find(aor);
        let removal = Removal {
            contact: contact.map(Into::into),
            arrived_at: self.clock.now(),
            hash: self.table.hash(aor),
            listener,
        };
        match device {
            Some(device) => self.push_to_device(&device, DeviceRequest::Remove(removal.into())),
            None => self.conclude_removal(&removal, Ok(0)),
        }
    }

    /// Tells the listener, in a turn of its own: it is called under no lock.
    pub(super) fn conclude_removal(&self, removal: &Removal, outcome: Result<u64, RemovalError>) {
        let listener = removal.listener.clone();
        let task = Task::labelled(&"removed", move || listener(outcome));
        // It is refused only when the server ends.
        let _ = self.table.strand(removal.hash).execute_unbounded(task);
    }
}

const REASON: &str = "an operator removed it";
