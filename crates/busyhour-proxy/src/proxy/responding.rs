//! What comes back: RFC 3261 §16.7, and the timeouts of §16.8 and §16.9.

use super::{
    Answer, Edge, EventKind, FailureCause,
    best_response::{Candidate, is_challenge},
    branch::{Cancel, ClientBranch},
    cancelling::CancelReason,
    context::Context,
    work::Work,
};
use crate::transaction::{ClientReaction, ClientTimeout};
use busyhour::buffer::Buffer;
use busyhour_sip::{Flow, HeaderName, Message, Method, ResponseEdit, Status, session::Refresher};
use std::time::Duration;

/// A response on its branch.
#[derive(Clone, Copy)]
pub(super) struct BranchResponse<'r, 'a> {
    pub message: &'r Message<'a>,
    pub datagram: &'r Buffer,
    pub number: u16,
    pub status: u16,
}

impl<P> Context<P> {
    /// A response that names a branch of this request. Returns whether there is such a
    /// branch.
    pub fn receive_response<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) -> bool {
        let Some(branch) = self.branches.get_mut(usize::from(response.number)) else {
            return false;
        };
        let timers = work.shared.policy.timers;
        if is_about_cancel(response.message) {
            branch.cancel_answered(work.now, response.status, &timers);
            return true;
        }
        match branch.client.receive(work.now, response.status, &timers) {
            ClientReaction::Absorb => work.shared.stats.responses_absorbed += 1,
            ClientReaction::AckAgain => {
                work.shared.stats.responses_absorbed += 1;
                self.resend(response.number, work);
            }
            ClientReaction::Pass => self.pass(response, work),
            ClientReaction::PassAndAck => {
                self.acknowledge(response, work);
                self.pass(response, work);
            }
        }
        true
    }

    fn pass<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) {
        match response.status {
            ..200 => self.progress(response, work),
            200..300 => self.succeed(response, work),
            _ => self.fail(response, work),
        }
        self.advance(work);
    }

    /// RFC 3261 §16.7 steps 2 and 5.
    fn progress<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) {
        let BranchResponse { number, status, .. } = response;
        let is_invite = self.server.is_invite();
        let timer_c = work.now + work.shared.policy.timer_c;
        if let Some(branch) = self.branches.get_mut(usize::from(number)) {
            branch.has_provisional = true;
            if is_invite && status > 100 {
                branch.timer_c = timer_c;
            }
        }
        self.send_wanted_cancel(number, work);
        if status == 100 || self.final_status != 0 {
            return;
        }
        let forwarded = self.write_response(response, &[], work);
        let is_first = !std::mem::replace(&mut self.has_progress, true);
        work.shared.stats.provisional += 1;
        work.note(EventKind::Progress {
            branch: number,
            status,
            after: work.now - self.began_at,
            is_first,
        });
        self.respond(status, forwarded, work);
    }

    /// A 2xx goes back at once (step 5), and the other branches are cancelled (step 10).
    /// 2xx to INVITE from other branches go back as well.
    fn succeed<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) {
        let BranchResponse { number, status, .. } = response;
        let Some(branch) = self.branches.get_mut(usize::from(number)) else {
            return;
        };
        let label = branch.label;
        branch.finish();
        let is_first = self.final_status == 0;
        if !is_first && !self.server.is_invite() {
            work.shared.stats.responses_absorbed += 1;
            return;
        }
        let agreed = response.message.header(HeaderName::SessionExpires);
        let session_s = Some(self.session_s).filter(|asked_s| *asked_s > 0 && agreed.is_none());
        let forwarded = self.write_success(response, session_s, work);
        work.shared.stats.successes += 1;
        work.note(EventKind::Answered {
            branch: number,
            label,
            status,
            after: work.now - self.began_at,
            is_first,
            session: session_s.map(|session_s| Duration::from_secs(session_s.into())),
        });
        self.respond(status, forwarded, work);
        if is_first {
            self.close(status);
            self.cancel_branches(&CancelReason::CompletedElsewhere, work);
        }
    }

    fn fail<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) {
        let BranchResponse { number, status, .. } = response;
        let Some(branch) = self.branches.get_mut(usize::from(number)) else {
            return;
        };
        let ack = branch
            .resend
            .take()
            .filter(|_| !branch.client.is_terminated());
        branch.finish();
        // What is sent again from now on is the ACK.
        branch.resend = ack.filter(|_| self.server.is_invite());
        let label = branch.label;
        let candidate = Candidate {
            status,
            branch: Some(number),
            received: Some(response.datagram.clone()),
        };
        if self.final_status != 0 {
            return;
        }
        if status == 503 {
            return self.fail_over(number, candidate, FailureCause::Response, work);
        }
        work.note(EventKind::Failed {
            branch: number,
            label,
            status,
            cause: FailureCause::Response,
        });
        if let Some(pending) = &mut self.pending {
            pending.best.offer(candidate);
        }
        if status >= 600 {
            self.cancel_branches(&CancelReason::None, work);
        }
    }

    /// Sends the ACK of a refusal, and keeps it for retransmissions.
    fn acknowledge<E: Edge<Data = P>>(
        &mut self,
        response: BranchResponse<'_, '_>,
        work: &mut Work<'_, E>,
    ) {
        let Some(branch) = self.branches.get_mut(usize::from(response.number)) else {
            return;
        };
        let to = response.message.header(HeaderName::To).unwrap_or("");
        let request = branch.resend.take();
        let request = request.as_ref().and_then(|it| Message::parse(it).ok());
        let ack = request.and_then(|it| work.shared.write(|out| it.write_ack(to, out)));
        branch.resend = ack;
        self.resend(response.number, work);
    }

    /// Sends what a branch sends again.
    fn resend<E: Edge<Data = P>>(&self, number: u16, work: &mut Work<'_, E>) {
        let branch = self.branches.get(usize::from(number));
        if let Some(message) = branch.and_then(|branch| branch.resend.clone()) {
            self.send_branch(number, message, work);
        }
    }

    /// What is due on one branch.
    pub fn expire_branch<E: Edge<Data = P>>(&mut self, place: usize, work: &mut Work<'_, E>) {
        let (number, timers) = (place as u16, work.shared.policy.timers);
        let Some(branch) = self.branches.get_mut(place) else {
            return;
        };
        let rang_too_long = branch.timer_c <= work.now;
        let is_given_up = branch.gives_up_at <= work.now;
        match branch.client.expire(work.now, &timers) {
            ClientTimeout::Nothing => {}
            ClientTimeout::Ended => branch.resend = None,
            ClientTimeout::Retransmit => {
                work.shared.stats.retransmitted += 1;
                self.resend(number, work);
            }
            ClientTimeout::TimedOut => return self.time_out(number, work),
        }
        self.expire_cancel(number, work);
        if is_given_up {
            self.time_out(number, work);
        } else if rang_too_long {
            work.shared.stats.rang_too_long += 1;
            self.cancel_branch(number, &CancelReason::None, work);
        }
    }

    /// Nothing final came in time: that counts as 408 (RFC 3261 §16.8, §9.1).
    fn time_out<E: Edge<Data = P>>(&mut self, number: u16, work: &mut Work<'_, E>) {
        work.shared.stats.timed_out += 1;
        self.end_branch(number, FailureCause::Timeout, work);
    }

    /// A message of a branch could not be sent: that counts as 503, for the flow of a
    /// registration as 480 (RFC 3261 §16.9, RFC 5626 §7).
    pub fn transport_error<E: Edge<Data = P>>(&mut self, number: u16, work: &mut Work<'_, E>) {
        let branch = self.branches.get(usize::from(number));
        if branch.is_some_and(ClientBranch::is_pending) {
            work.shared.stats.transport_errors += 1;
            self.end_branch(number, FailureCause::Transport, work);
            self.advance(work);
        }
    }

    /// A connection has ended. A branch that has heard nothing on it will not: that is a
    /// transport error. One that has is answered over a new connection, if its other side lives
    /// (RFC 3261 §18.2.2).
    pub fn connection_ended<E: Edge<Data = P>>(&mut self, flow: Flow, work: &mut Work<'_, E>) {
        for number in 0..self.branches.len() {
            let is_lost =
                |branch: &ClientBranch| branch.flow.get() == flow && !branch.has_provisional;
            if self.branches.get(number).is_some_and(is_lost) {
                self.transport_error(number as u16, work);
            }
        }
    }

    fn end_branch<E: Edge<Data = P>>(
        &mut self,
        number: u16,
        cause: FailureCause,
        work: &mut Work<'_, E>,
    ) {
        let Some(branch) = self.branches.get_mut(usize::from(number)) else {
            return;
        };
        let was_silent = !branch.has_provisional;
        let status = match (cause, branch.is_registered) {
            (FailureCause::Transport, true) => 480,
            (FailureCause::Transport, false) => 503,
            _ => 408,
        };
        let cancel = std::mem::replace(&mut branch.cancel, Cancel::Over);
        branch.client.terminate();
        branch.finish();
        let candidate = Candidate {
            status,
            branch: Some(number),
            received: None,
        };
        if self.final_status != 0 {
            return;
        }
        // A target that rang is not called a second time on another way.
        let may_fail_over = was_silent && matches!(cancel, Cancel::No);
        match may_fail_over {
            true => self.fail_over(number, candidate, cause, work),
            false => self.fail_without_response(candidate, cause, work),
        }
    }

    fn fail_without_response<E: Edge<Data = P>>(
        &mut self,
        candidate: Candidate,
        cause: FailureCause,
        work: &mut Work<'_, E>,
    ) {
        let number = candidate.branch.unwrap_or(0);
        let branch = self.branches.get(usize::from(number));
        work.note(EventKind::Failed {
            branch: number,
            label: branch.map_or(0, |branch| branch.label),
            status: candidate.status,
            cause,
        });
        if let Some(pending) = &mut self.pending {
            pending.best.offer(candidate);
        }
    }

    /// Nobody in the group has answered within its ring time, or nobody has said where the
    /// request goes.
    pub fn ring_out<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        pending.ring_due = busyhour::clock::Instant::FAR_FUTURE;
        pending.best.offer(Candidate {
            status: 408,
            branch: None,
            received: None,
        });
        if !std::mem::replace(&mut pending.is_located, true) {
            return;
        }
        pending.has_rung_out = true;
        pending.late_count = 0;
        work.shared.stats.no_answer += 1;
        self.cancel_branches(&CancelReason::None, work);
        for branch in self.branches.iter_mut().filter(|it| it.is_pending()) {
            branch.is_abandoned = true;
        }
    }

    /// Sends the best response (RFC 3261 §16.7 step 6); without one, our own.
    pub fn finish<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        let Some(pending) = &self.pending else {
            return;
        };
        let best = pending.best.chosen().cloned();
        let is_decided =
            |it: &Candidate| !self.is_cancelled || it.status == 487 || it.status >= 600;
        let best = best.filter(is_decided);
        let status = match (&best, self.is_cancelled) {
            (None, true) => 487,
            (None, false) => 480,
            (Some(best), _) => best.status,
        };
        // RFC 4320 §4.2.
        if status == 408 && !self.server.is_invite() {
            return self.stay_silent(work);
        }
        let branch = best.as_ref().and_then(|best| best.branch);
        match best.and_then(|best| best.received) {
            Some(received) => self.forward_refusal(status, &received, work),
            None => {
                let reason = self.pending.as_ref().and_then(|it| it.own_reason);
                let answer = Answer {
                    reason: reason.filter(|_| status == 480),
                    ..own_status(status).into()
                };
                self.send_own(&answer, work);
            }
        }
        work.shared.stats.refused += 1;
        work.note(EventKind::Refused {
            status: own_status(status).code(),
            branch,
            after: work.now - self.began_at,
        });
        self.close(status);
    }

    /// Sends a refusal that was received, with the challenges of others (step 7).
    fn forward_refusal<E: Edge<Data = P>>(
        &mut self,
        status: u16,
        received: &Buffer,
        work: &mut Work<'_, E>,
    ) {
        let Ok(message) = Message::parse(received) else {
            return self.send_own(&own_status(status).into(), work);
        };
        let others = self
            .pending
            .iter()
            .flat_map(|it| it.best.other_challenges());
        let others: Vec<_> = others
            .filter_map(|other| Message::parse(other).ok())
            .collect();
        let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
        let of = |other| names.map(|name| (name, other));
        let more: Vec<_> = (others.iter().flat_map(of))
            .flat_map(|(name, other)| other.headers(name).map(move |value| (name, value)))
            .collect();
        let edit = ResponseEdit {
            status: (status == 503).then_some(Status::SERVER_INTERNAL_ERROR),
            more: if is_challenge(status) { &more } else { &[] },
            // Who refuses a call is nobody that a telephone shows.
            drops_identity: true,
        };
        let forwarded = work
            .shared
            .write(|out| message.forward_response(&edit, out));
        self.respond(own_status(status).code(), forwarded, work);
    }

    /// A request other than INVITE gets no 408.
    fn stay_silent<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        self.server.give_up();
        self.last_response = None;
        work.shared.stats.unanswered += 1;
        work.note(EventKind::Unanswered);
        self.close(408);
    }

    /// The final response is sent: no further branch needs anything.
    pub fn close(&mut self, status: u16) {
        self.final_status = status;
        self.pending = None;
    }

    /// As [`write_response`](Self::write_response); the caller has to refresh its session
    /// after this interval if the proxy asks for that and the callee cannot (RFC 4028 §8.2).
    fn write_success<E: Edge<Data = P>>(
        &self,
        response: BranchResponse<'_, '_>,
        session_s: Option<u32>,
        work: &mut Work<'_, E>,
    ) -> Option<Buffer> {
        let Some(session_s) = session_s else {
            return self.write_response(response, &[], work);
        };
        let interval = format!("{session_s};refresher={}", Refresher::Uac.as_str());
        let more = [
            (HeaderName::SessionExpires, interval.as_str()),
            (HeaderName::Require, "timer"),
        ];
        self.write_response(response, &more, work)
    }

    /// A response of a branch as it goes back, with these headers.
    fn write_response<E: Edge<Data = P>>(
        &self,
        response: BranchResponse<'_, '_>,
        more: &[(HeaderName, &str)],
        work: &mut Work<'_, E>,
    ) -> Option<Buffer> {
        let (shared, message) = (&mut *work.shared, response.message);
        let branch = self.branches.get(usize::from(response.number));
        let label = branch.map_or(0, |branch| branch.label);
        let edit = ResponseEdit {
            drops_identity: !shared.edge.passes_identity_back(message, &self.data, label),
            more,
            ..ResponseEdit::default()
        };
        shared.write(|out| message.forward_response(&edit, out))
    }
}

/// A 503 would stop all requests of whoever gets it (RFC 3261 §16.7 step 6).
fn own_status(status: u16) -> Status {
    let status = if status == 503 { 500 } else { status };
    Status::new(status).unwrap_or(Status::SERVER_INTERNAL_ERROR)
}

fn is_about_cancel(response: &Message<'_>) -> bool {
    let cseq = response.cseq();
    cseq.is_ok_and(|cseq| cseq.method == Method::Cancel)
}
