//! Calls that other nodes of a cluster carry, or have carried: a dialog is to have one carrier.

use super::{Calls, StepActions};
use busyhour::buffer::Buffer;
use busyhour_proxy::{
    Inbound,
    dialogs::{Carried, Party, Role},
};
use busyhour_sip::Message;
use std::sync::Arc;

/// What became of a response.
pub(in crate::server) enum ResponseStep {
    /// It answers nothing of ours.
    Stray,
    Taken,
    /// It answers this request, by which its dialog is known from now on: other nodes of the cluster have to be told.
    Adopted(Buffer),
}

impl Calls {
    /// Takes a response.
    pub(in crate::server) fn response(self: &Arc<Self>, inbound: &Inbound<'_, '_>) -> ResponseStep {
        let now = self.clock.now();
        let step = |is_known, out: &mut StepActions| match (out.adopted.take(), is_known) {
            (Some(request), _) => ResponseStep::Adopted(request),
            (None, true) => ResponseStep::Taken,
            (None, false) => ResponseStep::Stray,
        };
        let shard = self.shard_of(inbound.message);
        self.step_then(
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
            step,
        )
    }

    /// Another node has forwarded this BYE between these parties, whose dialog may be one of ours.
    pub(in crate::server) fn ended_elsewhere(
        self: &Arc<Self>,
        bye: &Message<'_>,
        (parties, sender): (&[Party; 2], Role),
    ) {
        let now = self.clock.now();
        self.step(bye, |state, out| {
            let dialogs = &mut state.dialogs;
            dialogs.ended_elsewhere(now, bye, (parties, sender), &mut out.dialogs);
        });
    }

    /// How the dialog of a request between these parties is carried here, if it is.
    pub(in crate::server) fn carried(
        &self,
        request: &Message<'_>,
        parties: &[Party; 2],
    ) -> Option<Carried> {
        let shard = &self.shards[self.shard_of(request)];
        shard.lock().dialogs.carried(request, parties)
    }

    /// Another node keeps the dialog of this request between these parties. Its media go on.
    pub(in crate::server) fn hand_over(
        self: &Arc<Self>,
        request: &Message<'_>,
        parties: &[Party; 2],
    ) {
        let now = self.clock.now();
        self.step(request, |state, out| {
            let dialogs = &mut state.dialogs;
            let is_over = dialogs.hand_over(now, request, parties, &mut out.dialogs);
            if let (true, Ok(call_id)) = (is_over, request.call_id())
                && !dialogs.lasts(call_id)
            {
                let relays = self.relays.relays();
                state.media.handed_over(call_id, relays, &mut out.media);
            }
        });
    }
}
