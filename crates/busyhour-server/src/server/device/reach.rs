//! Over which connections a device is reached, and what happens to its contacts when
//! one ends.
//!
//! A contact whose connection has ended is unreachable, and its watchers learn it. A flow of
//! an instance stays registered: the device registers it again over its next connection (RFC 5626
//! §4.5), which makes the contact reachable again; so does that of a telephone that a service
//! wakes. Any other contact ends, since a device that comes back brings another one.

use super::device_context::DeviceContext;
use super::{Device, DeviceInner};
use crate::server::{change::record::RegistrationEvent, device::flows::Flows};
use busyhour::clock::Instant;
use busyhour_registrar::{
    Binding, BindingId, Bindings, Contact, Lease, Now, Pace, Reach, Restored,
};
use busyhour_sip::Flow;
use std::sync::Arc;

impl Device {
    /// Restores a stored binding, before the server serves; `false` if it has expired.
    pub(super) fn restore(
        self: &Arc<Self>,
        context: &DeviceContext,
        id: BindingId,
        contact: Contact,
        lease: Lease,
        at: Now,
    ) -> Restored {
        let mut state = self.lock();
        let before = state.bindings.clone();
        let restored = state.bindings.restore(id, contact, lease, at);
        self.follow_flows(context, &before, &state.bindings);
        restored
    }

    /// Notes what is known of the contacts of a flow.
    pub(in crate::server) fn reach(
        self: &Arc<Self>,
        context: &DeviceContext,
        flow: Flow,
        reach: Reach,
    ) {
        let mut state = self.lock();
        self.set_reach(context, &mut state, flow, reach);
    }

    /// A contact that is reached over this flow.
    pub(in crate::server) fn contact_over(&self, flow: Flow, now: Instant) -> Option<Contact> {
        let state = self.lock();
        let mut active = state.bindings.active(now);
        let binding = active
            .find(|Binding { contact, .. }| contact.flow() == flow && contact.depends_on_flow())?;
        Some(binding.contact.clone())
    }

    /// Sets the current bindings, enters them in their flows, and ends what others have published.
    pub(super) fn hold(
        self: &Arc<Self>,
        context: &DeviceContext,
        state: &mut DeviceInner,
        next: Bindings,
    ) {
        let before = std::mem::replace(&mut state.bindings, next);
        self.follow_flows(context, &before, &state.bindings);
        self.end_unregistered(context, state);
    }

    /// Enters the device in the flows that it has now, and removes it from others. Called for every change of its
    /// bindings, before anybody is told of it.
    pub(super) fn follow_flows(
        self: &Arc<Self>,
        context: &DeviceContext,
        before: &Bindings,
        next: &Bindings,
    ) {
        context.table.note_changed(self);
        if !have_same_contacts(before, next) {
            let of = |bindings| flows(bindings, &context.flows);
            let only = |bindings| of(bindings).map(|(flow, _)| flow);
            let is_in = |bindings, flow| only(bindings).any(|other| other == flow);
            for (flow, pace) in of(next).filter(|(flow, _)| !is_in(before, *flow)) {
                let now = context.clock.now();
                context.flows.enter((flow, pace), self, now);
            }
            for flow in only(before).filter(|flow| !is_in(next, *flow)) {
                context.flows.leave(flow, self);
            }
        }
        if context.upstream.is_used() {
            // A lease that has run out is still in `before`.
            let had = before.all().any(|one| !one.is_removed() && is_sip(one));
            let has = next.active(context.clock.now()).any(is_sip);
            if had != has {
                context.upstream.changed(&self.aor, has);
            }
        }
        if context.push.is_used() {
            let active: Vec<_> = next.active(context.clock.now()).cloned().collect();
            let before = before.all().map(|one| one.id);
            context.push.registered(&self.aor, before, &active);
        }
    }

    /// Watchers are notified at once of what they see. A pending change was computed from the
    /// earlier bindings, so it is updated as well.
    pub(super) fn set_reach(
        self: &Arc<Self>,
        context: &DeviceContext,
        state: &mut DeviceInner,
        flow: Flow,
        reach: Reach,
    ) {
        if let Some(pending) = &mut state.pending
            && let Some(bindings) = pending.draft.bindings_mut()
        {
            bindings.set_reach(flow, reach);
        }
        let before = state.bindings.clone();
        let Some(was) = state.bindings.set_reach(flow, reach) else {
            return;
        };
        // What was watched only until it was verified is not watched any more.
        self.follow_flows(context, &before, &state.bindings);
        let counters = &context.flows.counters;
        match (was, reach) {
            (Reach::Unverified, Reach::Reachable) => counters.verified.increment(),
            (_, Reach::Unreachable) => counters.unreachable.increment(),
            _ => {}
        }
        let event = match reach.is_believed() {
            true => RegistrationEvent::Reachable,
            false => RegistrationEvent::Unreachable,
        };
        self.tell_registration(context, state, Some(event));
        if was.is_believed() != reach.is_believed() {
            self.publish(context, state);
        }
    }
}

/// Whether both have the same contacts, so that they have the same flows. A refresh keeps its contact, which is
/// known without reading what is in it.
fn have_same_contacts(one: &Bindings, other: &Bindings) -> bool {
    let contacts = |bindings| Bindings::all(bindings).map(|it| (&it.contact, it.is_removed()));
    contacts(one).eq(contacts(other))
}

/// What a registrar behind sends here cannot go to an IAX2 telephone.
fn is_sip(binding: &Binding) -> bool {
    binding.contact.uri().starts_with("sip")
}

/// The flows that contacts depend on: live connections, and addresses that are probed, with their
/// pace. Older versions stored flows with an unspecified local address; nothing ever arrives
/// on such a flow, so no contact depends on it.
fn flows<'b>(
    bindings: &'b Bindings,
    flows: &'b Flows,
) -> impl Iterator<Item = (Flow, Option<Pace>)> + 'b {
    let depends = move |binding: &Binding| {
        let contact = &binding.contact;
        let pace = match contact.transport().is_reliable() {
            true => None,
            false => flows.pace(contact),
        };
        let matters = match contact.transport().is_reliable() {
            true => contact.is_reachable(),
            false => pace.is_some() && !binding.is_removed(),
        };
        (matters && contact.depends_on_flow()).then(|| (contact.flow(), pace))
    };
    let found = bindings.all().filter_map(depends);
    found.filter(|(flow, _)| !flow.local.ip().is_unspecified())
}
