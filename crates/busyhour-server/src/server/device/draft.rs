//! What a change of a device brings about when it is durable.

use super::{
    Device, DeviceInner, compositor::PublicationDraft, device_context::DeviceContext,
    device_request::DeviceRequest, removal::RemovalDraft,
};
use crate::server::sip::transactions::TransactionKey;
use busyhour::buffer::Buffer;
use busyhour_iax2::{CallId, RequestOutcome};
use busyhour_registrar::{BindingChange, Bindings, Refusal, Tally, Update};
use busyhour_sip::Flow;

/// A change on its way to the disk.
pub(super) struct Pending {
    pub(super) device_request: DeviceRequest,
    pub(super) draft: Draft,
    /// What its holder is charged for.
    pub(super) change_count: u64,
}

impl Pending {
    pub(super) fn new(device_request: DeviceRequest, draft: Draft) -> Self {
        Self {
            device_request,
            draft,
            change_count: 0,
        }
    }
}

/// What holds once the change is durable.
pub(super) enum Draft {
    Registration(RegistrationDraft),
    Publication(PublicationDraft),
    Removal(RemovalDraft),
}

impl Draft {
    /// What will be registered, if that changes.
    pub(super) fn bindings_mut(&mut self) -> Option<&mut Bindings> {
        match self {
            Self::Registration(draft) => Some(&mut draft.bindings),
            Self::Removal(draft) => Some(&mut draft.bindings),
            Self::Publication(_) => None,
        }
    }
}

pub(super) struct RegistrationDraft {
    pub(super) bindings: Bindings,
    pub(super) answer: Answer,
    pub(super) tally: Tally,
    /// Watchers see a difference.
    pub(super) is_visible: bool,
    /// The device was told to keep its flow alive.
    pub(super) keeps_flow: bool,
}

/// What the device is told then.
pub(super) enum Answer {
    /// The 200 of a transaction, and where it goes.
    Sip(TransactionKey, Flow, Buffer),
    /// What a call makes a REGACK of.
    Iax2(CallId, RequestOutcome),
}

impl Device {
    /// The same draft, if its domain may have the contacts that it is going to have.
    pub(super) fn charged(
        &self,
        context: &DeviceContext,
        state: &mut DeviceInner,
        draft: Option<(RegistrationDraft, Vec<BindingChange>)>,
    ) -> Result<Option<(RegistrationDraft, Vec<BindingChange>)>, Refusal> {
        if let Some((draft, _)) = &draft {
            self.charge_contacts(context, state, &draft.bindings)?;
        }
        Ok(draft)
    }

    /// Charges its domain for contacts that it is going to have.
    ///
    /// # Errors
    ///
    /// If that has as many as it may, or it is not known yet how many it has, since registrations are still being read.
    pub(super) fn charge_contacts(
        &self,
        context: &DeviceContext,
        state: &mut DeviceInner,
        bindings: &Bindings,
    ) -> Result<(), Refusal> {
        let Some(tenant) = context.accounts.tenants.of_aor(&self.aor) else {
            return Ok(());
        };
        let count = bindings.active(context.clock.now()).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let more = count.saturating_sub(state.contacts_charged);
        if more > 0 && tenant.config.max_contacts.is_some() && context.table.unread().is_some() {
            return Err(context.responder.overloaded());
        }
        if more > 0 && !tenant.take_contacts(more.into()) {
            return Err(Refusal::Forbidden(DOMAIN_FULL));
        }
        state.contacts_charged += more;
        Ok(())
    }

    /// A registration was accepted, which its domain shows.
    pub(super) fn count_registration(&self, context: &DeviceContext) {
        let tenants = &context.accounts.tenants;
        if tenants.domains().have_tenants()
            && let Some(tenant) = tenants.of_aor(&self.aor)
        {
            tenant.registered();
        }
    }

    /// As [`settle_contacts`](Self::settle_contacts), when its domain gets settings of its own.
    pub(in crate::server) fn count_contacts(&self, context: &DeviceContext) {
        self.settle_contacts(context, &mut self.lock());
    }

    /// Its domain is charged for the contacts that it has.
    pub(super) fn settle_contacts(&self, context: &DeviceContext, state: &mut DeviceInner) {
        let tenants = &context.accounts.tenants;
        if !tenants.domains().have_tenants() {
            return;
        }
        let count = state.bindings.active(context.clock.now()).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let charged = std::mem::replace(&mut state.contacts_charged, count);
        if let Some(tenant) = tenants.of_aor(&self.aor).filter(|_| charged != count) {
            tenant.move_contacts(charged.into(), count.into());
        }
    }
}

/// Whether watchers see a difference: a refresh makes none.
pub(super) fn is_visible(update: &Update) -> bool {
    let puts = |change: &BindingChange| matches!(change, BindingChange::Put { .. });
    let Tally {
        added,
        removed,
        returned,
        ..
    } = update.tally;
    added + removed + returned > 0 || update.changes.iter().any(puts)
}

/// Why a registration is refused whose contacts would be too many for its domain.
const DOMAIN_FULL: &str = "Domain Has Its Contacts";
