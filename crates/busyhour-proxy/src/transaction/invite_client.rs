//! The client transaction of INVITE (RFC 3261 §17.1.1, RFC 6026 §7.2).

use super::{ClientReaction, ClientTimeout, TransactionTimers, retransmission::Retransmission};
use busyhour::clock::Instant;
use std::time::Duration;

/// An INVITE that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InviteClient {
    state: InviteClientState,
    is_reliable: bool,
    /// Timer A.
    retransmission: Retransmission,
    /// Timer B, D or M.
    ends_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InviteClientState {
    /// Nothing came back.
    Calling,
    /// A provisional response came; the proxy's timer C watches over it.
    Proceeding,
    /// A refusal came; its retransmissions get the ACK again.
    Completed,
    /// A 2xx came, and others may.
    Accepted,
    Terminated,
}

impl InviteClient {
    pub fn start(
        now: Instant,
        is_reliable: bool,
        timers: &TransactionTimers,
        silence_max: Option<Duration>,
    ) -> Self {
        let timer_b = timers.lifetime();
        Self {
            state: InviteClientState::Calling,
            is_reliable,
            retransmission: Retransmission::start(now, timers.t1, is_reliable),
            ends_at: now + silence_max.map_or(timer_b, |silence| silence.min(timer_b)),
        }
    }

    /// One that has received a 2xx; what its transport is does not matter any more.
    pub fn accepted(ends_at: Instant) -> Self {
        Self {
            state: InviteClientState::Accepted,
            is_reliable: false,
            retransmission: Retransmission::NEVER,
            ends_at,
        }
    }

    /// Until when it is one that has received a 2xx.
    pub fn accepted_until(&self) -> Option<Instant> {
        (self.state == InviteClientState::Accepted).then_some(self.ends_at)
    }

    pub fn receive(
        &mut self,
        now: Instant,
        status: u16,
        timers: &TransactionTimers,
    ) -> ClientReaction {
        use InviteClientState as State;
        match (self.state, status) {
            (State::Calling | State::Proceeding, 100..200) => {
                self.enter(State::Proceeding, Instant::FAR_FUTURE);
                ClientReaction::Pass
            }
            (State::Calling | State::Proceeding, 200..300) => {
                self.enter(State::Accepted, now + timers.lifetime());
                ClientReaction::Pass
            }
            (State::Calling | State::Proceeding, _) => {
                self.refused(now, timers.refusals_repeat());
                ClientReaction::PassAndAck
            }
            (State::Accepted, 200..300) => ClientReaction::Pass,
            (State::Completed, 300..) => ClientReaction::AckAgain,
            _ => ClientReaction::Absorb,
        }
    }

    pub fn expire(&mut self, now: Instant) -> ClientTimeout {
        if self.ends_at <= now {
            let is_silent = self.state == InviteClientState::Calling;
            self.terminate();
            return match is_silent {
                true => ClientTimeout::TimedOut,
                false => ClientTimeout::Ended,
            };
        }
        match self.retransmission.take(now, Duration::MAX) {
            true => ClientTimeout::Retransmit,
            false => ClientTimeout::Nothing,
        }
    }

    pub fn next_due(&self) -> Instant {
        self.ends_at.min(self.retransmission.due())
    }

    pub fn is_terminated(&self) -> bool {
        self.state == InviteClientState::Terminated
    }

    pub fn terminate(&mut self) {
        self.enter(InviteClientState::Terminated, Instant::FAR_FUTURE);
    }

    /// Over a reliable transport a refusal is not repeated.
    fn refused(&mut self, now: Instant, repeated_for: Duration) {
        match self.is_reliable {
            true => self.terminate(),
            false => self.enter(InviteClientState::Completed, now + repeated_for),
        }
    }

    fn enter(&mut self, state: InviteClientState, ends_at: Instant) {
        self.state = state;
        self.ends_at = ends_at;
        self.retransmission = Retransmission::NEVER;
    }
}
