//! Registers the devices of one socket by SIP: a pure state machine, without
//! socket and clock.

use std::collections::HashMap;
use std::net::SocketAddr;

use busyhour::clock::Instant;
use busyhour::timer::TimerQueue;

use crate::agents::pending::{Expired, PendingRequest, Timing};
use crate::agents::register::Register;
use crate::agents::registering_agent::RegisteringAgent;
use crate::plan::users::StormUsers;
use crate::results::journal::Journal;
use crate::results::ledger::Ledger;
use crate::results::tally::Failure;
use crate::wire::batch::Outbox;
use busyhour_sip::auth::{Algorithm, Answer};
use busyhour_sip::{Contacts, DigestChallenge, HeaderName, Message, Method};

/// Plays all SIP devices of one socket.
#[derive(Debug)]
pub(crate) struct SipAgent {
    users: StormUsers,
    local: SocketAddr,
    timing: Timing,
    devices: Vec<Device>,
    pending_requests: HashMap<u32, PendingRequest>,
    timers: TimerQueue<u32>,
    ledger: Ledger,
}

/// The state of a device between two registrations.
#[derive(Debug, Default)]
struct Device {
    cseq: u32,
    /// Whether its last registration was acknowledged, if that is known.
    is_registered: Option<bool>,
    nonce: Option<Box<Nonce>>,
}

/// The last challenge of the server. The device answers it again in later
/// requests, as a phone does.
#[derive(Debug)]
struct Nonce {
    realm: String,
    nonce: String,
    opaque: String,
    algorithm: Algorithm,
    counted: bool,
    uses: u32,
}

impl SipAgent {
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
            devices: Vec::new(),
            pending_requests: HashMap::new(),
            timers: TimerQueue::new(),
            ledger: Ledger::new(journal),
        }
    }

    fn answered(&mut self, now: Instant, index: u32, response: &Message<'_>, out: &mut Outbox) {
        match response.status().unwrap_or(0) {
            100..200 => self.proceed(index),
            200..300 => self.accepted(now, index, response),
            401 => self.challenged(now, index, response, HeaderName::WwwAuthenticate, out),
            407 => self.challenged(now, index, response, HeaderName::ProxyAuthenticate, out),
            423 => self.too_brief(now, index, response, out),
            status => self.fail(index, Failure::Status(status)),
        }
    }

    fn proceed(&mut self, index: u32) {
        if let Some(pending) = self.pending_requests.get_mut(&index) {
            pending.proceed(&self.timing);
        }
    }

    fn accepted(&mut self, now: Instant, index: u32, response: &Message<'_>) {
        if !self.lists_contact(index, response) {
            return self.fail(index, Failure::NotListed);
        }
        if let Some(pending) = self.end(index) {
            self.devices[index as usize].is_registered = Some(true);
            self.ledger.tally.acknowledge(now - pending.due);
            if let Some(journal) = &mut self.ledger.journal {
                journal.acknowledged(self.users.aor(index), pending.cseq);
            }
        }
    }

    fn challenged(
        &mut self,
        now: Instant,
        index: u32,
        response: &Message<'_>,
        header: HeaderName,
        out: &mut Outbox,
    ) {
        let status = Failure::Status(response.status().unwrap_or(0));
        let answerable = |challenge: &DigestChallenge<'_>| self.knows(challenge.algorithm);
        let Some(challenge) = response.challenges(header).flatten().find(answerable) else {
            return self.fail(index, status);
        };
        let spent = self
            .pending_requests
            .get(&index)
            .is_none_or(|pending| pending.answered && !challenge.stale);
        if spent || self.users.password.is_none() {
            return self.fail(index, status);
        }
        self.devices[index as usize].nonce = Nonce::new(&challenge);
        let authorization = self.authorize_again(index);
        self.ledger.tally.challenged += 1;
        self.again(now, index, out, |pending| {
            pending.answered = true;
            pending.authorization = authorization;
        });
    }

    /// Registers once more, with the shortest lifetime that the server
    /// accepts.
    fn too_brief(&mut self, now: Instant, index: u32, response: &Message<'_>, out: &mut Outbox) {
        let least = response.min_expires().ok().flatten().map(u64::from);
        let asked = self
            .pending_requests
            .get(&index)
            .map_or(0, |pending| pending.expires_s);
        match least.filter(|least| *least > asked) {
            Some(least) => self.again(now, index, out, |pending| pending.expires_s = least),
            None => self.fail(index, Failure::Status(423)),
        }
    }

    /// Starts another transaction of the same registration.
    fn again(
        &mut self,
        now: Instant,
        index: u32,
        out: &mut Outbox,
        change: impl FnOnce(&mut PendingRequest),
    ) {
        let cseq = self.next_cseq(index);
        if let Some(pending) = self.pending_requests.get_mut(&index) {
            pending.cseq = cseq;
            change(pending);
        }
        self.transmit(now, index, out);
    }

    fn transmit(&mut self, now: Instant, index: u32, out: &mut Outbox) {
        if let Some(pending) = self.pending_requests.get_mut(&index) {
            let next = pending.begin(now, &self.timing);
            self.timers.reschedule(pending.timer, next);
            self.write(index, out);
        }
    }

    fn write(&self, index: u32, out: &mut Outbox) {
        let Some(pending) = self.pending_requests.get(&index) else {
            return;
        };
        let register = Register {
            index,
            cseq: pending.cseq,
            expires_s: pending.expires_s,
            authorization: pending.authorization.as_deref(),
        };
        out.push(|bytes| register.write(&self.users, self.local, bytes));
    }

    fn fail(&mut self, index: u32, failure: Failure) {
        self.end(index);
        let device = &mut self.devices[index as usize];
        (device.nonce, device.is_registered) = (None, None);
        self.ledger.tally.fail(failure);
    }

    fn end(&mut self, index: u32) -> Option<PendingRequest> {
        let pending = self.pending_requests.remove(&index)?;
        self.timers.cancel(pending.timer);
        Some(pending)
    }

    fn next_cseq(&mut self, index: u32) -> u32 {
        let index = index as usize;
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, Device::default);
        }
        self.devices[index].cseq += 1;
        self.devices[index].cseq
    }

    /// Authorizes the request with the last challenge, if there was one.
    fn authorize_again(&mut self, index: u32) -> Option<Box<str>> {
        let password = self.users.password(index)?;
        let nonce = self.devices.get_mut(index as usize)?.nonce.as_deref_mut()?;
        nonce.uses += 1;
        let user = self.users.user(index).to_string();
        let uri = format!("sip:{}", self.users.domain);
        let challenge = nonce.challenge();
        let answer = Answer::new(
            &challenge,
            &user,
            &password,
            Method::Register.as_str(),
            &uri,
        )?;
        let cnonce = format!("{:08x}{index:x}", self.users.run);
        Some(answer.counted(nonce.uses, &cnonce).to_string().into())
    }

    fn knows(&self, algorithm: &str) -> bool {
        let known = Algorithm::from_name(algorithm);
        known.is_some_and(|known| self.users.algorithm.is_none_or(|wanted| wanted == known))
    }

    /// The device and the transaction that a response to a REGISTER of this
    /// run answers.
    fn transaction_of(&self, response: &Message<'_>) -> Option<(u32, u32)> {
        response.status()?;
        let (index, number) = self.users.of_branch(response.via().ok()?.branch()?)?;
        let cseq = response.cseq().ok()?;
        let known = (index as usize) < self.devices.len();
        let same = cseq.number == number && cseq.method == Method::Register;
        let call_id = response.call_id().ok()?;
        let ours = known && same && shows(self.users.call_id(index), call_id);
        ours.then_some((index, number))
    }

    fn lists_contact(&self, index: u32, response: &Message<'_>) -> bool {
        let Ok(Contacts::List(contacts)) = response.contacts() else {
            return false;
        };
        let ours = self.users.contact(index, self.local).to_string();
        contacts
            .flatten()
            .any(|contact| contact.address.uri_text == ours && contact.expires() != Some(0))
    }
}

impl RegisteringAgent for SipAgent {
    fn register(&mut self, now: Instant, due: Instant, index: u32, out: &mut Outbox) -> bool {
        if self.pending_requests.contains_key(&index) {
            return false;
        }
        let cseq = self.next_cseq(index);
        let timer = self.timers.add(Instant::FAR_FUTURE, index);
        let mut pending = PendingRequest::new(due, cseq, self.users.expires_s, timer);
        pending.authorization = self.authorize_again(index);
        self.pending_requests.insert(index, pending);
        self.ledger.tally.sent += 1;
        if let Some(journal) = &mut self.ledger.journal {
            journal.offered(self.users.aor(index));
        }
        self.transmit(now, index, out);
        true
    }

    fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox) {
        let Ok(response) = Message::parse(datagram) else {
            self.ledger.tally.unexpected += 1;
            return;
        };
        let Some((index, cseq)) = self.transaction_of(&response) else {
            self.ledger.tally.unexpected += 1;
            return;
        };
        let current = self
            .pending_requests
            .get(&index)
            .is_some_and(|pending| pending.cseq == cseq);
        if current {
            self.answered(now, index, &response, out)
        } else {
            self.ledger.tally.late += 1
        }
    }

    fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&index) = self.timers.get(handle) else {
                return;
            };
            let Some(pending) = self.pending_requests.get_mut(&index) else {
                continue;
            };
            match pending.expire(now, &self.timing) {
                Expired::GiveUp => self.fail(index, Failure::Timeout),
                Expired::Retransmit(next) => {
                    self.timers.reschedule(handle, next);
                    self.ledger.tally.retransmitted += 1;
                    self.write(index, out);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn in_flight(&self) -> usize {
        self.pending_requests.len()
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// A failed registration gives `None`: the server may have accepted it
    /// all the same.
    fn is_registered(&self, index: u32) -> Option<bool> {
        self.devices.get(index as usize)?.is_registered
    }
}

impl Nonce {
    fn new(challenge: &DigestChallenge<'_>) -> Option<Box<Self>> {
        Some(Box::new(Self {
            realm: challenge.realm.to_owned(),
            nonce: challenge.nonce.to_owned(),
            opaque: challenge.opaque.to_owned(),
            algorithm: Algorithm::from_name(challenge.algorithm)?,
            counted: challenge.offers_auth(),
            uses: 0,
        }))
    }

    fn challenge(&self) -> DigestChallenge<'_> {
        DigestChallenge {
            realm: &self.realm,
            nonce: &self.nonce,
            opaque: &self.opaque,
            algorithm: self.algorithm.name(),
            qop: if self.counted { "auth" } else { "" },
            stale: false,
        }
    }
}

/// Whether `shown` displays as `text`, without building a string.
fn shows(shown: impl std::fmt::Display, text: &str) -> bool {
    struct Rest<'a>(&'a str);
    impl std::fmt::Write for Rest<'_> {
        fn write_str(&mut self, piece: &str) -> std::fmt::Result {
            self.0 = self.0.strip_prefix(piece).ok_or(std::fmt::Error)?;
            Ok(())
        }
    }
    let mut rest = Rest(text);
    std::fmt::Write::write_fmt(&mut rest, format_args!("{shown}")).is_ok() && rest.0.is_empty()
}
