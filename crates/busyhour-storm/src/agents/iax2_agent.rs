//! Registers the devices of one socket by IAX2 (RFC 5456): a pure state
//! machine, without socket and clock.
//!
//! Each registration is a call with its own number. The numbers are used in
//! turn, so that each is reused as late as possible.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use busyhour::clock::Instant;
use busyhour::timer::TimerQueue;

use crate::agents::iax2_pending::{Iax2Pending, Stage};
use crate::agents::pending::{Expired, Timing};
use crate::agents::registering_agent::RegisteringAgent;
use crate::plan::users::StormUsers;
use crate::results::journal::Journal;
use crate::results::ledger::Ledger;
use crate::results::tally::Failure;
use crate::wire::batch::Outbox;
use busyhour_iax2::frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind};
use busyhour_sip::auth::challenge_response;

/// Plays all IAX2 devices of one socket.
#[derive(Debug)]
pub(crate) struct Iax2Agent {
    users: StormUsers,
    local: SocketAddr,
    timing: Timing,
    /// How often each device has begun to register.
    begun: Vec<u32>,
    busy: HashSet<u32>,
    /// Devices whose last registration was acknowledged.
    registered: HashSet<u32>,
    pending_calls: HashMap<u16, Iax2Pending>,
    free_calls: VecDeque<u16>,
    timers: TimerQueue<u16>,
    ledger: Ledger,
}

impl Iax2Agent {
    pub fn new(
        users: StormUsers,
        local: SocketAddr,
        timing: Timing,
        journal: Option<Journal>,
    ) -> Self {
        Self {
            users,
            local,
            timing,
            begun: Vec::new(),
            busy: HashSet::new(),
            registered: HashSet::new(),
            pending_calls: HashMap::new(),
            free_calls: (1..=LAST_CALL).collect(),
            timers: TimerQueue::new(),
            ledger: Ledger::new(journal),
        }
    }

    fn answered(&mut self, now: Instant, frame: &FullFrame<'_>, out: &mut Outbox) {
        let elements = Elements::parse(frame.payload).unwrap_or_default();
        match frame.kind {
            Kind::Iax(Command::CallToken) => self.send_call_token(now, frame, &elements, out),
            Kind::Iax(Command::RegisterAuth) => self.answer_challenge(now, frame, &elements, out),
            Kind::Iax(Command::RegisterAck) => {
                acknowledge(frame, out);
                self.accepted(now, frame.destination_call, &elements);
            }
            Kind::Iax(Command::RegisterReject) => {
                acknowledge(frame, out);
                let code = elements.number(Element::CauseCode).unwrap_or(0);
                self.fail(frame.destination_call, Failure::Rejected(code));
            }
            Kind::Iax(Command::Ack) => self.wait(frame.destination_call),
            Kind::Iax(Command::VoiceNak) => self.send_again(frame.destination_call, out),
            Kind::Iax(Command::Invalid) => self.fail(frame.destination_call, Failure::Invalid),
            _ => self.ledger.tally.unexpected += 1,
        }
    }

    /// Sends the first frame again, with the call token.
    fn send_call_token(
        &mut self,
        now: Instant,
        frame: &FullFrame<'_>,
        elements: &Elements<'_>,
        out: &mut Outbox,
    ) {
        let call = frame.destination_call;
        let is_awaited = |pending: &Iax2Pending| pending.stage == Stage::Requested;
        let token = elements.data(Element::CallToken);
        match (token, self.pending_calls.get(&call).is_some_and(is_awaited)) {
            (Some(token), true) => {
                let elements = self.request(call, Element::CallToken, token);
                self.transmit(now, call, Stage::TokenSent, &elements, out);
            }
            _ => self.ledger.tally.late += 1,
        }
    }

    fn answer_challenge(
        &mut self,
        now: Instant,
        frame: &FullFrame<'_>,
        elements: &Elements<'_>,
        out: &mut Outbox,
    ) {
        let call = frame.destination_call;
        let Some(pending) = self.pending_calls.get_mut(&call) else {
            return;
        };
        if pending.stage == Stage::ChallengeAnswered {
            self.ledger.tally.late += 1;
            return;
        }
        pending.learn(frame.source_call);
        let password = self.users.password(pending.index);
        let challenge = elements.text(Element::Challenge);
        let Some((challenge, password)) = challenge.zip(password) else {
            return self.fail(call, Failure::Unanswerable);
        };
        let result = challenge_response(challenge, &password);
        let elements = self.request(call, Element::Md5Result, result.as_bytes());
        self.ledger.tally.challenged += 1;
        self.transmit(now, call, Stage::ChallengeAnswered, &elements, out);
    }

    /// A registration counts only if the answer has the user name, the
    /// lifetime and the address that the server saw.
    fn accepted(&mut self, now: Instant, call: u16, elements: &Elements<'_>) {
        let Some(pending) = self.pending_calls.get(&call) else {
            return;
        };
        let name = self.users.user(pending.index).to_string();
        let is_named = elements.text(Element::Username) == Some(&name);
        let lasts = elements.number(Element::Refresh).unwrap_or(0) > 0;
        let is_here = elements
            .apparent_address()
            .is_some_and(|seen| self.is_ours(seen));
        if !(is_named && lasts && is_here) {
            return self.fail(call, Failure::NotListed);
        }
        let (index, due) = (pending.index, pending.due);
        self.end(call);
        self.registered.insert(index);
        self.ledger.tally.acknowledge(now - due);
        let number = self.begun.get(index as usize).copied().unwrap_or(0);
        if let Some(journal) = &mut self.ledger.journal {
            journal.acknowledged(self.users.aor(index), number);
        }
    }

    /// Whether an address may be ours. A NAT may change everything but the IP
    /// version. There is no NAT on loopback, so the address must be the same
    /// there.
    fn is_ours(&self, seen: SocketAddr) -> bool {
        match self.local.ip().is_loopback() {
            true => seen == self.local,
            false => seen.is_ipv4() == self.local.is_ipv4(),
        }
    }

    fn request(&self, call: u16, element: Element, data: &[u8]) -> Vec<u8> {
        let mut elements = Vec::with_capacity(96);
        let index = self
            .pending_calls
            .get(&call)
            .map_or(0, |pending| pending.index);
        let refresh_s = u16::try_from(self.users.expires_s).unwrap_or(u16::MAX);
        ElementWriter::new(&mut elements)
            .text(Element::Username, &self.users.user(index).to_string())
            .number16(Element::Refresh, refresh_s)
            .data(element, data);
        elements
    }

    fn transmit(
        &mut self,
        now: Instant,
        call: u16,
        stage: Stage,
        elements: &[u8],
        out: &mut Outbox,
    ) {
        if let Some(pending) = self.pending_calls.get_mut(&call) {
            let datagram = pending.compose(now, call, stage, elements);
            out.push(|bytes| bytes.extend_from_slice(datagram));
            let next = pending.begin(now, &self.timing);
            self.timers.reschedule(pending.timer, next);
        }
    }

    fn wait(&mut self, call: u16) {
        if let Some(pending) = self.pending_calls.get(&call) {
            self.timers
                .reschedule(pending.timer, pending.acknowledged());
        }
    }

    fn send_again(&mut self, call: u16, out: &mut Outbox) {
        if let Some(pending) = self.pending_calls.get_mut(&call) {
            self.ledger.tally.retransmitted += 1;
            out.push(|bytes| bytes.extend_from_slice(pending.again()));
        }
    }

    fn fail(&mut self, call: u16, failure: Failure) {
        if self.end(call) {
            self.ledger.tally.fail(failure);
        }
    }

    /// Ends a call, whose number may then be used again; `false` if there was
    /// no such call.
    fn end(&mut self, call: u16) -> bool {
        let Some(pending) = self.pending_calls.remove(&call) else {
            return false;
        };
        self.timers.cancel(pending.timer);
        self.busy.remove(&pending.index);
        self.free_calls.push_back(call);
        true
    }

    fn count_begun(&mut self, index: u32) {
        let index = index as usize;
        if self.begun.len() <= index {
            self.begun.resize(index + 1, 0);
        }
        self.begun[index] += 1;
    }
}

impl RegisteringAgent for Iax2Agent {
    fn register(&mut self, now: Instant, due: Instant, index: u32, out: &mut Outbox) -> bool {
        if self.busy.contains(&index) {
            return false;
        }
        self.count_begun(index);
        self.ledger.tally.sent += 1;
        if let Some(journal) = &mut self.ledger.journal {
            journal.offered(self.users.aor(index));
        }
        let Some(call) = self.free_calls.pop_front() else {
            self.ledger.tally.fail(Failure::NoCall);
            return true;
        };
        let timer = self.timers.add(Instant::FAR_FUTURE, call);
        self.busy.insert(index);
        self.pending_calls
            .insert(call, Iax2Pending::new(index, due, now, timer));
        let elements = self.request(call, Element::CallToken, &[]);
        self.transmit(now, call, Stage::Requested, &elements, out);
        true
    }

    fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox) {
        let Ok(Frame::Full(frame)) = Frame::parse(datagram) else {
            self.ledger.tally.unexpected += 1;
            return;
        };
        if self.pending_calls.contains_key(&frame.destination_call) {
            return self.answered(now, &frame, out);
        }
        self.ledger.tally.late += 1;
        if let Kind::Iax(Command::RegisterAck | Command::RegisterReject) = frame.kind {
            acknowledge(&frame, out);
        }
    }

    fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&call) = self.timers.get(handle) else {
                return;
            };
            let Some(pending) = self.pending_calls.get_mut(&call) else {
                self.timers.cancel(handle);
                continue;
            };
            match pending.expire(now, &self.timing) {
                Expired::GiveUp => self.fail(call, Failure::Timeout),
                Expired::Retransmit(next) => {
                    self.timers.reschedule(handle, next);
                    self.send_again(call, out);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn in_flight(&self) -> usize {
        self.pending_calls.len()
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// A failed registration gives `None`: the server may have accepted it
    /// all the same.
    fn is_registered(&self, index: u32) -> Option<bool> {
        self.registered.contains(&index).then_some(true)
    }
}

/// Acknowledges the last frame of a call.
fn acknowledge(frame: &FullFrame<'_>, out: &mut Outbox) {
    let ack = FullFrame {
        source_call: frame.destination_call,
        destination_call: frame.source_call,
        timestamp: frame.timestamp,
        outbound: frame.inbound,
        inbound: frame.outbound.wrapping_add(1),
        ..FullFrame::default()
    };
    out.push(|bytes| ack.write(bytes));
}

/// Call numbers have 15 bits; 0 is not a call number.
const LAST_CALL: u16 = 0x7fff;
