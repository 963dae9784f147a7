//! One branch of a request: a client transaction, and the CANCEL that may follow it.

use crate::{
    routing::CompactFlow,
    transaction::{ClientTransaction, NonInviteClient, TransactionTimers},
};
use busyhour::{buffer::Buffer, clock::Instant};
use std::borrow::Cow;

/// A request that was sent to one target.
#[derive(Debug)]
pub(super) struct ClientBranch {
    pub label: u64,
    pub flow: CompactFlow,
    pub is_registered: bool,
    /// Its target, and which way to it this is.
    pub target: u32,
    pub hop: u32,
    /// Its part of Max-Breadth.
    pub breadth: u32,
    pub client: ClientTransaction,
    /// What is sent again: the request, then the ACK of its refusal.
    pub resend: Option<Buffer>,
    pub cancel: Cancel,
    /// Timer C; never for requests other than INVITE.
    pub timer_c: Instant,
    /// When a cancelled branch is given up (RFC 3261 §9.1).
    pub gives_up_at: Instant,
    pub has_provisional: bool,
    /// A final response came, or none will come.
    pub is_done: bool,
    /// The next group is not waiting for it: nobody answered in time.
    pub is_abandoned: bool,
}

/// How far a CANCEL is.
#[derive(Debug)]
pub(super) enum Cancel {
    No,
    /// It is sent when a provisional response comes (RFC 3261 §9.1); with the value of
    /// Reason.
    Wanted(Option<Cow<'static, str>>),
    /// Seldom, so it takes memory of its own.
    Sent(Box<SentCancel>),
    Over,
}

/// A CANCEL that was sent.
#[derive(Debug)]
pub(super) struct SentCancel {
    pub client: NonInviteClient,
    pub message: Buffer,
}

impl ClientBranch {
    /// Whether a final response can still come.
    pub fn is_pending(&self) -> bool {
        !self.is_done
    }

    /// Whether nothing can come any more.
    pub fn is_over(&self) -> bool {
        self.client.is_terminated() && !matches!(self.cancel, Cancel::Sent(..))
    }

    /// A final response came, or none will.
    pub fn finish(&mut self) {
        self.is_done = true;
        self.resend = None;
        self.cancel = Cancel::Over;
        self.timer_c = Instant::FAR_FUTURE;
        self.gives_up_at = Instant::FAR_FUTURE;
    }

    /// A response to its CANCEL came; a final one ends the CANCEL, not the branch.
    pub fn cancel_answered(&mut self, now: Instant, status: u16, timers: &TransactionTimers) {
        match &mut self.cancel {
            Cancel::Sent(sent) if status < 200 => {
                let _ = sent.client.receive(now, status, timers);
            }
            Cancel::Sent(..) => self.cancel = Cancel::Over,
            _ => {}
        }
    }

    /// If it has answered an INVITE and nothing else is kept: when its transaction ends.
    pub fn answered_until(&self) -> Option<Instant> {
        let is_bare = self.resend.is_none() && matches!(self.cancel, Cancel::Over);
        let until = self.client.accepted_until();
        until.filter(|_| self.is_done && is_bare)
    }

    pub fn next_due(&self) -> Instant {
        let cancel = match &self.cancel {
            Cancel::Sent(sent) => sent.client.next_due(),
            _ => Instant::FAR_FUTURE,
        };
        let own = self.client.next_due().min(cancel);
        own.min(self.timer_c).min(self.gives_up_at)
    }

    pub fn held_bytes(&self) -> usize {
        let cancel = match &self.cancel {
            Cancel::Sent(sent) => sent.message.len(),
            _ => 0,
        };
        cancel + self.resend.as_ref().map_or(0, |message| message.len())
    }
}
