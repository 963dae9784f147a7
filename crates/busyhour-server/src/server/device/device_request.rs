//! What devices take in their turn.

use crate::server::{
    core::Core,
    sip::{inbound_request::InboundRequest, transactions::TransactionKey},
};
use busyhour::clock::Instant;
use busyhour_iax2::{CallId, RequestOutcome};
use busyhour_registrar::{Iax2Registration, Refusal};
use busyhour_sip::Flow;
use std::sync::Arc;

/// A registration by IAX2 on its way to its device.
#[derive(Debug)]
pub(in crate::server) struct Iax2InboundRequest {
    pub(in crate::server) registration: Iax2Registration,
    pub(in crate::server) call: CallId,
    pub(in crate::server) arrived_at: Instant,
}

/// A registration by either protocol, or a PUBLISH.
#[derive(Debug)]
pub(in crate::server) enum DeviceRequest {
    Sip(Box<InboundRequest>),
    Publish(Box<InboundRequest>),
    Iax2(Box<Iax2InboundRequest>),
}

/// Names a request after it has gone.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) enum RequestId {
    Sip(TransactionKey),
    Iax2(CallId),
}

impl DeviceRequest {
    pub(in crate::server) fn id(&self) -> RequestId {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => RequestId::Sip(inbound.transaction),
            Self::Iax2(inbound) => RequestId::Iax2(inbound.call),
        }
    }

    /// Which way it came.
    pub(in crate::server) fn flow(&self) -> Flow {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => inbound.flow,
            Self::Iax2(inbound) => inbound.registration.flow,
        }
    }

    /// Its protocol, as the log names it.
    pub(in crate::server) fn protocol(&self) -> &'static str {
        match self {
            Self::Sip(_) | Self::Publish(_) => "sip",
            Self::Iax2(_) => "iax2",
        }
    }

    pub(in crate::server) fn arrived_at(&self) -> Instant {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => inbound.arrived_at,
            Self::Iax2(inbound) => inbound.arrived_at,
        }
    }
}

impl Core {
    /// Refuses or drops a request whose device's queue is full.
    pub(in crate::server) fn drop_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        self.traffic().dropped_device_queue.increment();
        self.reject_or_drop_request(device_request, &self.responder().overloaded());
    }

    /// Refuses or drops a request for lack of room. An IAX2 call is told to try again.
    pub(in crate::server) fn reject_or_drop_request(
        self: &Arc<Self>,
        device_request: &DeviceRequest,
        refusal: &Refusal,
    ) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.responder().reject_or_drop(inbound, refusal)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
        }
    }

    /// Refuses a request whose account was removed after the request was admitted.
    pub(in crate::server) fn refuse_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        let refusal = Refusal::Forbidden("No Such Account Any More");
        let (DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound)) = device_request else {
            self.log().counters.forbidden.increment();
            if let RequestId::Iax2(call) = device_request.id() {
                self.iax2().conclude(&call, &RequestOutcome::Forbidden);
            }
            return;
        };
        let message = inbound.message();
        match device_request {
            DeviceRequest::Publish(_) => {
                let (flow, transaction) = (inbound.flow, inbound.transaction);
                (self.compositor()).refuse(&message, flow, transaction, &refusal);
            }
            _ => {
                let (flow, transaction) = (inbound.flow, inbound.transaction);
                self.refuse_registration(&message, flow, transaction, &refusal);
            }
        }
    }

    /// Answers a request that the store did not take, or has no room for.
    pub(in crate::server) fn give_up_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.responder().fail(inbound)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
        }
    }

    /// Gives a request up.
    pub(in crate::server) fn abandon_request(self: &Arc<Self>, device_request: RequestId) {
        match device_request {
            RequestId::Sip(transaction) => self.responder().abandon(transaction),
            RequestId::Iax2(call) => self.iax2().conclude(&call, &RequestOutcome::Failed),
        }
    }
}
