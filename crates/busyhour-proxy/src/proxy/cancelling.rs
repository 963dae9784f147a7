//! CANCEL, received and sent (RFC 3261 §9, §16.10), with its Reason (RFC 3326).

use super::{
    Edge, EventKind,
    branch::{Cancel, ClientBranch, SentCancel},
    context::Context,
    work::Work,
};
use crate::transaction::NonInviteClient;
use busyhour::clock::Instant;
use busyhour_sip::{HeaderName, Message};
use std::borrow::Cow;

/// What a CANCEL of ours says.
#[derive(Debug)]
pub(super) enum CancelReason {
    /// Nothing.
    None,
    /// Another branch was answered.
    CompletedElsewhere,
    /// What the caller's CANCEL said.
    Callers(Box<str>),
}

impl CancelReason {
    /// Of a CANCEL that came.
    pub fn of(cancel: &Message<'_>) -> Self {
        let values: Vec<_> = cancel.headers(HeaderName::Reason).collect();
        match values.is_empty() {
            true => Self::None,
            false => Self::Callers(values.join(", ").into()),
        }
    }

    fn text(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::None => None,
            Self::CompletedElsewhere => Some(Cow::Borrowed(COMPLETED_ELSEWHERE)),
            Self::Callers(values) => Some(Cow::Owned(values.to_string())),
        }
    }
}

impl<P> Context<P> {
    /// The caller wants no answer any more.
    pub fn cancel<E: Edge<Data = P>>(&mut self, reason: &CancelReason, work: &mut Work<'_, E>) {
        if self.final_status != 0 || std::mem::replace(&mut self.is_cancelled, true) {
            return;
        }
        work.shared.stats.cancelled += 1;
        work.note(EventKind::Cancelled);
        if let Some(pending) = &mut self.pending {
            pending.is_located = true;
            pending.ring_due = Instant::FAR_FUTURE;
        }
        self.cancel_branches(reason, work);
        self.advance(work);
    }

    /// Cancels every branch of an INVITE that may still be answered.
    pub fn cancel_branches<E: Edge<Data = P>>(
        &mut self,
        reason: &CancelReason,
        work: &mut Work<'_, E>,
    ) {
        for number in 0..self.branches.len() {
            self.cancel_branch(number as u16, reason, work);
        }
    }

    /// Cancels a branch, now or when its first provisional response comes.
    pub fn cancel_branch<E: Edge<Data = P>>(
        &mut self,
        number: u16,
        reason: &CancelReason,
        work: &mut Work<'_, E>,
    ) {
        let is_invite = self.server.is_invite();
        let branch = self.branches.get_mut(usize::from(number));
        let is_open = |branch: &&mut ClientBranch| {
            is_invite && branch.is_pending() && matches!(branch.cancel, Cancel::No)
        };
        if let Some(branch) = branch.filter(is_open) {
            branch.cancel = Cancel::Wanted(reason.text());
            branch.timer_c = Instant::FAR_FUTURE;
            self.send_wanted_cancel(number, work);
        }
    }

    /// Sends the CANCEL that a branch wants, if its request is known to have arrived.
    pub fn send_wanted_cancel<E: Edge<Data = P>>(&mut self, number: u16, work: &mut Work<'_, E>) {
        let Some(branch) = self.branches.get_mut(usize::from(number)) else {
            return;
        };
        let Cancel::Wanted(reason) = &branch.cancel else {
            return;
        };
        if !branch.has_provisional {
            return;
        }
        let request = branch
            .resend
            .as_ref()
            .and_then(|it| Message::parse(it).ok());
        let reason = reason.as_deref();
        let reasons = reason.as_slice();
        let cancel = request.and_then(|it| work.shared.write(|out| it.write_cancel(reasons, out)));
        let timers = work.shared.policy.timers;
        let is_reliable = branch.flow.get().transport.is_reliable();
        branch.timer_c = Instant::FAR_FUTURE;
        branch.gives_up_at = work.now + timers.lifetime();
        branch.cancel = match cancel.clone() {
            Some(cancel) => {
                let client = NonInviteClient::start(work.now, is_reliable, &timers);
                Cancel::Sent(Box::new(SentCancel {
                    client,
                    message: cancel,
                }))
            }
            None => Cancel::Over,
        };
        if let Some(cancel) = cancel {
            work.shared.stats.cancels_sent += 1;
            work.send(branch.flow.get(), cancel);
        }
    }

    /// What is due of a branch's CANCEL.
    pub fn expire_cancel<E: Edge<Data = P>>(&mut self, number: u16, work: &mut Work<'_, E>) {
        use crate::transaction::ClientTimeout as Timeout;
        let timers = work.shared.policy.timers;
        let Some(branch) = self.branches.get_mut(usize::from(number)) else {
            return;
        };
        let Cancel::Sent(sent) = &mut branch.cancel else {
            return;
        };
        match sent.client.expire(work.now, &timers) {
            Timeout::Nothing => {}
            Timeout::Retransmit => {
                work.shared.stats.retransmitted += 1;
                let message = sent.message.clone();
                work.send(branch.flow.get(), message);
            }
            Timeout::TimedOut | Timeout::Ended => branch.cancel = Cancel::Over,
        }
    }
}

/// What a telephone shows no missed call for.
const COMPLETED_ELSEWHERE: &str = "SIP;cause=200;text=\"Call completed elsewhere\"";
