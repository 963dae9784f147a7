//! Watchers of the devices as one pure machine: each subscribes once, answers
//! its NOTIFYs, and believes what the last one said. In the end it asks again,
//! since one that the server has forgotten hears nothing and looks content.

use std::fmt::Display;
use std::net::SocketAddr;

use busyhour::clock::Instant;
use busyhour::timer::Queue;

use super::batch::Outbox;
use super::fleet::Fleet;
use super::flight::{Expired, Flight, Timing};
use super::pattern::shown;
use crate::auth::{Algorithm, Answer};
use crate::proto::sip::{
    Contacts, DigestChallenge, HeaderName, Message, Method, RequestBuilder, ResponseBuilder, Status,
};

/// All watchers, at one socket. Watcher `w` watches device `w % devices`, with
/// that device's own account.
#[derive(Debug)]
pub(super) struct WatchEngine {
    /// The devices, numbered as one thread would play them.
    fleet: Fleet,
    devices: u32,
    local: SocketAddr,
    timing: Timing,
    watchers: Vec<Watcher>,
    timers: Queue<u32>,
    in_flight: usize,
    pub tally: WatchTally,
}

/// What happened to the watchers, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchTally {
    /// Watchers whose SUBSCRIBE was answered with 200.
    pub subscribed: u64,
    /// Watchers whose SUBSCRIBE was not.
    pub failed: u64,
    /// NOTIFY requests, each once.
    pub notified: u64,
    /// NOTIFY requests that came again.
    pub again: u64,
    /// Subscriptions that the server ended, or no longer knows.
    pub ended: u64,
    /// Datagrams that belong to no watcher.
    pub unexpected: u64,
    /// Sends and receives that the system refused.
    pub socket_errors: u64,
    /// When the last NOTIFY came.
    pub last_at: Instant,
}

#[derive(Debug, Default)]
struct Watcher {
    flight: Option<Flight>,
    cseq: u32,
    notified_cseq: u32,
    /// A SUBSCRIBE was sent, and since then no NOTIFY has come.
    awaits_notify: bool,
    /// Whether the device can be reached, as the last NOTIFY said.
    told: Option<bool>,
    /// From the first 200 on.
    dialog: Option<Dialog>,
    /// The server ended the subscription, or no longer knows it.
    has_ended: bool,
}

/// The server's half of a dialog.
#[derive(Debug)]
struct Dialog {
    tag: Box<str>,
    /// Its Contact, where requests in the dialog go.
    target: Box<str>,
}

impl Dialog {
    fn of(response: &Message<'_>) -> Option<Self> {
        let Ok(Contacts::List(mut contacts)) = response.contacts() else {
            return None;
        };
        Some(Self {
            tag: response.to().ok()?.tag()?.into(),
            target: contacts.next()?.ok()?.address.uri.to_string().into(),
        })
    }
}

impl WatchEngine {
    pub fn new(fleet: Fleet, devices: u32, local: SocketAddr, timing: Timing) -> Self {
        Self {
            fleet,
            devices: devices.max(1),
            local,
            timing,
            watchers: Vec::new(),
            timers: Queue::new(),
            in_flight: 0,
            tally: WatchTally::default(),
        }
    }

    /// One more watcher subscribes.
    pub fn subscribe(&mut self, now: Instant, out: &mut Outbox) {
        let index = self.watchers.len() as u32;
        self.watchers.push(Watcher::default());
        self.begin(now, index, out);
    }

    /// Has a watcher subscribe again in its dialog, if it is right about its
    /// device: whether the server knows it still. One that it does not know has
    /// ended.
    pub fn ask_again(
        &mut self,
        now: Instant,
        index: u32,
        truth: impl Fn(u32) -> Option<bool>,
        out: &mut Outbox,
    ) {
        let watcher = self.watchers.get(index as usize);
        let is_idle = |watcher: &&Watcher| watcher.flight.is_none() && watcher.dialog.is_some();
        if watcher.filter(is_idle).is_some() && !self.is_wrong(index, truth) {
            self.begin(now, index, out);
        }
    }

    fn begin(&mut self, now: Instant, index: u32, out: &mut Outbox) {
        let timer = self.timers.add(Instant::FAR_FUTURE, index);
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        // One that is still told nothing of what it asked before is counted.
        self.in_flight += usize::from(!watcher.awaits_notify);
        watcher.awaits_notify = true;
        watcher.cseq += 1;
        watcher.flight = Some(Flight::new(now, watcher.cseq, EXPIRES_S, timer));
        self.transmit(now, index, out);
    }

    pub fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox) {
        let Ok(message) = Message::parse(datagram) else {
            self.tally.unexpected += 1;
            return;
        };
        match message.method() {
            Some(Method::Notify) => self.notified(now, &message, out),
            None => self.answered(now, &message, out),
            Some(_) => self.tally.unexpected += 1,
        }
    }

    /// Sends again what was not answered in time, or gives it up.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        let timing = self.timing;
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&index) = self.timers.get(handle) else {
                return;
            };
            let Some(flight) = self.flight(index) else {
                continue;
            };
            match flight.expire(now, &timing) {
                Expired::GiveUp => self.fail(index),
                Expired::Retransmit(next) => {
                    self.timers.reschedule(handle, next);
                    self.write(index, out);
                }
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Subscriptions that are not answered yet, or of which nothing was told.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many watchers there are.
    pub fn len(&self) -> u32 {
        self.watchers.len() as u32
    }

    /// Watchers who believe of their device what is not `truth` of its index,
    /// where that is known; and those whose subscription is over, who would not
    /// hear of a change.
    pub fn wrong(&self, truth: impl Fn(u32) -> Option<bool>) -> u64 {
        let wrong = (0..self.len()).filter(|index| self.is_wrong(*index, &truth));
        wrong.count() as u64
    }

    fn is_wrong(&self, index: u32, truth: impl Fn(u32) -> Option<bool>) -> bool {
        let truth = truth(index % self.devices);
        let is_wrong = |watcher: &Watcher| {
            watcher.has_ended || truth.is_some_and(|truth| watcher.told != Some(truth))
        };
        self.watchers.get(index as usize).is_some_and(is_wrong)
    }

    fn notified(&mut self, now: Instant, notify: &Message<'_>, out: &mut Outbox) {
        let index = self.index_of(notify);
        let Some(watcher) = index.and_then(|index| self.watchers.get_mut(index as usize)) else {
            self.tally.unexpected += 1;
            return reply(notify, Status::CALL_DOES_NOT_EXIST, out);
        };
        reply(notify, Status::OK, out);
        let cseq = notify.cseq().map_or(0, |cseq| cseq.number);
        if cseq <= watcher.notified_cseq {
            self.tally.again += 1;
            return;
        }
        watcher.notified_cseq = cseq;
        watcher.told = Some(says_open(notify.body()));
        let state = notify.subscription_state().ok().flatten();
        if state.is_some_and(|state| state.is_terminated()) && !watcher.has_ended {
            watcher.has_ended = true;
            self.tally.ended += 1;
        }
        let was_awaited = std::mem::take(&mut watcher.awaits_notify);
        self.in_flight -= usize::from(was_awaited && watcher.flight.is_none());
        self.tally.notified += 1;
        self.tally.last_at = now;
    }

    fn answered(&mut self, now: Instant, response: &Message<'_>, out: &mut Outbox) {
        let Some(index) = self.transaction_of(response) else {
            // The answer to a request that was sent again, most likely.
            return;
        };
        match response.status().unwrap_or(0) {
            ..200 => {
                if let Some(watcher) = self.watchers.get_mut(index as usize) {
                    let flight = watcher.flight.as_mut();
                    flight
                        .into_iter()
                        .for_each(|flight| flight.proceed(&self.timing));
                }
            }
            200..300 => self.accepted(index, response),
            401 => self.challenged(now, index, response, out),
            _ => self.fail(index),
        }
    }

    fn accepted(&mut self, index: u32, response: &Message<'_>) {
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        if watcher.dialog.is_none() {
            self.tally.subscribed += 1;
            watcher.dialog = Dialog::of(response);
        }
        if let Some(flight) = watcher.flight.take() {
            self.timers.cancel(flight.timer);
        }
        self.in_flight -= usize::from(!watcher.awaits_notify);
    }

    fn challenged(&mut self, now: Instant, index: u32, response: &Message<'_>, out: &mut Outbox) {
        let Some(authorization) = self.authorize(index, response) else {
            return self.fail(index);
        };
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        watcher.cseq += 1;
        let cseq = watcher.cseq;
        match watcher.flight.as_mut() {
            // A second challenge means that the password is wrong.
            Some(flight) if flight.answered => self.fail(index),
            Some(flight) => {
                flight.cseq = cseq;
                flight.answered = true;
                flight.authorization = Some(authorization);
                self.transmit(now, index, out);
            }
            None => {}
        }
    }

    fn authorize(&self, index: u32, response: &Message<'_>) -> Option<Box<str>> {
        let device = index % self.devices;
        let password = self.fleet.password(device)?;
        let knows = |challenge: &DigestChallenge<'_>| {
            let known = Algorithm::from_name(challenge.algorithm);
            known.is_some_and(|known| self.fleet.algorithm.is_none_or(|wanted| wanted == known))
        };
        let mut challenges = response.challenges(HeaderName::WwwAuthenticate).flatten();
        let challenge = challenges.find(knows)?;
        let user = self.fleet.user(device).to_string();
        let uri = self.target(index).to_string();
        let method = Method::Subscribe.as_str();
        let answer = Answer::new(&challenge, &user, &password, method, &uri)?;
        let cnonce = format!("{:08x}{index:x}", self.fleet.run);
        Some(answer.counted(1, &cnonce).to_string().into())
    }

    fn fail(&mut self, index: u32) {
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        let Some(flight) = watcher.flight.take() else {
            return;
        };
        self.timers.cancel(flight.timer);
        self.in_flight -= 1;
        // A NOTIFY that comes all the same ends nothing that is counted.
        watcher.awaits_notify = false;
        match watcher.dialog {
            None => self.tally.failed += 1,
            Some(_) if watcher.has_ended => {}
            Some(_) => {
                watcher.has_ended = true;
                self.tally.ended += 1;
            }
        }
    }

    fn transmit(&mut self, now: Instant, index: u32, out: &mut Outbox) {
        let timing = self.timing;
        if let Some(flight) = self.flight(index) {
            let (next, timer) = (flight.begin(now, &timing), flight.timer);
            self.timers.reschedule(timer, next);
            self.write(index, out);
        }
    }

    fn write(&self, index: u32, out: &mut Outbox) {
        let watcher = self.watchers.get(index as usize);
        let Some((watcher, flight)) = watcher.and_then(|one| Some((one, one.flight.as_ref()?)))
        else {
            return;
        };
        out.push(|bytes| self.write_subscribe(index, watcher, flight, bytes));
    }

    fn write_subscribe(&self, index: u32, watcher: &Watcher, flight: &Flight, bytes: &mut Vec<u8>) {
        let Self { fleet, local, .. } = self;
        let device = index % self.devices;
        let (aor, branch) = (fleet.aor(device), fleet.branch(index, flight.cseq));
        let dialog = watcher.dialog.as_ref();
        let tag = shown(|f| dialog.map_or(Ok(()), |dialog| write!(f, ";tag={}", dialog.tag)));
        let request = RequestBuilder::new(bytes, Method::Subscribe, self.target(index))
            .header(
                HeaderName::Via,
                format_args!("SIP/2.0/UDP {local};branch={branch};rport"),
            )
            .header(HeaderName::MaxForwards, 70)
            .header(
                HeaderName::From,
                format_args!("<{aor}>;tag={:08x}{index}", fleet.run),
            )
            .header(HeaderName::To, format_args!("<{aor}>{tag}"))
            .header(HeaderName::CallId, fleet.call_id(index))
            .header(HeaderName::CSeq, format_args!("{} SUBSCRIBE", flight.cseq))
            .header(
                HeaderName::Contact,
                format_args!("<{}>", fleet.contact(device, *local)),
            )
            .header(HeaderName::Event, "presence")
            .header(HeaderName::Expires, flight.expires_s);
        match &flight.authorization {
            Some(value) => request.header(HeaderName::Authorization, value).finish(),
            None => request.finish(),
        }
    }

    /// Where its next SUBSCRIBE goes: to the address of record, or in the dialog.
    fn target(&self, index: u32) -> impl Display + '_ {
        let watcher = self.watchers.get(index as usize);
        let dialog = watcher.and_then(|watcher| watcher.dialog.as_ref());
        let aor = self.fleet.aor(index % self.devices);
        shown(move |f| match dialog {
            Some(dialog) => f.write_str(&dialog.target),
            None => aor.fmt(f),
        })
    }

    fn flight(&mut self, index: u32) -> Option<&mut Flight> {
        self.watchers.get_mut(index as usize)?.flight.as_mut()
    }

    /// The watcher whose transaction under way a response answers.
    fn transaction_of(&self, response: &Message<'_>) -> Option<u32> {
        let (index, cseq) = self.fleet.of_branch(response.via().ok()?.branch()?)?;
        let flight = self.watchers.get(index as usize)?.flight.as_ref()?;
        (flight.cseq == cseq).then_some(index)
    }

    fn index_of(&self, notify: &Message<'_>) -> Option<u32> {
        let (run, rest) = notify.call_id().ok()?.split_once('.')?;
        let (index, _) = rest.split_once('@')?;
        let ours = u32::from_str_radix(run, 16) == Ok(self.fleet.run);
        index.parse().ok().filter(|_| ours)
    }
}

fn reply(notify: &Message<'_>, status: Status, out: &mut Outbox) {
    out.push(|bytes| ResponseBuilder::new(bytes, notify, status, None).finish());
}

fn says_open(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"<basic>open</basic>").is_some()
}

/// Longer than a storm.
const EXPIRES_S: u64 = 7200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storm::args::Transport;
    use std::time::Duration;

    const LOCAL: &str = "127.0.0.1:40001";

    fn engine(devices: u32) -> WatchEngine {
        let fleet = Fleet {
            user: "device{n}".parse().expect("a pattern"),
            password: None,
            domain: "example.org".into(),
            first: 1,
            stride: 1,
            algorithm: None,
            expires_s: 60,
            transport: Transport::Udp,
            run: 0xbeef,
        };
        let timing = Timing::with_t1(Duration::from_millis(500));
        WatchEngine::new(fleet, devices, LOCAL.parse().expect("an address"), timing)
    }

    fn taken(out: &mut Outbox) -> Vec<String> {
        let all = out.iter();
        let all = all.map(|one| String::from_utf8(one.to_vec()).expect("text"));
        let all = all.collect();
        out.clear();
        all
    }

    fn response(request: &str, status: Status) -> Vec<u8> {
        let request = Message::parse(request.as_bytes()).expect("sound");
        let mut bytes = Vec::new();
        let answer = ResponseBuilder::new(&mut bytes, &request, status, None);
        let answer = answer.to_tag("t");
        answer
            .header(HeaderName::Contact, "<sip:here@192.0.2.1>")
            .finish();
        bytes
    }

    fn ok(request: &str) -> Vec<u8> {
        response(request, Status::OK)
    }

    fn notify(watcher: u32, cseq: u32, basic: &str, state: &str) -> Vec<u8> {
        let body = format!("<basic>{basic}</basic>");
        format!(
            "NOTIFY sip:device1@{LOCAL} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bKn{cseq}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:device1@example.org>;tag=t\r\nTo: <sip:device1@example.org>;tag=w\r\n\
             Call-ID: 0000beef.{watcher}@storm\r\nCSeq: {cseq} NOTIFY\r\nEvent: presence\r\n\
             Subscription-State: {state}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    #[test]
    fn a_watcher_believes_the_last_notify_and_answers_each() {
        let (mut engine, mut out) = (engine(2), Outbox::default());
        for _ in 0..3 {
            engine.subscribe(Instant::ZERO, &mut out);
        }
        let requests = taken(&mut out);
        assert!(requests[2].starts_with("SUBSCRIBE sip:device1@example.org SIP/2.0\r\n"));
        assert_eq!(
            Message::parse(requests[2].as_bytes())
                .expect("sound")
                .validate(),
            Ok(())
        );
        for request in &requests {
            engine.receive(Instant::ZERO, &ok(request), &mut out);
        }
        assert_eq!(
            (engine.tally.subscribed, engine.in_flight()),
            (3, 3),
            "nothing told yet"
        );
        for watcher in 0..3 {
            engine.receive(
                Instant::ZERO,
                &notify(watcher, 1, "closed", "active"),
                &mut out,
            );
        }
        assert_eq!(engine.in_flight(), 0);
        engine.receive(Instant::ZERO, &notify(0, 3, "open", "active"), &mut out);
        engine.receive(Instant::ZERO, &notify(0, 2, "closed", "active"), &mut out);
        assert_eq!(taken(&mut out).len(), 5);
        assert_eq!((engine.tally.notified, engine.tally.again), (4, 1));
        assert_eq!(
            engine.wrong(|device| Some(device == 0)),
            1,
            "watcher 2 of device 0"
        );
        assert_eq!(engine.wrong(|_| None), 0);
    }

    #[test]
    fn what_belongs_to_nobody_is_481_and_an_end_is_counted_once() {
        let (mut engine, mut out) = (engine(1), Outbox::default());
        engine.receive(Instant::ZERO, &notify(0, 1, "open", "active"), &mut out);
        assert!(taken(&mut out)[0].starts_with("SIP/2.0 481 "));
        engine.subscribe(Instant::ZERO, &mut out);
        engine.receive(Instant::ZERO, &ok(&taken(&mut out)[0]), &mut out);
        for cseq in [1, 2] {
            let last = notify(0, cseq, "open", "terminated;reason=timeout");
            engine.receive(Instant::ZERO, &last, &mut out);
        }
        assert_eq!((engine.tally.ended, engine.tally.unexpected), (1, 1));
        assert_eq!(engine.wrong(|_| Some(true)), 1, "it would hear no more");
    }

    #[test]
    fn a_watcher_that_the_server_forgot_is_wrong_and_one_it_knows_is_right() {
        let (mut engine, mut out) = (engine(3), Outbox::default());
        for index in 0..3 {
            engine.subscribe(Instant::ZERO, &mut out);
            engine.receive(Instant::ZERO, &ok(&taken(&mut out)[0]), &mut out);
            let told = notify(index, 1, "open", "active");
            engine.receive(Instant::ZERO, &told, &mut out);
            out.clear();
        }
        let truth = |device| Some(device != 2);
        assert_eq!((engine.in_flight(), engine.wrong(truth)), (0, 1));
        for index in 0..engine.len() {
            engine.ask_again(Instant::ZERO, index, truth, &mut out);
        }
        let asked = taken(&mut out);
        assert_eq!((asked.len(), engine.in_flight()), (2, 2), "{asked:?}");
        assert!(
            asked[0].starts_with("SUBSCRIBE sip:here@192.0.2.1 SIP/2.0\r\n"),
            "{asked:?}"
        );
        assert!(asked[0].contains("To: <sip:device1@example.org>;tag=t\r\n"));
        assert!(asked[0].contains("CSeq: 2 SUBSCRIBE\r\n"));
        let gone = response(&asked[0], Status::CALL_DOES_NOT_EXIST);
        engine.receive(Instant::ZERO, &gone, &mut out);
        engine.receive(Instant::ZERO, &ok(&asked[1]), &mut out);
        assert_eq!(engine.in_flight(), 1, "it is to be told again");
        let told = notify(1, 2, "open", "active");
        engine.receive(Instant::ZERO, &told, &mut out);
        assert_eq!((engine.in_flight(), engine.wrong(truth)), (0, 2));
        let tally = engine.tally;
        assert_eq!((tally.subscribed, tally.ended, tally.failed), (3, 1, 0));
    }

    #[test]
    fn a_notify_after_a_refusal_leaves_the_count_as_it_is() {
        let (mut engine, mut out) = (engine(1), Outbox::default());
        engine.subscribe(Instant::ZERO, &mut out);
        let refused = response(&taken(&mut out)[0], Status::FORBIDDEN);
        engine.receive(Instant::ZERO, &refused, &mut out);
        let told = notify(0, 1, "open", "active");
        engine.receive(Instant::ZERO, &told, &mut out);
        assert_eq!((engine.in_flight(), engine.tally.failed), (0, 1));
    }

    #[test]
    fn a_subscribe_that_nobody_answers_is_sent_again_and_given_up() {
        let (mut engine, mut out) = (engine(1), Outbox::default());
        engine.subscribe(Instant::ZERO, &mut out);
        let mut sent = 0;
        while let Some(deadline) = engine.next_deadline() {
            if engine.in_flight() == 0 {
                break;
            }
            engine.expire(deadline, &mut out);
            sent += taken(&mut out).len();
        }
        assert_eq!((sent, engine.tally.failed, engine.in_flight()), (11, 1, 0));
    }
}
