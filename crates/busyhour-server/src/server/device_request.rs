//! What devices and watchers take in their turn.

use super::{core::Core, receive::Request, transactions::Key};
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_iax2::{CallId, RequestOutcome};
use busyhour_registrar::{Iax2Registration, Refusal};
use busyhour_sip::{Flow, Message, MessageIndex};
use std::sync::Arc;

/// A SIP request on its way to its device or watcher. It was parsed when it came in:
/// what was found travels with the buffer.
#[derive(Debug, Clone)]
pub(super) struct InboundRequest {
    datagram: Buffer,
    index: MessageIndex,
    pub(super) flow: Flow,
    pub(super) transaction: Key,
    pub(super) arrived_at: Instant,
}

/// A registration by IAX2 on its way to its device.
#[derive(Debug)]
pub(super) struct Iax2InboundRequest {
    pub(super) registration: Iax2Registration,
    pub(super) call: CallId,
    pub(super) arrived_at: Instant,
}

/// A registration by either protocol, or a PUBLISH.
#[derive(Debug)]
pub(super) enum DeviceRequest {
    Sip(Box<InboundRequest>),
    Publish(Box<InboundRequest>),
    Iax2(Box<Iax2InboundRequest>),
}

/// Names a request after it has gone.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestId {
    Sip(Key),
    Iax2(CallId),
}

impl InboundRequest {
    pub(super) fn new(request: &Request<'_>, arrived_at: Instant) -> Self {
        Self {
            datagram: request.datagram.clone(),
            index: request.message.index().clone(),
            flow: request.flow,
            transaction: request.transaction,
            arrived_at,
        }
    }

    pub(super) fn message(&self) -> Message<'_> {
        self.index.message(&self.datagram)
    }
}

impl DeviceRequest {
    pub(super) fn id(&self) -> RequestId {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => RequestId::Sip(inbound.transaction),
            Self::Iax2(inbound) => RequestId::Iax2(inbound.call),
        }
    }

    /// Which way it came.
    pub(super) fn flow(&self) -> Flow {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => inbound.flow,
            Self::Iax2(inbound) => inbound.registration.flow,
        }
    }

    /// What it speaks, as the log has it.
    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Sip(_) | Self::Publish(_) => "sip",
            Self::Iax2(_) => "iax2",
        }
    }

    pub(super) fn arrived_at(&self) -> Instant {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => inbound.arrived_at,
            Self::Iax2(inbound) => inbound.arrived_at,
        }
    }
}

impl Core {
    /// Gives a request up that finds its device's queue full.
    pub(super) fn drop_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        self.traffic().dropped_device_queue.increment();
        self.reject_or_drop_request(device_request, &self.responder().overloaded());
    }

    /// Gives a request up that finds its watcher's queue full.
    pub(super) fn drop_arrival(&self, inbound: &InboundRequest) {
        self.traffic().dropped_device_queue.increment();
        self.reject_or_drop(inbound, &self.responder().overloaded());
    }

    /// Gives a request up for want of room. A call of IAX2 is told to try again.
    pub(super) fn reject_or_drop_request(
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

    /// Refuses a request whose account has gone since it was admitted.
    pub(super) fn refuse_request(self: &Arc<Self>, device_request: &DeviceRequest) {
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
    pub(super) fn give_up_request(self: &Arc<Self>, device_request: &DeviceRequest) {
        match device_request {
            DeviceRequest::Sip(inbound) | DeviceRequest::Publish(inbound) => {
                self.fail_arrival(inbound)
            }
            DeviceRequest::Iax2(_) => self.abandon_request(device_request.id()),
        }
    }

    /// Answers a request that the store did not take.
    pub(super) fn fail_arrival(&self, inbound: &InboundRequest) {
        let (message, refusal) = (inbound.message(), self.responder().overloaded());
        self.responder()
            .fail(&message, inbound.flow, inbound.transaction, &refusal);
    }

    /// Gives a request up for want of room. Over datagrams silence is best: it
    /// costs nothing, and the client sends the request again. Over a connection
    /// nobody does (RFC 3261 §17.1.2.2), so there the client is told when to.
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
    pub(super) fn abandon_request(self: &Arc<Self>, device_request: RequestId) {
        match device_request {
            RequestId::Sip(transaction) => self.responder().abandon(transaction),
            RequestId::Iax2(call) => self.conclude_iax2(&call, &RequestOutcome::Failed),
        }
    }
}
