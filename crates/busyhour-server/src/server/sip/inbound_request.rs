//! A SIP request between the network's threads and its device or watcher.

use super::{receive::Request, transactions::TransactionKey};
use crate::server::spans::request_span::RequestSpan;
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_cluster::KeptPlace;
use busyhour_sip::{Flow, Message, MessageIndex};

/// A SIP request on its way to its device or watcher. It was parsed on arrival; the
/// offsets travel with the buffer.
#[derive(Debug)]
pub(in crate::server) struct InboundRequest {
    datagram: Buffer,
    index: MessageIndex,
    pub(in crate::server) flow: Flow,
    /// The port to which the answer goes, at the address that the request came from.
    answer_port: u16,
    pub(in crate::server) transaction: TransactionKey,
    pub(in crate::server) arrived_at: Instant,
    /// Among those that wait for its partition, if it has to.
    pub(in crate::server) place: KeptPlace,
    pub(in crate::server) span: RequestSpan,
}

impl InboundRequest {
    pub(in crate::server) fn new(request: &Request<'_>, arrived_at: Instant) -> Self {
        Self {
            datagram: request.datagram.clone(),
            index: request.message.index().clone(),
            flow: request.flow,
            answer_port: request.answer_flow().remote.port(),
            transaction: request.transaction,
            arrived_at,
            place: request.place,
            span: request.take_span(),
        }
    }

    /// A copy, of which the collector is not told.
    pub(in crate::server) fn copy(&self) -> Self {
        Self {
            datagram: self.datagram.clone(),
            index: self.index.clone(),
            span: RequestSpan::default(),
            ..*self
        }
    }

    /// Over which the answer goes (RFC 3261 §18.2.2, RFC 3581 §4).
    pub(in crate::server) fn answer_flow(&self) -> Flow {
        let mut flow = self.flow;
        flow.remote.set_port(self.answer_port);
        flow
    }

    pub(in crate::server) fn datagram(&self) -> &Buffer {
        &self.datagram
    }

    pub(in crate::server) fn message(&self) -> Message<'_> {
        self.index.message(&self.datagram)
    }
}
