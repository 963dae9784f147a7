//! What a device publishes about itself, in turn with its registrations.

use super::{
    Device, DeviceInner,
    compositor::PublicationDraft,
    device_context::DeviceContext,
    device_request::DeviceRequest,
    draft::{Draft, Pending},
};
use crate::server::sip::inbound_request::InboundRequest;
use busyhour::clock::Instant;
use busyhour_registrar::{
    BindingId, EndedBinding,
    watch::{Package, Restorable},
};
use busyhour_sip::Flow;
use std::sync::Arc;

impl Device {
    /// Takes in a PUBLISH once it is durable.
    pub(super) fn take_publication(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        state: &mut DeviceInner,
        mut inbound: Box<InboundRequest>,
    ) {
        inbound.span.step("publication");
        let message = inbound.message();
        let name = self.name();
        let publisher = state.contact_of(inbound.flow, context.clock.now());
        let publications = &state.more_rare().publications;
        let known = (publications, publisher);
        let draft = context
            .compositor
            .plan(&name, self.holder, known, &message, &inbound);
        let mut draft = match draft {
            Ok(Some(draft)) => draft,
            Ok(None) => return context.responder.abandon(inbound.transaction),
            Err(refusal) => {
                let (flow, transaction) = (inbound.flow, inbound.transaction);
                context
                    .compositor
                    .refuse(&message, flow, transaction, &refusal);
                drop(message);
                return inbound.span.answered(refusal.status().code());
            }
        };
        let changes = context
            .compositor
            .keep(&name, publications, &mut draft.plan);
        drop(message);
        let (device_request, draft) = (DeviceRequest::Publish(inbound), Draft::Publication(draft));
        self.commit(context, state, Pending::new(device_request, draft), changes);
    }

    /// The 200 leaves before the state is published, and so before any NOTIFY.
    pub(super) fn accept_publication(
        &self,
        context: &DeviceContext,
        state: &mut DeviceInner,
        inbound: &InboundRequest,
        draft: PublicationDraft,
    ) {
        let step = draft.plan.granted.step;
        state.more_rare().publications.apply(draft.plan);
        context.compositor.count(step, self.holder);
        if let Some(place) = draft.place {
            place.take_up();
        }
        let flow = inbound.answer_flow();
        context
            .responder
            .accept(inbound.transaction, flow, draft.answer);
        if let Some(package) = draft.changed {
            self.tell(context, state, package);
        }
    }

    /// Restores a stored publication, or that one was taken back, before the server serves.
    pub(in crate::server) fn restore_publication(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        stored: Restorable,
        row: EndedBinding,
        expires_at: Instant,
    ) {
        let mut state = self.lock();
        let (package, is_removal) = (stored.package(), stored.is_removal());
        let now = context.clock.now();
        state
            .more_rare()
            .publications
            .put_back(stored, row, expires_at, now);
        if !is_removal {
            self.end_unregistered(context, &mut state);
            self.tell(context, &state, package);
        }
        self.finish_transition(context, &mut state);
    }

    /// Tells the watchers of a package what the device publishes now.
    fn tell(&self, context: &DeviceContext, state: &DeviceInner, package: Package) {
        match package {
            Package::Presence | Package::Dialog => self.publish(context, state),
            Package::MessageSummary => context.mailboxes.publish(&self.name(), state.messages()),
            // Nobody publishes them.
            Package::Registration
            | Package::PresenceWatchers
            | Package::DialogWatchers
            | Package::MessageSummaryWatchers => {}
        }
    }

    /// Ends what contacts have published that are not registered any more. The caller tells
    /// the watchers, to whom that is one change with the end of the contacts.
    pub(super) fn end_unregistered(&self, context: &DeviceContext, state: &mut DeviceInner) {
        let (bindings, now) = (&state.bindings, context.clock.now());
        let more = state.rare.as_mut().and_then(|rare| rare.more.as_mut());
        let Some(more) = more else {
            return;
        };
        let is_registered = |id| bindings.active(now).any(|binding| binding.id == id);
        let ended = more.publications.end_unregistered(is_registered);
        if !ended.packages.is_empty() {
            let count = ended.packages.len();
            context.compositor.count_unregistered(self.holder, count);
            context.persistence.store().purge(&ended.rows);
        }
    }

    pub(super) fn expire_publications(
        &self,
        context: &DeviceContext,
        state: &mut DeviceInner,
        until: Instant,
    ) {
        let more = state.rare.as_mut().and_then(|rare| rare.more.as_mut());
        let Some(more) = more else {
            return;
        };
        let is_revoked = until == Instant::FAR_FUTURE;
        let ended = more.publications.expire(until);
        context
            .compositor
            .count_ended(self.holder, ended.packages.len(), is_revoked);
        context
            .compositor
            .forget_removals(self.holder, ended.forgotten_count);
        context.persistence.store().purge(&ended.rows);
        // Presence and dialogs are told as one.
        let is_mailbox = |package: &Package| *package == Package::MessageSummary;
        if ended.packages.iter().any(is_mailbox) {
            self.tell(context, state, Package::MessageSummary);
        }
        if !ended.packages.iter().all(is_mailbox) {
            self.publish(context, state);
        }
    }
}

impl DeviceInner {
    /// The contact that is registered over this flow; none if there are several, or if it is the
    /// flow of a proxy in front of it, since it is not known then which one sends.
    fn contact_of(&self, flow: Flow, now: Instant) -> Option<BindingId> {
        let active = self.bindings.active(now);
        let mut over = active.filter(|binding| binding.contact.flow() == flow);
        let only = over.next().filter(|_| over.next().is_none())?;
        only.contact.path().is_empty().then_some(only.id)
    }
}
