//! The server transaction of INVITE (RFC 3261 §17.2.1, RFC 6026 §7.1).

use super::{ServerTimeout, TransactionTimers, retransmission::Retransmission};
use busyhour::clock::Instant;

/// An INVITE that was received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InviteServer {
    state: InviteServerState,
    is_reliable: bool,
    /// Timer G.
    retransmission: Retransmission,
    /// Timer H, I or L.
    ends_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InviteServerState {
    Proceeding,
    /// A 2xx was sent: whoever accepted repeats it, and the ACK goes past us.
    Accepted,
    /// A refusal was sent; it is repeated until its ACK comes.
    Completed,
    /// The ACK came; further ones are absorbed.
    Confirmed,
    Terminated,
}

impl InviteServer {
    pub fn start(is_reliable: bool) -> Self {
        Self {
            state: InviteServerState::Proceeding,
            is_reliable,
            retransmission: Retransmission::NEVER,
            ends_at: Instant::FAR_FUTURE,
        }
    }

    /// One that has sent a 2xx; what its transport is does not matter any more.
    pub fn accepted(ends_at: Instant) -> Self {
        Self {
            state: InviteServerState::Accepted,
            is_reliable: false,
            retransmission: Retransmission::NEVER,
            ends_at,
        }
    }

    /// Until when it is one that has sent a 2xx.
    pub fn accepted_until(&self) -> Option<Instant> {
        (self.state == InviteServerState::Accepted).then_some(self.ends_at)
    }

    /// Whether a response of this status is sent.
    pub fn respond(&mut self, now: Instant, status: u16, timers: &TransactionTimers) -> bool {
        use InviteServerState as State;
        match (self.state, status) {
            (State::Proceeding, 100..200) | (State::Accepted, 200..300) => true,
            (State::Proceeding, 200..300) => {
                self.enter(State::Accepted, now + timers.lifetime());
                true
            }
            (State::Proceeding, _) => {
                self.enter(State::Completed, now + timers.lifetime());
                self.retransmission = Retransmission::start(now, timers.t1, self.is_reliable);
                true
            }
            _ => false,
        }
    }

    /// Whether the last response answers the same request once more.
    pub fn repeats(&self) -> bool {
        use InviteServerState as State;
        matches!(self.state, State::Proceeding | State::Completed)
    }

    /// The ACK of a refusal came.
    pub fn acknowledge(&mut self, now: Instant, timers: &TransactionTimers) {
        match (self.state, self.is_reliable) {
            (InviteServerState::Completed, true) => self.terminate(),
            (InviteServerState::Completed, false) => {
                self.enter(InviteServerState::Confirmed, now + timers.t4);
            }
            _ => {}
        }
    }

    pub fn expire(&mut self, now: Instant, timers: &TransactionTimers) -> ServerTimeout {
        if self.ends_at <= now {
            let is_silent = self.state == InviteServerState::Completed;
            self.terminate();
            return match is_silent {
                true => ServerTimeout::Unacknowledged,
                false => ServerTimeout::Ended,
            };
        }
        match self.retransmission.take(now, timers.t2) {
            true => ServerTimeout::Retransmit,
            false => ServerTimeout::Nothing,
        }
    }

    pub fn next_due(&self) -> Instant {
        self.ends_at.min(self.retransmission.due())
    }

    pub fn is_terminated(&self) -> bool {
        self.state == InviteServerState::Terminated
    }

    fn terminate(&mut self) {
        self.enter(InviteServerState::Terminated, Instant::FAR_FUTURE);
    }

    fn enter(&mut self, state: InviteServerState, ends_at: Instant) {
        self.state = state;
        self.ends_at = ends_at;
        self.retransmission = Retransmission::NEVER;
    }
}
