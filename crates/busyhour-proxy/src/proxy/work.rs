//! One step of one request: the time, what is written, and where it goes.

use super::{Actions, Edge, Event, EventKind, Outbound, Policy, ProxyStats, TransactionId};
use crate::{
    keyed_hash::{KeyedHash, Purpose},
    routing::{RequestRefusal, SESSION_SHORTEST_S},
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_sip::{Flow, HeaderName, Message, ResponseBuilder, Status};
use std::{collections::BTreeSet, hash::Hash};

/// A branch of a request, for [`transport_error`](super::Proxy::transport_error).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchId {
    pub(super) transaction: TransactionId,
    pub(super) number: u16,
}

impl BranchId {
    /// The request that it is of.
    pub fn transaction(self) -> TransactionId {
        self.transaction
    }

    /// Its number among those of the request.
    pub fn number(self) -> u16 {
        self.number
    }
}

/// A response of the proxy's own.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// 300 or more, usually; a 2xx is sent as well.
    pub status: Status,
    /// The reason phrase, if it is not the usual one.
    pub reason: Option<&'a str>,
    /// Further headers.
    pub headers: &'a [(HeaderName, &'a str)],
}

impl From<Status> for Answer<'_> {
    fn from(status: Status) -> Self {
        Self {
            status,
            reason: None,
            headers: &[],
        }
    }
}

/// What all requests of a table share.
#[derive(Debug)]
pub(super) struct Shared<E> {
    pub policy: Policy,
    pub edge: E,
    pub stats: ProxyStats,
    pool: BufferPool,
    branches: KeyedHash,
    tags: KeyedHash,
    /// Where messages are written before their length is known.
    scratch: Vec<u8>,
    /// The same for our Via and Record-Route.
    pub via: String,
    pub record_route: String,
    /// Connections that branches have been sent on: their number, and the slot of the request.
    pub connections: BTreeSet<(u32, u32)>,
}

/// One step.
pub(super) struct Work<'w, E> {
    pub now: Instant,
    pub id: TransactionId,
    pub shared: &'w mut Shared<E>,
    pub out: &'w mut Actions,
}

impl<E> Shared<E> {
    pub fn new((policy, edge): (Policy, E), pool: BufferPool, seed: u64) -> Self {
        Self {
            policy,
            edge,
            pool,
            branches: KeyedHash::new(seed, Purpose::Branches),
            tags: KeyedHash::new(seed, Purpose::Tags),
            stats: ProxyStats::default(),
            scratch: Vec::new(),
            via: String::new(),
            record_route: String::new(),
            connections: BTreeSet::new(),
        }
    }

    /// What the branch parameter of a branch has that nobody can guess. One for each branch: the
    /// telephones of a fork cannot answer for one another.
    pub fn branch_nonce(&self, id: TransactionId, number: u16) -> u64 {
        self.branches.of((id.nonce, number))
    }

    /// The tag of our own responses to what this names: the numbers of a transaction, or the key
    /// of a request that has none.
    pub fn tag(&self, name: impl Hash) -> String {
        format!("bh{:016x}", self.tags.of(name))
    }

    /// A branch of the request in this slot uses the flow; datagrams have no connection.
    pub fn note_flow(&mut self, flow: Flow, slot: u32) {
        if flow.connection != 0 {
            self.connections.insert((flow.connection, slot));
        }
    }

    /// The message that `write` writes; `None` if there is no memory for it.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Option<Buffer> {
        self.scratch.clear();
        write(&mut self.scratch);
        let message = self.pool.copy_from(&self.scratch).ok();
        self.stats.no_buffer += u64::from(message.is_none());
        message
    }

    /// A response of our own to a request that came on `from`.
    pub fn write_answer(
        &mut self,
        request: &Message<'_>,
        from: Flow,
        answer: &Answer<'_>,
        tag: &str,
    ) -> Option<Buffer> {
        let reason = answer.reason.unwrap_or(answer.status.reason());
        let is_trying = answer.status == Status::TRYING;
        self.write(|out| {
            let (status, source) = (answer.status, Some(from.remote));
            let builder = ResponseBuilder::with_reason(out, request, status, reason, source);
            let builder = match is_trying {
                true => builder.copy(HeaderName::Timestamp),
                false => builder.to_tag(tag),
            };
            let headers = answer.headers.iter();
            let builder = headers.fold(builder, |builder, (name, value)| {
                builder.header(*name, value)
            });
            builder.finish();
        })
    }

    /// The response to a request that does not begin a transaction.
    pub fn write_refusal(
        &mut self,
        request: &Message<'_>,
        from: Flow,
        refusal: &RequestRefusal,
        tag: &str,
    ) -> Option<Buffer> {
        let shortest = SESSION_SHORTEST_S.to_string();
        let retry_after = self.policy.retry_after_s.to_string();
        let headers: &[(HeaderName, &str)] = match refusal {
            RequestRefusal::BadExtension(options) => &[(HeaderName::Unsupported, options)],
            RequestRefusal::SessionTooShort => &[(HeaderName::MinSe, &shortest)],
            RequestRefusal::Full => &[(HeaderName::RetryAfter, &retry_after)],
            _ => &[],
        };
        let reason = refusal.to_string();
        let answer = Answer {
            status: refusal.status(),
            reason: Some(&reason),
            headers,
        };
        self.write_answer(request, from, &answer, tag)
    }
}

impl<E: Edge> Work<'_, E> {
    /// Sends a message upstream, or a request without a branch.
    pub fn send(&mut self, flow: Flow, datagram: Buffer) {
        self.out.send(Outbound {
            flow,
            datagram,
            may_connect: false,
            branch: None,
        });
    }

    pub fn note(&mut self, kind: EventKind) {
        let transaction = self.id;
        self.out.note(Event { transaction, kind });
    }
}
