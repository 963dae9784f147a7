//! How the requests of devices are refused or given up: counted by the part that counts
//! their kind, and answered by their protocol.

use super::{
    Device, DeviceInner,
    device_context::DeviceContext,
    device_request::{DeviceRequest, RequestId},
    removal::RemovalError,
};
use crate::server::sip::{inbound_request::InboundRequest, transactions::TransactionKey};
use busyhour_cluster::Partition;
use busyhour_iax2::RequestOutcome;
use busyhour_registrar::Refusal;
use busyhour_sip::{Flow, Message};
use std::sync::Arc;

impl DeviceContext {
    /// A REGISTER is refused: counted, noted, logged and answered.
    pub(in crate::server) fn refuse_registration(
        &self,
        request: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        refusal: &Refusal,
    ) {
        self.log.refused(request, flow, refusal);
        self.responder.refuse(request, flow, transaction, refusal);
    }

    /// Refuses or drops a request whose device's queue is full.
    pub(super) fn drop_request(&self, device_request: &DeviceRequest) {
        self.responder.traffic.dropped_device_queue.increment();
        self.reject_or_drop_request(device_request, &self.responder.overloaded());
    }

    /// Refuses or drops a request for lack of room. An IAX2 call is told to try again.
    pub(super) fn reject_or_drop_request(&self, device_request: &DeviceRequest, refusal: &Refusal) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.responder.reject_or_drop(inbound, refusal)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
            DeviceRequest::Remove(removal) => {
                self.conclude_removal(removal, Err(RemovalError::Busy));
            }
        }
    }

    /// Refuses a request whose account was removed after the request was admitted.
    pub(super) fn refuse_request(&self, device_request: &DeviceRequest) {
        let refusal = Refusal::Forbidden("No Such Account Any More");
        if let DeviceRequest::Remove(removal) = device_request {
            // Its contacts end with the account.
            return self.conclude_removal(removal, Ok(0));
        }
        let (DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound)) = device_request else {
            self.log.counters.forbidden.increment();
            if let RequestId::Iax2(call) = device_request.id() {
                self.iax2.conclude(&call, &RequestOutcome::Forbidden);
            }
            return;
        };
        let message = inbound.message();
        let (flow, transaction) = (inbound.flow, inbound.transaction);
        match device_request {
            DeviceRequest::Publish(_) => {
                self.compositor
                    .refuse(&message, flow, transaction, &refusal);
            }
            _ => self.refuse_registration(&message, flow, transaction, &refusal),
        }
    }

    /// Answers a request that the store did not take, or has no room for.
    pub(super) fn give_up_request(&self, device_request: &DeviceRequest) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.responder.fail(inbound)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
            DeviceRequest::Remove(removal) => {
                self.conclude_removal(removal, Err(RemovalError::Store));
            }
        }
    }

    /// Gives a request up.
    pub(super) fn abandon_request(&self, device_request: RequestId) {
        match device_request {
            RequestId::Sip(transaction) => self.responder.abandon(transaction),
            RequestId::Iax2(call) => self.iax2.conclude(&call, &RequestOutcome::Failed),
            // Its listener learns that it was dropped.
            RequestId::Remove => {}
        }
    }

    /// A change of this address was certainly not made. If that is so since its partition has gone, the request waits for whoever
    /// has it next; `false` if it has to be answered.
    pub(in crate::server) fn keep_again(&self, aor: &str, inbound: &InboundRequest) -> bool {
        let Some(kept) = &self.kept else { return false };
        if self.persistence.has_address(aor) {
            return false;
        }
        // It goes on as a new one.
        self.responder.abandon(inbound.transaction);
        let name = inbound.transaction.number();
        let message = (inbound.flow, inbound.datagram());
        kept.keep(Partition::of(aor), name, message, 0)
    }
}

impl Device {
    /// The change was not begun, and if that is so since the partition has gone, the request waits for whoever has it next.
    pub(super) fn not_begun(&self, context: &Arc<DeviceContext>, state: &mut DeviceInner) {
        let request = state.pending.as_ref().map(|it| &it.device_request);
        if let Some(DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound)) = request
            && context.keep_again(&self.aor, inbound)
        {
            if let Some(pending) = state.pending.take() {
                (context.persistence).discharge(self.holder, pending.change_count);
            }
            return;
        }
        self.fail(context, state);
    }
}
