//! The server transaction of every other request (RFC 3261 §17.2.2, RFC 4320).

use super::{ServerTimeout, TransactionTimers};
use busyhour::clock::Instant;

/// A request other than INVITE that was received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NonInviteServer {
    state: NonInviteServerState,
    is_reliable: bool,
    /// When a 100 is sent (RFC 4320 §4.1), then timer J.
    due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NonInviteServerState {
    /// Nothing was sent; a retransmission is absorbed.
    Trying,
    /// A provisional response was sent; a retransmission gets it again.
    Proceeding,
    /// The final response was sent; a retransmission gets it again.
    Completed,
    Terminated,
}

impl NonInviteServer {
    pub fn start(now: Instant, is_reliable: bool, timers: &TransactionTimers) -> Self {
        Self {
            state: NonInviteServerState::Trying,
            is_reliable,
            due: now + timers.until_trying(),
        }
    }

    /// Whether a response of this status is sent.
    pub fn respond(&mut self, now: Instant, status: u16, timers: &TransactionTimers) -> bool {
        use NonInviteServerState as State;
        match (self.state, status) {
            (State::Trying | State::Proceeding, 100..200) => {
                self.enter(State::Proceeding, Instant::FAR_FUTURE);
                true
            }
            (State::Trying | State::Proceeding, _) => {
                match self.is_reliable {
                    true => self.terminate(),
                    false => self.enter(State::Completed, now + timers.lifetime()),
                }
                true
            }
            _ => false,
        }
    }

    /// Whether the last response answers the same request once more.
    pub fn repeats(&self) -> bool {
        use NonInviteServerState as State;
        matches!(self.state, State::Proceeding | State::Completed)
    }

    pub fn expire(&mut self, now: Instant) -> ServerTimeout {
        match (self.due <= now, self.state) {
            (true, NonInviteServerState::Trying) => ServerTimeout::Trying,
            (true, _) => {
                self.terminate();
                ServerTimeout::Ended
            }
            (false, _) => ServerTimeout::Nothing,
        }
    }

    pub fn next_due(&self) -> Instant {
        self.due
    }

    pub fn is_terminated(&self) -> bool {
        self.state == NonInviteServerState::Terminated
    }

    /// Ends it without a response: a 408 would come too late (RFC 4320 §4.2).
    pub fn terminate(&mut self) {
        self.enter(NonInviteServerState::Terminated, Instant::FAR_FUTURE);
    }

    fn enter(&mut self, state: NonInviteServerState, due: Instant) {
        self.state = state;
        self.due = due;
    }
}
