//! The client transaction of every other request (RFC 3261 §17.1.2).

use super::{ClientReaction, ClientTimeout, TransactionTimers, retransmission::Retransmission};
use busyhour::clock::Instant;

/// A request other than INVITE that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NonInviteClient {
    state: NonInviteClientState,
    is_reliable: bool,
    /// Timer E.
    retransmission: Retransmission,
    /// Timer F or K.
    ends_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NonInviteClientState {
    /// Nothing came back.
    Trying,
    /// A provisional response came; the request is sent again all the same.
    Proceeding,
    /// The final response came; its retransmissions are absorbed.
    Completed,
    Terminated,
}

impl NonInviteClient {
    pub fn start(now: Instant, is_reliable: bool, timers: &TransactionTimers) -> Self {
        Self {
            state: NonInviteClientState::Trying,
            is_reliable,
            retransmission: Retransmission::start(now, timers.t1, is_reliable),
            ends_at: now + timers.lifetime(),
        }
    }

    pub fn receive(
        &mut self,
        now: Instant,
        status: u16,
        timers: &TransactionTimers,
    ) -> ClientReaction {
        use NonInviteClientState as State;
        match (self.state, status) {
            (State::Trying, 100..200) => {
                self.state = State::Proceeding;
                self.retransmission = Retransmission::start(now, timers.t2, self.is_reliable);
                ClientReaction::Pass
            }
            (State::Proceeding, 100..200) => ClientReaction::Pass,
            (State::Trying | State::Proceeding, _) => {
                self.complete(now, timers);
                ClientReaction::Pass
            }
            _ => ClientReaction::Absorb,
        }
    }

    pub fn expire(&mut self, now: Instant, timers: &TransactionTimers) -> ClientTimeout {
        if self.ends_at <= now {
            let was_answered = self.state == NonInviteClientState::Completed;
            self.terminate();
            return match was_answered {
                true => ClientTimeout::Ended,
                false => ClientTimeout::TimedOut,
            };
        }
        match self.retransmission.take(now, timers.t2) {
            true => ClientTimeout::Retransmit,
            false => ClientTimeout::Nothing,
        }
    }

    pub fn next_due(&self) -> Instant {
        self.ends_at.min(self.retransmission.due())
    }

    pub fn is_terminated(&self) -> bool {
        self.state == NonInviteClientState::Terminated
    }

    pub fn terminate(&mut self) {
        self.state = NonInviteClientState::Terminated;
        self.ends_at = Instant::FAR_FUTURE;
        self.retransmission = Retransmission::NEVER;
    }

    /// Over a reliable transport a final response is not repeated.
    fn complete(&mut self, now: Instant, timers: &TransactionTimers) {
        match self.is_reliable {
            true => self.terminate(),
            false => {
                self.state = NonInviteClientState::Completed;
                self.ends_at = now + timers.t4;
                self.retransmission = Retransmission::NEVER;
            }
        }
    }
}
