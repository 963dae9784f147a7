//! Plays one contact of every called device, at one socket: a pure state machine. A
//! contact rings, and answers unless the call's plan lets another one answer, or nobody.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use busyhour::clock::Instant;
use busyhour::timer::{QueueHandle, TimerQueue};

use crate::agents::call_request::{SDP, SDP_TYPE};
use crate::agents::lamps::{Happened, LampState};
use crate::agents::pending::Timing;
use crate::plan::call_plan::CallPlan;
use crate::plan::users::StormUsers;
use crate::results::call_tally::{CallFailure, CallTally};
use crate::wire::batch::Outbox;
use busyhour_sip::{HeaderName, Message, Method, ResponseBuilder, Status};

/// Plays one contact of every device.
#[derive(Debug)]
pub(crate) struct CalleeAgent {
    users: StormUsers,
    plan: CallPlan,
    /// Which contact of its device each telephone is.
    fork: u32,
    local: SocketAddr,
    timing: Timing,
    /// One for each call, also for those that are over: a repeated request of theirs gets
    /// the same answer.
    legs: HashMap<u32, Leg>,
    timers: TimerQueue<u32>,
    pub tally: CallTally,
    /// What happened to the calls since the driver looked.
    pub happened: Vec<Happened>,
}

#[derive(Debug)]
struct Leg {
    phase: LegPhase,
    device: u32,
    /// The branch of the INVITE, as a hash.
    branch: u64,
    /// The INVITE while it rings, then its final response until it is acknowledged.
    message: Box<[u8]>,
    timer: Option<QueueHandle>,
    interval: Duration,
    give_up: Instant,
    is_acknowledged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LegPhase {
    Ringing,
    /// 200 was sent.
    Answered,
    /// 487 was sent, after a CANCEL.
    Cancelled,
    /// BYE has come.
    Ended,
}

impl CalleeAgent {
    pub fn new(
        users: StormUsers,
        plan: CallPlan,
        fork: u32,
        local: SocketAddr,
        timing: Timing,
    ) -> Self {
        Self {
            users,
            plan,
            fork,
            local,
            timing,
            legs: HashMap::new(),
            timers: TimerQueue::new(),
            tally: CallTally::new(),
            happened: Vec::new(),
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    pub fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox) {
        let Ok(message) = Message::parse(datagram) else {
            self.tally.unexpected += 1;
            return;
        };
        let call = message.call_id().ok();
        let call = call.and_then(|call_id| self.plan.of_call_id(call_id));
        let Some(((call, device), method)) = call.zip(message.method()) else {
            self.tally.unexpected += 1;
            return;
        };
        match method {
            Method::Invite => self.invited(now, call, device, datagram, &message, out),
            Method::Ack => self.acknowledged(call),
            Method::Cancel => self.cancelled(now, call, &message, out),
            Method::Bye => self.ended(call, &message, out),
            _ => self.tally.unexpected += 1,
        }
    }

    /// Answers calls that have rung long enough, and sends unacknowledged answers again.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&call) = self.timers.get(handle) else {
                return;
            };
            self.expired(now, call, handle, out);
        }
    }

    /// Notes each contact whose call is not as it should be at the end, when nothing more
    /// comes, and forgets all calls.
    pub fn finish(&mut self) {
        for (_, leg) in self.legs.drain() {
            let failure = match leg.phase {
                LegPhase::Ringing | LegPhase::Answered => CallFailure::NeverEnded,
                LegPhase::Cancelled | LegPhase::Ended if leg.is_acknowledged => continue,
                LegPhase::Cancelled | LegPhase::Ended => CallFailure::Unacknowledged,
            };
            self.tally.fail(failure);
        }
        self.timers = TimerQueue::new();
    }

    fn invited(
        &mut self,
        now: Instant,
        call: u32,
        device: u32,
        datagram: &[u8],
        invite: &Message<'_>,
        out: &mut Outbox,
    ) {
        let branch = hash(invite.via().ok().and_then(|via| via.branch()));
        if let Some(leg) = self.legs.get(&call) {
            if leg.branch == branch {
                return self.invited_again(call, invite, out);
            }
            self.tally.fail(CallFailure::CalledTwice);
            return self.respond(invite, Status::LOOP_DETECTED, out);
        }
        let leg = Leg {
            phase: LegPhase::Ringing,
            device,
            branch,
            message: datagram.into(),
            timer: None,
            interval: Duration::ZERO,
            give_up: Instant::FAR_FUTURE,
            is_acknowledged: false,
        };
        self.legs.insert(call, leg);
        self.respond(invite, Status::RINGING, out);
        let stage = LampState::Early;
        self.happened.push(Happened { device, stage });
        if !self.plan.answers(call, self.fork) {
            return;
        }
        match self.plan.ring {
            Duration::ZERO => self.answer(now, call, out),
            ring => {
                let timer = self.timers.add(now + ring, call);
                self.set_timer(call, Some(timer));
            }
        }
    }

    fn invited_again(&mut self, call: u32, invite: &Message<'_>, out: &mut Outbox) {
        self.tally.repeated += 1;
        match self.legs.get(&call) {
            Some(leg) if leg.phase == LegPhase::Ringing => {
                self.respond(invite, Status::RINGING, out);
            }
            Some(leg) if !leg.is_acknowledged => {
                out.push(|bytes| bytes.extend_from_slice(&leg.message));
            }
            _ => {}
        }
    }

    fn answer(&mut self, now: Instant, call: u32, out: &mut Outbox) {
        let stage = LampState::Confirmed;
        self.decide(now, call, LegPhase::Answered, Status::OK, stage, out);
    }

    /// Sends the final response of an INVITE, and again until it is acknowledged.
    fn decide(
        &mut self,
        now: Instant,
        call: u32,
        phase: LegPhase,
        status: Status,
        stage: LampState,
        out: &mut Outbox,
    ) {
        let Some(leg) = self.legs.get(&call) else {
            return;
        };
        let mut response = Vec::new();
        if let Ok(invite) = Message::parse(&leg.message) {
            self.write(&invite, status, &mut response);
        }
        out.push(|bytes| bytes.extend_from_slice(&response));
        let Timing { t1, give_up, .. } = self.timing;
        let timer = self.timers.add(now + t1, call);
        self.set_timer(call, Some(timer));
        let Some(leg) = self.legs.get_mut(&call) else {
            return;
        };
        (leg.phase, leg.message) = (phase, response.into());
        (leg.interval, leg.give_up) = (t1, now + give_up);
        let device = leg.device;
        self.happened.push(Happened { device, stage });
    }

    fn acknowledged(&mut self, call: u32) {
        let Some(leg) = self.legs.get_mut(&call) else {
            self.tally.unexpected += 1;
            return;
        };
        if leg.phase == LegPhase::Ringing {
            self.tally.unexpected += 1;
            return;
        }
        self.tally.repeated += u64::from(leg.is_acknowledged);
        leg.is_acknowledged = true;
        leg.message = Box::default();
        self.set_timer(call, None);
    }

    /// The server cancels the INVITE, since another contact has answered or the caller
    /// gave up (RFC 3261 §9.2).
    fn cancelled(&mut self, now: Instant, call: u32, cancel: &Message<'_>, out: &mut Outbox) {
        let branch = hash(cancel.via().ok().and_then(|via| via.branch()));
        let leg = self.legs.get(&call).filter(|leg| leg.branch == branch);
        let Some(phase) = leg.map(|leg| leg.phase) else {
            self.tally.unexpected += 1;
            return self.respond(cancel, Status::CALL_DOES_NOT_EXIST, out);
        };
        self.respond(cancel, Status::OK, out);
        match phase {
            LegPhase::Ringing => {
                self.tally.cancelled_contacts += 1;
                let stage = match self.plan.is_given_up(call) {
                    true => LampState::Terminated,
                    // Another contact has answered, so the device is in a call.
                    false => LampState::Idle,
                };
                let status = Status::REQUEST_TERMINATED;
                self.decide(now, call, LegPhase::Cancelled, status, stage, out);
            }
            LegPhase::Cancelled => self.tally.repeated += 1,
            LegPhase::Answered | LegPhase::Ended => {
                self.tally.fail(CallFailure::CancelledAfterAnswer)
            }
        }
    }

    fn ended(&mut self, call: u32, bye: &Message<'_>, out: &mut Outbox) {
        let phase = self.legs.get(&call).map(|leg| leg.phase);
        match phase {
            Some(LegPhase::Answered) => self.set_timer(call, None),
            Some(LegPhase::Ended) => self.tally.repeated += 1,
            Some(LegPhase::Ringing | LegPhase::Cancelled) | None => {
                self.tally.unexpected += 1;
                return self.respond(bye, Status::CALL_DOES_NOT_EXIST, out);
            }
        }
        if let Some(leg) = self.legs.get_mut(&call) {
            leg.phase = LegPhase::Ended;
        }
        self.respond(bye, Status::OK, out);
    }

    fn expired(&mut self, now: Instant, call: u32, timer: QueueHandle, out: &mut Outbox) {
        let t2 = self.timing.t2;
        let Some(leg) = self.legs.get_mut(&call) else {
            return;
        };
        if leg.phase == LegPhase::Ringing {
            return self.answer(now, call, out);
        }
        if now >= leg.give_up {
            // It counts as unacknowledged or never ended in the end.
            return self.set_timer(call, None);
        }
        leg.interval = (leg.interval * 2).min(t2);
        let next = (now + leg.interval).min(leg.give_up);
        self.timers.reschedule(timer, next);
        self.tally.retransmitted += 1;
        out.push(|bytes| bytes.extend_from_slice(&leg.message));
    }

    /// Replaces the timer of a call.
    fn set_timer(&mut self, call: u32, timer: Option<QueueHandle>) {
        let leg = self.legs.get_mut(&call);
        let old = leg.and_then(|leg| std::mem::replace(&mut leg.timer, timer));
        if let Some(old) = old {
            self.timers.cancel(old);
        }
    }

    fn respond(&self, request: &Message<'_>, status: Status, out: &mut Outbox) {
        out.push(|bytes| self.write(request, status, bytes));
    }

    fn write(&self, request: &Message<'_>, status: Status, bytes: &mut Vec<u8>) {
        let tag = format!("{:08x}f{}", self.users.run, self.fork);
        let response = ResponseBuilder::new(bytes, request, status, None).to_tag(&tag);
        let makes_dialog = request.method() == Some(Method::Invite)
            && matches!(status, Status::OK | Status::RINGING);
        let device = request.call_id().ok();
        let device = device.and_then(|call_id| self.plan.of_call_id(call_id));
        let Some((_, device)) = device.filter(|_| makes_dialog) else {
            return response.finish();
        };
        let contact = self.users.contact(device, self.local);
        let response = response
            .copy(HeaderName::RecordRoute)
            .header(HeaderName::Contact, format_args!("<{contact}>"));
        match status {
            Status::OK => response.body(SDP_TYPE, SDP),
            _ => response.finish(),
        }
    }
}

fn hash(text: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
