//! Plays all callers, at one socket: a pure state machine. Each call is an INVITE,
//! answered or given up, and, if it was answered, an ACK and, at once or later, a BYE.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use busyhour::clock::Instant;
use busyhour::timer::{QueueHandle, TimerQueue};

use crate::agents::call_request::CallRequest;
use crate::agents::lamps::{Happened, LampState};
use crate::agents::pending::Timing;
use crate::plan::call_plan::CallPlan;
use crate::plan::users::StormUsers;
use crate::results::call_tally::{CallFailure, CallTally, note};
use crate::wire::batch::Outbox;
use busyhour_sip::auth::{Algorithm, Answer};
use busyhour_sip::{Contacts, DigestChallenge, HeaderName, Message, Method};

/// Plays all callers of one socket.
#[derive(Debug)]
pub(crate) struct CallerAgent {
    users: StormUsers,
    plan: CallPlan,
    /// How many devices there are. The user that calls a device follows them all, so that
    /// no call changes the lamp of another device.
    devices: u32,
    local: SocketAddr,
    timing: Timing,
    calls: HashMap<u32, Call>,
    /// How many of them last.
    talking: usize,
    /// Which devices are in a call.
    engaged: Vec<bool>,
    /// The tag that answered each call, as a hash.
    answered_by: HashMap<u32, u64>,
    timers: TimerQueue<u32>,
    pub tally: CallTally,
    /// What happened to the calls since the driver looked.
    pub happened: Vec<Happened>,
}

#[derive(Debug)]
struct Call {
    device: u32,
    due: Instant,
    phase: CallPhase,
    /// The number of the current INVITE, or of BYE.
    cseq: u32,
    timer: QueueHandle,
    interval: Duration,
    give_up: Instant,
    has_rung: bool,
    authorization: Option<Box<str>>,
    dialog: Option<AnsweredDialog>,
    failure: Option<CallFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPhase {
    /// INVITE was sent, and nothing has come.
    Inviting,
    /// A provisional response has come.
    Proceeding,
    /// CANCEL was sent.
    GivingUp,
    /// It was answered and lasts.
    Talking,
    /// BYE was sent.
    Ending,
}

/// The called side's half of a dialog.
#[derive(Debug)]
struct AnsweredDialog {
    to: Box<str>,
    target: Box<str>,
    route: Box<str>,
}

impl AnsweredDialog {
    /// Of a 200; the caller's route is Record-Route in reverse (RFC 3261 §12.1.2).
    fn of(response: &Message<'_>) -> Option<Self> {
        let Ok(Contacts::List(mut contacts)) = response.contacts() else {
            return None;
        };
        response.to().ok()?.tag()?;
        let mut routes: Vec<_> = response.elements(HeaderName::RecordRoute).collect();
        routes.reverse();
        Some(Self {
            to: response.header(HeaderName::To)?.into(),
            target: contacts.next()?.ok()?.address.uri_text.into(),
            route: routes.join(", ").into(),
        })
    }
}

impl CallerAgent {
    pub fn new(
        users: StormUsers,
        plan: CallPlan,
        devices: u32,
        local: SocketAddr,
        timing: Timing,
    ) -> Self {
        Self {
            users,
            plan,
            devices,
            local,
            timing,
            calls: HashMap::new(),
            talking: 0,
            engaged: vec![false; devices as usize],
            answered_by: HashMap::new(),
            timers: TimerQueue::new(),
            tally: CallTally::new(),
            happened: Vec::new(),
        }
    }

    /// Whether a device is in a call.
    pub fn is_engaged(&self, device: u32) -> bool {
        self.engaged.get(device as usize).copied().unwrap_or(true)
    }

    /// The number of the next call.
    pub fn next_call(&self) -> u32 {
        self.tally.begun as u32
    }

    /// Calls a device that is not in a call.
    pub fn call(&mut self, now: Instant, due: Instant, device: u32, out: &mut Outbox) {
        let number = self.next_call();
        self.tally.begun += 1;
        if let Some(engaged) = self.engaged.get_mut(device as usize) {
            *engaged = true;
        }
        let call = Call {
            device,
            due,
            phase: CallPhase::Inviting,
            cseq: 1,
            timer: self.timers.add(Instant::FAR_FUTURE, number),
            interval: Duration::ZERO,
            give_up: Instant::FAR_FUTURE,
            has_rung: false,
            authorization: None,
            dialog: None,
            failure: None,
        };
        self.calls.insert(number, call);
        self.transmit(now, number, out);
    }

    /// Calls that are not over.
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Calls that were answered and last.
    pub fn talking(&self) -> usize {
        self.talking
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    pub fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox) {
        let Ok(message) = Message::parse(datagram) else {
            self.tally.unexpected += 1;
            return;
        };
        let Some((number, device, cseq, method)) = self.transaction_of(&message) else {
            self.tally.unexpected += 1;
            return;
        };
        let status = message.status().unwrap_or(0);
        if method == Method::Invite && status >= 300 {
            // Each refusal is acknowledged, also when it comes again.
            let to = message.header(HeaderName::To);
            self.write(Method::Ack, number, device, cseq, cseq, to, out);
        }
        match method {
            Method::Invite if (200..300).contains(&status) => {
                self.answered(now, number, device, &message, out);
            }
            Method::Invite => self.invite_answered(now, number, cseq, status, &message, out),
            Method::Bye => self.bye_answered(now, number, cseq, status),
            // The INVITE's own answer says what became of it.
            Method::Cancel => {}
            _ => self.tally.unexpected += 1,
        }
    }

    /// Sends unanswered requests again when they are due, or gives them up.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&number) = self.timers.get(handle) else {
                return;
            };
            self.expired(now, number, handle, out);
        }
    }

    fn expired(&mut self, now: Instant, number: u32, timer: QueueHandle, out: &mut Outbox) {
        let t2 = self.timing.t2;
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if call.phase == CallPhase::Talking {
            return self.hang_up(now, number, out);
        }
        if now >= call.give_up {
            let failure = match call.phase {
                CallPhase::Ending => CallFailure::ByeTimeout,
                _ => CallFailure::InviteTimeout,
            };
            return self.fail(now, number, failure);
        }
        // Timer A has no upper limit, timer E has (RFC 3261 §17.1.1.2, §17.1.2.2).
        call.interval = match call.phase {
            CallPhase::Inviting => call.interval * 2,
            _ => (call.interval * 2).min(t2),
        };
        let next = (now + call.interval).min(call.give_up);
        self.timers.reschedule(timer, next);
        self.tally.retransmitted += 1;
        self.write_current(number, out);
    }

    fn invite_answered(
        &mut self,
        now: Instant,
        number: u32,
        cseq: u32,
        status: u16,
        response: &Message<'_>,
        out: &mut Outbox,
    ) {
        let current = self.calls.get(&number).filter(|call| call.cseq == cseq);
        let Some(phase) = current
            .map(|call| call.phase)
            .filter(|one| !matches!(one, CallPhase::Talking | CallPhase::Ending))
        else {
            self.tally.late += 1;
            return;
        };
        match status {
            ..200 => self.proceeded(now, number, status, out),
            407 if phase != CallPhase::GivingUp => self.challenged(now, number, response, out),
            487 if phase == CallPhase::GivingUp => {
                self.tally.given_up += 1;
                self.end(now, number);
            }
            status => self.fail(now, number, CallFailure::Invite(status)),
        }
    }

    /// A provisional response ends the retransmissions (RFC 3261 §17.1.1.2).
    fn proceeded(&mut self, now: Instant, number: u32, status: u16, out: &mut Outbox) {
        let patience = self.timing.give_up + self.plan.ring;
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if call.phase == CallPhase::Inviting {
            call.phase = CallPhase::Proceeding;
            call.give_up = now + patience;
            self.timers.reschedule(call.timer, call.give_up);
        }
        if status != 180 || call.has_rung {
            return;
        }
        call.has_rung = true;
        note(&mut self.tally.ringing_ns, now - call.due);
        if self.plan.is_given_up(number) {
            call.phase = CallPhase::GivingUp;
            let (device, stage) = (call.device, LampState::Terminated);
            self.transmit(now, number, out);
            self.happened.push(Happened { device, stage });
        }
    }

    fn challenged(&mut self, now: Instant, number: u32, response: &Message<'_>, out: &mut Outbox) {
        let answer = self.authorize(number, response);
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        // A second challenge means that the password is wrong.
        if answer.is_none() || call.authorization.is_some() {
            return self.fail(now, number, CallFailure::Invite(407));
        }
        call.authorization = answer;
        call.cseq += 1;
        call.phase = CallPhase::Inviting;
        self.tally.challenged += 1;
        self.transmit(now, number, out);
    }

    fn authorize(&self, number: u32, response: &Message<'_>) -> Option<Box<str>> {
        let device = self.calls.get(&number)?.device;
        let caller = self.caller(device);
        let password = self.users.password(caller)?;
        let knows = |challenge: &DigestChallenge<'_>| {
            let known = Algorithm::from_name(challenge.algorithm);
            known.is_some_and(|known| self.users.algorithm.is_none_or(|wanted| wanted == known))
        };
        let mut challenges = response.challenges(HeaderName::ProxyAuthenticate).flatten();
        let challenge = challenges.find(knows)?;
        let user = self.users.user(caller).to_string();
        let uri = self.users.aor(device).to_string();
        let method = Method::Invite.as_str();
        let answer = Answer::new(&challenge, &user, &password, method, &uri)?;
        let cnonce = format!("{:08x}{number:x}", self.users.run);
        Some(answer.counted(1, &cnonce).to_string().into())
    }

    /// A 200 for INVITE: ACK, and BYE when the call has lasted long enough.
    fn answered(
        &mut self,
        now: Instant,
        number: u32,
        device: u32,
        response: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(dialog) = AnsweredDialog::of(response) else {
            return self.fail(now, number, CallFailure::Unusable);
        };
        let tag = hash(&dialog.to);
        match self.answered_by.insert(number, tag) {
            None => {}
            Some(before) if before == tag => return self.answered_again(number, out),
            Some(before) => {
                self.answered_by.insert(number, before);
                return self.answered_twice(number, device, &dialog, out);
            }
        }
        let given_up = self.plan.is_given_up(number);
        let Some(call) = self.calls.get_mut(&number) else {
            self.tally.late += 1;
            return;
        };
        note(&mut self.tally.answer_ns, now - call.due);
        call.failure = given_up.then_some(CallFailure::AnsweredAfterAll);
        call.dialog = Some(dialog);
        self.acknowledge(number, out);
        match self.plan.talk {
            Duration::ZERO => self.end_dialog(now, number, out),
            talk => self.talk_until(now + talk, number),
        }
    }

    fn talk_until(&mut self, end: Instant, number: u32) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.phase = CallPhase::Talking;
            self.timers.reschedule(call.timer, end);
            self.talking += 1;
        }
    }

    fn hang_up(&mut self, now: Instant, number: u32, out: &mut Outbox) {
        self.talking -= 1;
        self.end_dialog(now, number, out);
    }

    /// Sends BYE.
    fn end_dialog(&mut self, now: Instant, number: u32, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        call.phase = CallPhase::Ending;
        call.cseq += 1;
        let (device, stage) = (call.device, LampState::Terminated);
        self.transmit(now, number, out);
        self.happened.push(Happened { device, stage });
    }

    /// The same 200 once more, which an ACK ends.
    fn answered_again(&mut self, number: u32, out: &mut Outbox) {
        self.tally.repeated += 1;
        if self.calls.contains_key(&number) {
            self.acknowledge(number, out);
        }
    }

    /// Another contact has answered, too. It is told that the call is over, as a
    /// telephone does (RFC 3261 §13.2.2.4).
    fn answered_twice(
        &mut self,
        number: u32,
        device: u32,
        dialog: &AnsweredDialog,
        out: &mut Outbox,
    ) {
        self.tally.fail(CallFailure::AnsweredTwice);
        for (method, cseq, branch) in [
            (Method::Ack, 1, OTHER_DIALOG),
            (Method::Bye, 2, OTHER_DIALOG + 1),
        ] {
            let request = CallRequest {
                dialog: Some((&dialog.target, &dialog.route)),
                ..self.request(method, number, device, cseq, branch, Some(&dialog.to))
            };
            out.push(|bytes| request.write(&self.users, &self.plan, self.local, bytes));
        }
    }

    fn bye_answered(&mut self, now: Instant, number: u32, cseq: u32, status: u16) {
        let call = self.calls.get(&number);
        let current = call.filter(|call| call.phase == CallPhase::Ending && call.cseq == cseq);
        let Some(call) = current else {
            self.tally.late += 1;
            return;
        };
        match (status, call.failure) {
            (..200, _) => {}
            (200..300, None) => {
                self.tally.answered += 1;
                self.end(now, number);
            }
            (200..300, Some(failure)) => self.fail(now, number, failure),
            (status, _) => self.fail(now, number, CallFailure::Bye(status)),
        }
    }

    fn fail(&mut self, now: Instant, number: u32, failure: CallFailure) {
        if self.calls.contains_key(&number) {
            self.tally.fail(failure);
            self.end(now, number);
        }
    }

    fn end(&mut self, _now: Instant, number: u32) {
        let Some(call) = self.calls.remove(&number) else {
            return;
        };
        self.timers.cancel(call.timer);
        if let Some(engaged) = self.engaged.get_mut(call.device as usize) {
            *engaged = false;
        }
        let (device, stage) = (call.device, LampState::Terminated);
        self.happened.push(Happened { device, stage });
    }

    /// Sends the request of the current phase and sets its timers.
    fn transmit(&mut self, now: Instant, number: u32, out: &mut Outbox) {
        let Timing { t1, give_up, .. } = self.timing;
        if let Some(call) = self.calls.get_mut(&number) {
            call.interval = t1;
            call.give_up = now + give_up;
            self.timers.reschedule(call.timer, now + t1);
        }
        self.write_current(number, out);
    }

    fn write_current(&self, number: u32, out: &mut Outbox) {
        let Some(call) = self.calls.get(&number) else {
            return;
        };
        let method = match call.phase {
            CallPhase::Inviting | CallPhase::Proceeding => Method::Invite,
            CallPhase::GivingUp => Method::Cancel,
            CallPhase::Talking | CallPhase::Ending => Method::Bye,
        };
        self.write_of(call, method, number, call.cseq, call.cseq, out);
    }

    fn acknowledge(&self, number: u32, out: &mut Outbox) {
        let Some(call) = self.calls.get(&number) else {
            return;
        };
        // The ACK has the number of its INVITE, which BYE follows.
        let cseq = match call.phase {
            CallPhase::Ending => call.cseq - 1,
            _ => call.cseq,
        };
        self.write_of(call, Method::Ack, number, cseq, ACK + cseq, out);
    }

    /// Writes a request with what the call knows of its dialog.
    fn write_of(
        &self,
        call: &Call,
        method: Method<'static>,
        number: u32,
        cseq: u32,
        branch: u32,
        out: &mut Outbox,
    ) {
        let dialog = call.dialog.as_ref();
        let authorization = call.authorization.as_deref();
        let request = CallRequest {
            dialog: dialog.map(|dialog| (&*dialog.target, &*dialog.route)),
            authorization: authorization.filter(|_| method == Method::Invite),
            ..self.request(
                method,
                number,
                call.device,
                cseq,
                branch,
                dialog.map(|dialog| &*dialog.to),
            )
        };
        out.push(|bytes| request.write(&self.users, &self.plan, self.local, bytes));
    }

    /// Writes a request of which the call need not be there any more.
    #[expect(clippy::too_many_arguments, reason = "each is a field of the request")]
    fn write(
        &self,
        method: Method<'static>,
        number: u32,
        device: u32,
        cseq: u32,
        branch: u32,
        to: Option<&str>,
        out: &mut Outbox,
    ) {
        let request = self.request(method, number, device, cseq, branch, to);
        out.push(|bytes| request.write(&self.users, &self.plan, self.local, bytes));
    }

    fn request<'a>(
        &self,
        method: Method<'static>,
        call: u32,
        device: u32,
        cseq: u32,
        branch: u32,
        to: Option<&'a str>,
    ) -> CallRequest<'a> {
        CallRequest {
            method,
            call,
            device,
            caller: self.caller(device),
            cseq,
            branch,
            to,
            dialog: None,
            authorization: None,
        }
    }

    fn caller(&self, device: u32) -> u32 {
        self.devices + device
    }

    /// The call, the device, and the transaction that a response answers.
    fn transaction_of<'a>(&self, response: &Message<'a>) -> Option<(u32, u32, u32, Method<'a>)> {
        response.status()?;
        let (number, _) = self.users.of_branch(response.via().ok()?.branch()?)?;
        let (call, device) = self.plan.of_call_id(response.call_id().ok()?)?;
        let cseq = response.cseq().ok()?;
        let known = u64::from(number) < self.tally.begun && number == call;
        (known && device < self.devices).then_some((number, device, cseq.number, cseq.method))
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Added to the number in the branch of an ACK for a 200, which is a transaction of its
/// own (RFC 3261 §13.2.2.4).
const ACK: u32 = 1 << 16;
/// The number in the branches of requests to a second contact that answered.
const OTHER_DIALOG: u32 = 1 << 17;
