//! Contacts that an operator takes away, or that end with their connection, in turn with the
//! device's registrations.

use super::{
    Device, DeviceInner,
    device_context::DeviceContext,
    device_request::DeviceRequest,
    draft::{Draft, Pending},
};
use crate::server::change::record::RegistrationEvent;
use busyhour::{
    clock::Instant,
    task::{Executor, Task},
};
use busyhour_registrar::{Bindings, Now, Update};
use busyhour_sip::Flow;
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
    pub(in crate::server) what: RemovedContacts,
    pub(in crate::server) arrived_at: Instant,
    /// Of the device.
    pub(in crate::server) hash: u64,
    pub(in crate::server) listener: RemovalListener,
}

/// Which contacts are removed, and why.
#[derive(Debug, Clone)]
pub(in crate::server) enum RemovedContacts {
    /// An operator takes this contact, or all of them.
    ByOperator(Option<Box<str>>),
    /// This connection has ended, and nothing brings them back.
    CutOff(Flow),
}

impl RemovedContacts {
    fn from(&self, bindings: &Bindings, at: Now) -> Update {
        match self {
            Self::ByOperator(contact) => bindings.remove(contact.as_deref(), at),
            Self::CutOff(flow) => bindings.remove_cut_off(*flow, at),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ByOperator(_) => "an operator removed it",
            Self::CutOff(_) => "its connection ended",
        }
    }
}

impl Debug for Removal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Removal");
        fields.field("what", &self.what).finish_non_exhaustive()
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
        } = removal.what.from(&state.bindings, at);
        let draft = Draft::Removal(RemovalDraft {
            bindings,
            count: changes.len() as u64,
        });
        let changes = changes.into_iter().map(Change::from).collect();
        let pending = Pending::new(DeviceRequest::Remove(removal), draft);
        self.commit(context, state, pending, changes);
    }

    /// Whether the end of this connection ends one of its contacts.
    fn has_cut_off(&self, flow: Flow, at: Now) -> bool {
        let update = self.lock().bindings.remove_cut_off(flow, at);
        update.tally.removed > 0
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
            if let RemovedContacts::CutOff(_) = removal.what {
                context.flows.counters.cut_off.add(draft.count);
            }
            let left = state.bindings.active(now).count();
            let reason = removal.what.reason();
            context.log.ended(&self.aor, flow, left, reason);
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
            what: RemovedContacts::ByOperator(contact.map(Into::into)),
            arrived_at: self.clock.now(),
            hash: self.table.hash(aor),
            listener,
        };
        match device {
            Some(device) => self.push_to_device(&device, DeviceRequest::Remove(removal.into())),
            None => self.conclude_removal(&removal, Ok(0)),
        }
    }

    /// Ends the contacts of a device that were reached over a connection which is gone, if nothing
    /// brings them back. If too much waits for the device, they stay, as unreachable ones.
    pub(super) fn end_cut_off(self: &Arc<Self>, device: &Arc<Device>, flow: Flow) {
        if !device.has_cut_off(flow, self.clock.moment()) {
            return;
        }
        let removal = Removal {
            what: RemovedContacts::CutOff(flow),
            arrived_at: self.clock.now(),
            hash: self.table.hash_of(device),
            listener: Arc::new(|_| ()),
        };
        self.push_to_device(device, DeviceRequest::Remove(removal.into()));
    }

    /// Tells the listener, in a turn of its own: it is called under no lock.
    pub(super) fn conclude_removal(&self, removal: &Removal, outcome: Result<u64, RemovalError>) {
        let listener = removal.listener.clone();
        let task = Task::labelled(&"removed", move || listener(outcome));
        // It is refused only when the server ends.
        let _ = self.table.strand(removal.hash).execute_unbounded(task);
    }
}
