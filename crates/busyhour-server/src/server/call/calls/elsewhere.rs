//! Calls that other nodes of a cluster carry, or have carried: a dialog is to have one carrier.

use super::{Calls, StepActions};
use busyhour_proxy::Inbound;
use busyhour_sip::Message;
use std::sync::Arc;

/// What became of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum ResponseStep {
    /// It answers nothing of ours.
    Stray,
    Taken,
    /// By it a dialog is known and carried here from now on, whose route names this node; 0 without a cluster.
    Adopted(u16),
}

impl Calls {
    /// Takes a response.
    pub(in crate::server) fn response(self: &Arc<Self>, inbound: &Inbound<'_, '_>) -> ResponseStep {
        let now = self.clock.now();
        let with_adopted = |is_known, out: &StepActions| (is_known, out.adopted);
        let shard = self.shard_of(inbound.message);
        let taken = self.step_then(
            shard,
            Some(inbound.message),
            |state, out| {
                let answered = (state.probing).answered(inbound.message, inbound.flow, &self.edge);
                if let Some((probe, outcome)) = answered {
                    state.dialogs.probed(now, probe, outcome, &mut out.dialogs);
                    return true;
                }
                let is_known = state.proxy.receive_response(now, inbound, &mut out.proxy);
                if is_known {
                    self.end_branch(&mut state.media, inbound.message, out);
                }
                is_known
            },
            with_adopted,
        );
        match taken {
            (_, Some(carrier)) => ResponseStep::Adopted(carrier),
            (true, None) => ResponseStep::Taken,
            (false, None) => ResponseStep::Stray,
        }
    }

    /// Another node has forwarded this BYE, whose dialog may be one of ours.
    pub(in crate::server) fn ended_elsewhere(self: &Arc<Self>, bye: &[u8]) {
        let Ok(bye) = Message::parse(bye) else { return };
        let now = self.clock.now();
        self.step(&bye, |state, out| {
            state.dialogs.ended_elsewhere(now, &bye, &mut out.dialogs);
        });
    }

    /// Whether the dialog of this response is carried here.
    pub(in crate::server) fn carries(&self, response: &Message<'_>) -> bool {
        let shard = &self.shards[self.shard_of(response)];
        shard.lock().dialogs.carries(response)
    }

    /// Another node, which has precedence, carries the dialog of this response. Its media go on.
    pub(in crate::server) fn adopted_elsewhere(self: &Arc<Self>, response: &Message<'_>) {
        let now = self.clock.now();
        self.step(response, |state, out| {
            if let Ok(call_id) = response.call_id() {
                let relays = self.relays.relays();
                state.media.given_up(call_id, relays, &mut out.media);
            }
            let dialogs = &mut state.dialogs;
            dialogs.adopted_elsewhere(now, response, &mut out.dialogs);
        });
    }
}
