//! Either client transaction.

use super::{TransactionTimers, invite_client::InviteClient, non_invite_client::NonInviteClient};
use busyhour::clock::Instant;
use std::time::Duration;

/// A request that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientTransaction {
    Invite(InviteClient),
    NonInvite(NonInviteClient),
}

/// What a client transaction does with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum ClientReaction {
    /// Its user gets the response.
    Pass,
    /// Its user gets the response, and an ACK is sent.
    PassAndAck,
    /// The ACK is sent again; the user knows the response.
    AckAgain,
    /// The response is of no use.
    Absorb,
}

/// What a client transaction does when time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum ClientTimeout {
    Nothing,
    /// The request is sent again.
    Retransmit,
    /// No final response came (timers B and F).
    TimedOut,
    /// Nothing more can come (timers D, K and M).
    Ended,
}

impl ClientTransaction {
    /// An INVITE times out after `silence_max`, if that is shorter than timer B.
    pub fn start(
        now: Instant,
        is_invite: bool,
        is_reliable: bool,
        timers: &TransactionTimers,
        silence_max: Option<Duration>,
    ) -> Self {
        match is_invite {
            true => Self::Invite(InviteClient::start(now, is_reliable, timers, silence_max)),
            false => Self::NonInvite(NonInviteClient::start(now, is_reliable, timers)),
        }
    }

    /// An INVITE that was answered by a 2xx, until then.
    pub fn accepted(ends_at: Instant) -> Self {
        Self::Invite(InviteClient::accepted(ends_at))
    }

    /// Until when it is an INVITE that was answered by a 2xx.
    pub fn accepted_until(&self) -> Option<Instant> {
        match self {
            Self::Invite(client) => client.accepted_until(),
            Self::NonInvite(_) => None,
        }
    }

    pub fn receive(
        &mut self,
        now: Instant,
        status: u16,
        timers: &TransactionTimers,
    ) -> ClientReaction {
        match self {
            Self::Invite(client) => client.receive(now, status, timers),
            Self::NonInvite(client) => client.receive(now, status, timers),
        }
    }

    pub fn expire(&mut self, now: Instant, timers: &TransactionTimers) -> ClientTimeout {
        match self {
            Self::Invite(client) => client.expire(now),
            Self::NonInvite(client) => client.expire(now, timers),
        }
    }

    pub fn next_due(&self) -> Instant {
        match self {
            Self::Invite(client) => client.next_due(),
            Self::NonInvite(client) => client.next_due(),
        }
    }

    pub fn is_terminated(&self) -> bool {
        match self {
            Self::Invite(client) => client.is_terminated(),
            Self::NonInvite(client) => client.is_terminated(),
        }
    }

    pub fn terminate(&mut self) {
        match self {
            Self::Invite(client) => client.terminate(),
            Self::NonInvite(client) => client.terminate(),
        }
    }
}
