//! Either server transaction.

use super::{TransactionTimers, invite_server::InviteServer, non_invite_server::NonInviteServer};
use busyhour::clock::Instant;

/// A request that was received.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerTransaction {
    Invite(InviteServer),
    NonInvite(NonInviteServer),
}

/// What a server transaction does when time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum ServerTimeout {
    Nothing,
    /// The last response is sent again (timer G).
    Retransmit,
    /// A 100 is sent, since nothing else was.
    Trying,
    /// No ACK came (timer H).
    Unacknowledged,
    /// Nothing more can come (timers I, J and L).
    Ended,
}

impl ServerTransaction {
    pub fn start(
        now: Instant,
        is_invite: bool,
        is_reliable: bool,
        timers: &TransactionTimers,
    ) -> Self {
        match is_invite {
            true => Self::Invite(InviteServer::start(is_reliable)),
            false => Self::NonInvite(NonInviteServer::start(now, is_reliable, timers)),
        }
    }

    /// An INVITE that was answered by a 2xx, until then.
    pub fn accepted(ends_at: Instant) -> Self {
        Self::Invite(InviteServer::accepted(ends_at))
    }

    /// Until when it is an INVITE that was answered by a 2xx.
    pub fn accepted_until(&self) -> Option<Instant> {
        match self {
            Self::Invite(server) => server.accepted_until(),
            Self::NonInvite(_) => None,
        }
    }

    pub fn is_invite(&self) -> bool {
        matches!(self, Self::Invite(_))
    }

    /// Whether a response of this status is sent.
    pub fn respond(&mut self, now: Instant, status: u16, timers: &TransactionTimers) -> bool {
        match self {
            Self::Invite(server) => server.respond(now, status, timers),
            Self::NonInvite(server) => server.respond(now, status, timers),
        }
    }

    /// Whether the last response answers the same request once more.
    pub fn repeats(&self) -> bool {
        match self {
            Self::Invite(server) => server.repeats(),
            Self::NonInvite(server) => server.repeats(),
        }
    }

    /// The ACK of a refusal came.
    pub fn acknowledge(&mut self, now: Instant, timers: &TransactionTimers) {
        if let Self::Invite(server) = self {
            server.acknowledge(now, timers);
        }
    }

    pub fn expire(&mut self, now: Instant, timers: &TransactionTimers) -> ServerTimeout {
        match self {
            Self::Invite(server) => server.expire(now, timers),
            Self::NonInvite(server) => server.expire(now),
        }
    }

    pub fn next_due(&self) -> Instant {
        match self {
            Self::Invite(server) => server.next_due(),
            Self::NonInvite(server) => server.next_due(),
        }
    }

    pub fn is_terminated(&self) -> bool {
        match self {
            Self::Invite(server) => server.is_terminated(),
            Self::NonInvite(server) => server.is_terminated(),
        }
    }

    /// Ends a transaction that gets no response (RFC 4320 §4.2).
    pub fn give_up(&mut self) {
        if let Self::NonInvite(server) = self {
            server.terminate();
        }
    }
}
