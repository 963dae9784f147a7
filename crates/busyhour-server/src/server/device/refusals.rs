//! How the requests of devices are refused or given up: counted by the part that counts
//! their kind, and answered by their protocol.

use super::{
    device_context::DeviceContext,
    device_request::{DeviceRequest, RequestId},
    removal::RemovalError,
};
use crate::server::{
    cluster::kept::kept_messages::kept_request::KeptRequest,
    sip::{inbound_request::InboundRequest, transactions::TransactionKey},
    spans::request_span::RequestSpan,
};
use busyhour_cluster::Partition;
use busyhour_iax2::RequestOutcome;
use busyhour_registrar::Refusal;
use busyhour_sip::{Flow, Message, Status};

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

    /// A change of this address was not begun, since its partition has gone. So the request waits for whoever has it next.
    pub(super) fn not_begun(&self, aor: &str, mut device_request: DeviceRequest) {
        if let DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) = &mut device_request {
            let mut span = inbound.span.take();
            if self.keep_again(aor, inbound, &mut span) {
                return;
            }
            inbound.span = span;
        }
        device_request.answered(Status::SERVICE_UNAVAILABLE);
        self.give_up_request(&device_request);
    }

    /// A change of this address was not begun. If that is so since its partition has gone, the request waits for whoever
    /// has it next, before those that came meanwhile; `false` if it has to be answered.
    pub(in crate::server) fn keep_again(
        &self,
        aor: &str,
        inbound: &InboundRequest,
        span: &mut RequestSpan,
    ) -> bool {
        let Some(kept) = &self.kept else { return false };
        if self.persistence.has_address(aor) {
            return false;
        }
        // It goes on as a new one.
        self.responder.abandon(inbound.transaction);
        let request = KeptRequest {
            known_in: 0,
            flow: inbound.flow,
            datagram: inbound.datagram().clone(),
            place: inbound.place,
            span: span.take(),
        };
        let name = inbound.transaction.number();
        match kept.put_back(Partition::of(aor), name, request) {
            Ok(()) => true,
            Err(refused) => {
                *span = refused;
                false
            }
        }
    }
}
