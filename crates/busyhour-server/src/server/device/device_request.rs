//! What devices take in their turn.

use super::removal::Removal;
use crate::server::{
    sip::{inbound_request::InboundRequest, transactions::TransactionKey},
    spans::request_span::RequestSpan,
};
use busyhour::clock::Instant;
use busyhour_iax2::CallId;
use busyhour_registrar::Iax2Registration;
use busyhour_sip::{Flow, Status};

/// A registration by IAX2 on its way to its device.
#[derive(Debug)]
pub(in crate::server) struct Iax2InboundRequest {
    pub(in crate::server) registration: Iax2Registration,
    pub(in crate::server) call: CallId,
    pub(in crate::server) arrived_at: Instant,
    pub(in crate::server) span: RequestSpan,
}

/// A registration by either protocol, a PUBLISH, or the removal of contacts by an operator.
#[derive(Debug)]
pub(in crate::server) enum DeviceRequest {
    Sip(Box<InboundRequest>),
    Publish(Box<InboundRequest>),
    Iax2(Box<Iax2InboundRequest>),
    Remove(Box<Removal>),
}

/// Names a request after it has gone.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) enum RequestId {
    Sip(TransactionKey),
    Iax2(CallId),
    Remove,
}

impl DeviceRequest {
    pub(in crate::server) fn id(&self) -> RequestId {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => RequestId::Sip(inbound.transaction),
            Self::Iax2(inbound) => RequestId::Iax2(inbound.call),
            Self::Remove(_) => RequestId::Remove,
        }
    }

    /// Which way it came, and by which protocol, as the log names it; `None` for what no
    /// device has sent.
    pub(in crate::server) fn way(&self) -> Option<(Flow, &'static str)> {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => Some((inbound.flow, "sip")),
            Self::Iax2(inbound) => Some((inbound.registration.flow, "iax2")),
            Self::Remove(_) => None,
        }
    }

    /// Another part takes it.
    pub(in crate::server) fn step(&mut self, name: &'static str) {
        if let Some(span) = self.span() {
            span.step(name);
        }
    }

    /// Its final response leaves.
    pub(in crate::server) fn answered(&mut self, status: Status) {
        if let Some(span) = self.span() {
            span.answered(status.code());
        }
    }

    fn span(&mut self) -> Option<&mut RequestSpan> {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => Some(&mut inbound.span),
            Self::Iax2(inbound) => Some(&mut inbound.span),
            Self::Remove(_) => None,
        }
    }

    pub(in crate::server) fn arrived_at(&self) -> Instant {
        match self {
            Self::Sip(inbound) | Self::Publish(inbound) => inbound.arrived_at,
            Self::Iax2(inbound) => inbound.arrived_at,
            Self::Remove(removal) => removal.arrived_at,
        }
    }
}
