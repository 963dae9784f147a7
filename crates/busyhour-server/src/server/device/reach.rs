//! Over which connections a device is reached, and what happens to its contacts when
//! one ends.
//!
//! A contact whose connection has ended stays registered, and its watchers learn that
//! it is unreachable. The device registers again over its next connection (RFC 5626
//! §4.5), which makes the contact reachable again.

use super::device_context::DeviceContext;
use super::{Device, DeviceInner};
use crate::server::change::record::RegistrationEvent;
use busyhour::clock::Instant;
use busyhour_registrar::{Binding, BindingId, Bindings, Contact, Lease, Now, Restored};
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

    /// Marks the contacts of a flow as reachable or unreachable.
    pub(in crate::server) fn reach(&self, context: &DeviceContext, flow: Flow, is_reachable: bool) {
        let mut state = self.lock();
        self.set_reachable(context, &mut state, flow, is_reachable);
    }

    /// A contact that is reached over this flow.
    pub(in crate::server) fn contact_over(&self, flow: Flow, now: Instant) -> Option<Contact> {
        let state = self.lock();
        let mut active = state.bindings.active(now);
        let binding = active
            .find(|Binding { contact, .. }| contact.flow() == flow && contact.depends_on_flow())?;
        Some(binding.contact.clone())
    }

    /// Sets the current bindings, and enters them in their flows.
    pub(super) fn hold(
        self: &Arc<Self>,
        context: &DeviceContext,
        state: &mut DeviceInner,
        next: Bindings,
    ) {
        let before = std::mem::replace(&mut state.bindings, next);
        self.follow_flows(context, &before, &state.bindings);
    }

    /// Enters the device in the flows that it has now, and removes it from others.
    pub(super) fn follow_flows(
        self: &Arc<Self>,
        context: &DeviceContext,
        before: &Bindings,
        next: &Bindings,
    ) {
        let of = |bindings| flows(bindings, context.flows.is_probing());
        for flow in of(next).filter(|flow| of(before).all(|old| old != *flow)) {
            context.flows.enter(flow, self, context.clock.now());
        }
        for flow in of(before).filter(|flow| of(next).all(|new| new != *flow)) {
            context.flows.leave(flow, self);
        }
        if context.upstream.is_used() {
            // A lease that has run out is still in `before`.
            let had = before.all().any(|one| !one.lease.removed && is_sip(one));
            let has = next.active(context.clock.now()).any(is_sip);
            if had != has {
                context.upstream.changed(&self.aor, has);
            }
        }
        if context.push.is_used() {
            let active: Vec<_> = next.active(context.clock.now()).cloned().collect();
            context.push.registered(&self.aor, &active);
        }
    }

    /// Watchers are notified at once. A pending change was computed from the earlier
    /// bindings, so it is updated as well.
    pub(super) fn set_reachable(
        &self,
        context: &DeviceContext,
        state: &mut DeviceInner,
        flow: Flow,
        is_reachable: bool,
    ) {
        if let Some(pending) = &mut state.pending
            && let Some(bindings) = pending.draft.bindings_mut()
        {
            bindings.set_reachable(flow, is_reachable);
        }
        if !state.bindings.set_reachable(flow, is_reachable) {
            return;
        }
        if !is_reachable {
            context.flows.counters.unreachable.increment();
        }
        let event = match is_reachable {
            true => RegistrationEvent::Reachable,
            false => RegistrationEvent::Unreachable,
        };
        self.tell_registration(context, state, Some(event));
        self.publish(context, state);
    }
}

/// What a registrar behind sends here cannot go to an IAX2 telephone.
fn is_sip(binding: &Binding) -> bool {
    binding.contact.uri().starts_with("sip")
}

/// The flows that contacts depend on: live connections, and addresses that are probed.
/// Older versions stored flows with an unspecified local address; nothing ever arrives
/// on such a flow, so no contact depends on it.
fn flows(bindings: &Bindings, is_probing: bool) -> impl Iterator<Item = Flow> + '_ {
    let depends = move |binding: &&Binding| {
        let contact = &binding.contact;
        let matters = match contact.transport().is_reliable() {
            true => contact.is_reachable(),
            false => is_probing && !binding.lease.removed,
        };
        matters && contact.depends_on_flow()
    };
    let flows = bindings.all().filter(depends).map(|b| b.contact.flow());
    flows.filter(|flow| !flow.local.ip().is_unspecified())
}
