//! Over which connections a device is reached, and what becomes of its contacts
//! when one ends.
//!
//! A contact whose connection has ended stays registered, and its watchers are
//! told that it cannot be reached: the device registers again over its next
//! connection (RFC 5626 §4.5), and that brings the contact back.

use super::{Device, Draft, State};
use crate::server::core::Core;
use busyhour_registrar::{Binding, BindingId, Bindings, Contact, Lease, Now, Restored};
use busyhour_sip::Flow;
use std::sync::Arc;

impl Device {
    /// Takes a stored binding back, before the server serves; `false` when it is over.
    pub(in crate::server) fn restore(
        self: &Arc<Self>,
        id: BindingId,
        contact: Contact,
        lease: Lease,
        at: Now,
    ) -> Restored {
        let mut state = self.lock();
        let before = state.bindings.clone();
        let restored = state.bindings.restore(id, contact, lease, at);
        if let Some(core) = self.core.upgrade() {
            self.follow_flows(&core, &before, &state.bindings);
        }
        restored
    }

    /// What came over a flow can be reached from now on, or no longer.
    pub(in crate::server) fn reach(&self, core: &Core, flow: Flow, is_reachable: bool) {
        let mut state = self.lock();
        self.set_reachable(core, &mut state, flow, is_reachable);
    }

    /// A contact that is reached over this flow.
    pub(in crate::server) fn contact_over(&self, flow: Flow) -> Option<Contact> {
        let state = self.lock();
        let mut active = state.bindings.active(self.core.upgrade()?.now());
        let binding = active
            .find(|Binding { contact, .. }| contact.flow() == flow && contact.depends_on_flow())?;
        Some(binding.contact.clone())
    }

    /// Takes in what holds from now on, and follows it over its connections.
    pub(super) fn hold(self: &Arc<Self>, core: &Core, state: &mut State, next: Bindings) {
        let before = std::mem::replace(&mut state.bindings, next);
        self.follow_flows(core, &before, &state.bindings);
    }

    /// Follows the device over the connections that it has, and no others.
    pub(super) fn follow_flows(self: &Arc<Self>, core: &Core, before: &Bindings, next: &Bindings) {
        let of = |bindings| flows(bindings, core.flows().is_probing());
        for flow in of(next).filter(|flow| of(before).all(|old| old != *flow)) {
            core.flows().enter(flow, self, core.now());
        }
        for flow in of(before).filter(|flow| of(next).all(|new| new != *flow)) {
            core.flows().leave(flow, self);
        }
    }

    /// The watchers are told at once. What is on its way to the disk was made of
    /// what held before, so it has to know as well.
    pub(super) fn set_reachable(
        &self,
        core: &Core,
        state: &mut State,
        flow: Flow,
        is_reachable: bool,
    ) {
        if let Some(pending) = &mut state.pending
            && let Draft::Registration(draft) = &mut pending.draft
        {
            draft.bindings.set_reachable(flow, is_reachable);
        }
        if !state.bindings.set_reachable(flow, is_reachable) {
            return;
        }
        if !is_reachable {
            core.counters().registrar.unreachable.increment();
        }
        self.publish(core, state);
    }
}

/// The flows that contacts depend on: connections that live, and the addresses of
/// those who are asked. Nothing ever comes over a flow whose local address is
/// unspecified, as older versions have stored them, so none depends on that.
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
