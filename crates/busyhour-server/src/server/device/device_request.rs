//! What devices and watchers take in their turn.

use crate::server::{
    core::Core,
    sip::{receive::Request, transactions::TransactionKey},
};
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_iax2::{CallId, RequestOutcome};
use busyhour_registrar::{Iax2Registration, Refusal};
use busyhour_sip::{Flow, Message, MessageIndex};
use std::sync::Arc;

/// A SIP request on its way to its device or watcher. It was parsed on arrival; the
/// offsets travel with the buffer.
#[derive(Debug, Clone)]
pub(in crate::server) struct InboundRequest {
    datagram: Buffer,
    index: MessageIndex,
    pub(in crate::server) flow: Flow,
    pub(in crate::server) transaction: TransactionKey,
    pub(in crate::server) arrived_at: Instant,
}

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

impl InboundRequest {
    pub(in crate::server) fn new(request: &Request<'_>, arrived_at: Instant) -> Self {
        Self {
            datagram: request.datagram.clone(),
            index: request.message.index().clone(),
            flow: request.flow,
            transaction: request.transaction,
            arrived_at,
        }
    }

    pub(in crate::server) fn message(&self) -> Message<'_> {
        self.index.message(&self.datagram)
    }
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

    /// Refuses or drops a request whose watcher's queue is full.
    pub(in crate::server) fn drop_arrival(&self, inbound: &InboundRequest) {
        self.traffic().dropped_device_queue.increment();
        self.reject_or_drop(inbound, &self.responder().overloaded());
    }

    /// Refuses or drops a request for lack of room. An IAX2 call is told to try again.
    pub(in crate::server) fn reject_or_drop_request(
        self: &Arc<Self>,
        device_request: &DeviceRequest,
        refusal: &Refusal,
    ) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.reject_or_drop(inbound, refusal)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
        }
    }

    /// Refuses a request whose account was removed after the request was admitted.
    pub(in crate::server) fn refuse_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        let refusal = Refusal::Forbidden("No Such Account Any More");
        let (DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound)) = device_request else {
            self.counters().registrar.forbidden.increment();
            if let RequestId::Iax2(call) = device_request.id() {
                self.conclude_iax2(&call, &RequestOutcome::Forbidden);
            }
            return;
        };
        let message = inbound.message();
        match device_request {
            DeviceRequest::Publish(_) => self.refuse_publication(&message, inbound, &refusal),
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
                self.fail_arrival(inbound)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
        }
    }

    /// Answers a request that the store did not take.
    pub(in crate::server) fn fail_arrival(&self, inbound: &InboundRequest) {
        let (message, refusal) = (inbound.message(), self.responder().overloaded());
        self.responder()
            .fail(&message, inbound.flow, inbound.transaction, &refusal);
    }

    /// Refuses or drops a request for lack of room. Over datagrams no answer is best:
    /// it costs nothing, and the client retransmits. Over a connection clients do not
    /// retransmit (RFC 3261 §17.1.2.2), so the answer says when to try again.
    fn reject_or_drop(&self, inbound: &InboundRequest, refusal: &Refusal) {
        match inbound.flow.transport.is_reliable() {
            true => {
                let message = inbound.message();
                self.responder()
                    .refuse(&message, inbound.flow, inbound.transaction, refusal);
            }
            false => self.responder().abandon(inbound.transaction),
        }
    }

    /// Gives a request up.
    pub(in crate::server) fn abandon_request(self: &Arc<Self>, device_request: RequestId) {
        match device_request {
            RequestId::Sip(transaction) => self.responder().abandon(transaction),
            RequestId::Iax2(call) => self.conclude_iax2(&call, &RequestOutcome::Failed),
        }
    }
}
