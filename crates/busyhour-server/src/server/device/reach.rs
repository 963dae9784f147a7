//! Over which connections a device is reached, and what becomes of its contacts
//! when one ends.
//!
//! A contact whose connection has ended stays registered, and its watchers are
//! told that it cannot be reached: the device registers again over its next
//! connection (RFC 5626 §4.5), and that brings the contact back.

use super::{Device, Draft, State};
use crate::{
    registrar::{Binding, Bindings, Flow},
    server::core::Core,
};
use std::sync::Arc;

impl Device {
    /// A connection has ended over which it registered.
    pub(in crate::server) fn flow_failed(&self, core: &Core, flow: Flow) {
        let mut state = self.lock();
        self.lose_flow(core, &mut state, flow);
    }

    /// Takes in what holds from now on, and follows it over its connections.
    pub(super) fn hold(self: &Arc<Self>, core: &Core, state: &mut State, next: Bindings) {
        let before = std::mem::replace(&mut state.bindings, next);
        self.follow_flows(core, &before, &state.bindings);
    }

    /// Follows the device over the connections that it has, and no others.
    pub(super) fn follow_flows(self: &Arc<Self>, core: &Core, before: &Bindings, next: &Bindings) {
        for flow in flows(next).filter(|flow| flows(before).all(|old| old != *flow)) {
            core.flows().enter(flow, self);
        }
        for flow in flows(before).filter(|flow| flows(next).all(|new| new != *flow)) {
            core.flows().leave(flow, self);
        }
    }

    /// The watchers are told at once. What is on its way to the disk was made of
    /// what held before, so it has to know as well.
    pub(super) fn lose_flow(&self, core: &Core, state: &mut State, flow: Flow) {
        if let Some(pending) = &mut state.pending
            && let Draft::Registration(draft) = &mut pending.draft
        {
            draft.bindings.set_reachable(flow, false);
        }
        if state.bindings.set_reachable(flow, false) {
            core.counters().registrar.unreachable.increment();
            self.publish(core, state);
        }
    }
}

/// The connections that contacts depend on.
fn flows(bindings: &Bindings) -> impl Iterator<Item = Flow> + '_ {
    let depends = |binding: &&Binding| {
        let contact = &binding.contact;
        contact.transport().is_reliable() && contact.is_reachable() && contact.depends_on_flow()
    };
    bindings.all().filter(depends).map(|b| b.contact.flow())
}
