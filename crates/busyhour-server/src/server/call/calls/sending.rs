//! Messages of calls on their way out, after the step that wrote them.

use super::Calls;
use crate::server::call::step_actions::StepActions;
use busyhour_media::{Outcome, Ready};
use busyhour_proxy::{BranchId, Outbound};
use std::sync::Arc;

impl Calls {
    /// Sends what a step wrote; a message that cannot be sent is one more event of its
    /// request.
    pub(super) fn send(self: &Arc<Self>, index: usize, out: &mut StepActions) {
        for failure in out.way_failures.drain(..) {
            self.devices.log.way_failed(&failure);
        }
        for (flow, probe) in out.probes.drain(..) {
            self.responder.forward(flow, probe);
        }
        for (relay, command) in out.media.commands.drain(..) {
            self.relays.send(relay, &command);
        }
        let mut failed = Vec::new();
        let mut released = Vec::new();
        for ready in out.media.ready.drain(..) {
            match self.released(ready) {
                Ok(outbound) => released.push(outbound),
                Err(branch) => failed.extend(branch),
            }
        }
        let leaving = released.into_iter().chain(out.leaving.drain(..));
        for outbound in leaving.chain(out.proxy.take_outbound()) {
            let flow = self.connected(index, &outbound);
            let is_sent = flow.is_some_and(|flow| self.responder.forward(flow, outbound.datagram));
            if let (false, Some(branch)) = (is_sent, outbound.branch) {
                failed.push(branch);
            }
        }
        for replaced in std::mem::take(&mut out.dialogs.replaced) {
            let index = self.shard_of_name(&replaced.call_id);
            let now = self.clock.now();
            self.step_in(index, None, |state, out| {
                state.dialogs.replace(now, &replaced, &mut out.dialogs);
            });
        }
        for (transaction, lookup) in std::mem::take(&mut out.lookups) {
            self.look_up(index, transaction, lookup);
        }
        for branch in failed {
            let now = self.clock.now();
            self.step_in(index, None, |state, out| {
                state.proxy.transport_error(now, branch, &mut out.proxy);
            });
        }
    }

    /// What a relay was asked for can leave.
    ///
    /// # Errors
    ///
    /// If it does not; then which branch has failed, if it was a request.
    fn released(&self, ready: Ready<Outbound>) -> Result<Outbound, Option<BranchId>> {
        let Ready { ticket, outcome } = ready;
        match outcome {
            Outcome::AsItCame => Ok(ticket),
            Outcome::Refused => Err(ticket.branch),
            Outcome::Rewritten(bytes) => {
                let written = self.responder.write(|out| out.extend_from_slice(&bytes));
                match written {
                    Some(datagram) => Ok(Outbound { datagram, ..ticket }),
                    None => Err(ticket.branch),
                }
            }
        }
    }
}
