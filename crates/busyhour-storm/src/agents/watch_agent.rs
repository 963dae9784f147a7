//! Plays the watchers of all devices: a pure state machine. Each watcher
//! subscribes once, answers its NOTIFYs and keeps the state that the last one
//! contained. At the end each watcher subscribes again: if the server has
//! lost its subscription, the watcher receives no NOTIFY and would look
//! correct otherwise.

use std::fmt::Display;
use std::net::SocketAddr;

use busyhour::clock::Instant;
use busyhour::timer::TimerQueue;

use crate::agents::lamps::Lamps;
use crate::agents::pending::{Expired, PendingRequest, Timing};
use crate::plan::pattern::shown;
use crate::plan::users::StormUsers;
use crate::plan::watched_list::WatchedList;
use crate::wire::batch::Outbox;
use busyhour_sip::auth::{Algorithm, Answer};
use busyhour_sip::{
    Contacts, DigestChallenge, HeaderName, Message, Method, RequestBuilder, ResponseBuilder, Status,
};

/// Plays all watchers, at one socket. Watcher `w` watches device `w % devices` and
/// uses the account of that device.
#[derive(Debug)]
pub(crate) struct WatchAgent {
    /// The devices, numbered as if one thread played all of them.
    users: StormUsers,
    devices: u32,
    local: SocketAddr,
    timing: Timing,
    watchers: Vec<Watcher>,
    timers: TimerQueue<u32>,
    in_flight: usize,
    pub tally: WatchTally,
    /// With lamps, the watchers watch the dialogs of their devices; otherwise their
    /// presence.
    pub lamps: Option<Lamps>,
    /// What all of them watch instead of their devices.
    list: Option<WatchedList>,
}

/// Counts of what happened to the watchers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchTally {
    /// Watchers whose SUBSCRIBE was answered with 200.
    pub subscribed: u64,
    /// Watchers whose SUBSCRIBE failed.
    pub failed: u64,
    /// NOTIFY requests without retransmissions.
    pub notified: u64,
    /// Retransmitted NOTIFY requests.
    pub again: u64,
    /// Subscriptions that the server ended or has lost.
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
    pending: Option<PendingRequest>,
    cseq: u32,
    notified_cseq: u32,
    /// A SUBSCRIBE was sent, and no NOTIFY has come since.
    awaits_notify: bool,
    /// Whether the device can be reached, according to the last NOTIFY.
    told: Option<bool>,
    /// The dialog; the first 200 makes it.
    dialog: Option<Dialog>,
    /// The server ended the subscription or has lost it.
    has_ended: bool,
}

/// The server's half of a dialog.
#[derive(Debug)]
struct Dialog {
    tag: Box<str>,
    /// The server's Contact, to which requests in the dialog go.
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

impl WatchAgent {
    pub fn new(users: StormUsers, devices: u32, local: SocketAddr, timing: Timing) -> Self {
        Self {
            users,
            devices: devices.max(1),
            local,
            timing,
            watchers: Vec::new(),
            timers: TimerQueue::new(),
            in_flight: 0,
            tally: WatchTally::default(),
            lamps: None,
            list: None,
        }
    }

    /// All watchers watch this list, which has all devices.
    pub fn watch_list(&mut self, name: &str) {
        self.list = Some(WatchedList::new(name, &self.users, self.devices));
    }

    /// Watchers of the dialogs of their devices, one for each device.
    pub fn of_lamps(users: StormUsers, devices: u32, local: SocketAddr, timing: Timing) -> Self {
        Self {
            lamps: Some(Lamps::new(devices)),
            ..Self::new(users, devices, local, timing)
        }
    }

    /// Whether the watchers watch a list.
    pub fn watches_list(&self) -> bool {
        self.list.is_some()
    }

    /// Lets one more watcher subscribe.
    pub fn subscribe(&mut self, now: Instant, out: &mut Outbox) {
        let index = self.watchers.len() as u32;
        self.watchers.push(Watcher::default());
        self.begin(now, index, out);
    }

    /// Lets a watcher subscribe again in its dialog, if its state of the
    /// device is correct. This shows whether the server still has the
    /// subscription. If it does not, the subscription counts as ended.
    pub fn ask_again(
        &mut self,
        now: Instant,
        index: u32,
        truth: impl Fn(u32) -> Option<bool>,
        out: &mut Outbox,
    ) {
        let watcher = self.watchers.get(index as usize);
        let is_idle = |watcher: &&Watcher| watcher.pending.is_none() && watcher.dialog.is_some();
        if watcher.filter(is_idle).is_some() && !self.is_wrong(index, truth) {
            self.begin(now, index, out);
        }
    }

    fn begin(&mut self, now: Instant, index: u32, out: &mut Outbox) {
        let timer = self.timers.add(Instant::FAR_FUTURE, index);
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        // A watcher that still waits for the NOTIFY of an earlier SUBSCRIBE
        // is already counted.
        self.in_flight += usize::from(!watcher.awaits_notify);
        watcher.awaits_notify = true;
        watcher.cseq += 1;
        watcher.pending = Some(PendingRequest::new(now, watcher.cseq, EXPIRES_S, timer));
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

    /// Sends unanswered requests again when they are due, or gives them up.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        let timing = self.timing;
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(&index) = self.timers.get(handle) else {
                return;
            };
            let Some(pending) = self.pending(index) else {
                continue;
            };
            match pending.expire(now, &timing) {
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

    /// Subscriptions whose SUBSCRIBE has no answer yet, or no NOTIFY.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many watchers there are.
    pub fn len(&self) -> u32 {
        self.watchers.len() as u32
    }

    /// Counts the watchers that are wrong. Their state of the device differs
    /// from `truth` of its index, where that is known; or their subscription
    /// has ended, so that they would miss a change.
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
        let index = index.unwrap_or_default();
        let own = index % self.devices;
        match (&self.list, &mut self.lamps) {
            (None, None) => watcher.told = Some(says_open(notify.body())),
            (None, Some(lamps)) => lamps.notified(now, own, notify.body()),
            (Some(list), None) => {
                let mut documents = list.documents(notify.body());
                if let Some((_, document)) = documents.find(|(device, _)| *device == own) {
                    watcher.told = Some(says_open(document));
                }
            }
            // The first panel tells of all lamps; the others are told the same.
            (Some(list), Some(lamps)) if index == 0 => {
                for (device, document) in list.documents(notify.body()) {
                    lamps.notified(now, device, document);
                }
            }
            (Some(_), Some(_)) => {}
        }
        let state = notify.subscription_state().ok().flatten();
        if state.is_some_and(|state| state.is_terminated()) && !watcher.has_ended {
            watcher.has_ended = true;
            self.tally.ended += 1;
        }
        let was_awaited = std::mem::take(&mut watcher.awaits_notify);
        self.in_flight -= usize::from(was_awaited && watcher.pending.is_none());
        self.tally.notified += 1;
        self.tally.last_at = now;
    }

    fn answered(&mut self, now: Instant, response: &Message<'_>, out: &mut Outbox) {
        let Some(index) = self.transaction_of(response) else {
            // Most likely the answer to a retransmitted request.
            return;
        };
        match response.status().unwrap_or(0) {
            ..200 => {
                if let Some(watcher) = self.watchers.get_mut(index as usize) {
                    let pending = watcher.pending.as_mut();
                    pending
                        .into_iter()
                        .for_each(|pending| pending.proceed(&self.timing));
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
        if let Some(pending) = watcher.pending.take() {
            self.timers.cancel(pending.timer);
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
        match watcher.pending.as_mut() {
            // A second challenge means that the password is wrong.
            Some(pending) if pending.answered => self.fail(index),
            Some(pending) => {
                pending.cseq = cseq;
                pending.answered = true;
                pending.authorization = Some(authorization);
                self.transmit(now, index, out);
            }
            None => {}
        }
    }

    fn authorize(&self, index: u32, response: &Message<'_>) -> Option<Box<str>> {
        let device = index % self.devices;
        let password = self.users.password(device)?;
        let knows = |challenge: &DigestChallenge<'_>| {
            let known = Algorithm::from_name(challenge.algorithm);
            known.is_some_and(|known| self.users.algorithm.is_none_or(|wanted| wanted == known))
        };
        let mut challenges = response.challenges(HeaderName::WwwAuthenticate).flatten();
        let challenge = challenges.find(knows)?;
        let user = self.users.user(device).to_string();
        let uri = self.target(index).to_string();
        let method = Method::Subscribe.as_str();
        let answer = Answer::new(&challenge, &user, &password, method, &uri)?;
        let cnonce = format!("{:08x}{index:x}", self.users.run);
        Some(answer.counted(1, &cnonce).to_string().into())
    }

    fn fail(&mut self, index: u32) {
        let Some(watcher) = self.watchers.get_mut(index as usize) else {
            return;
        };
        let Some(pending) = watcher.pending.take() else {
            return;
        };
        self.timers.cancel(pending.timer);
        self.in_flight -= 1;
        // If a NOTIFY still comes, it does not reduce the count again.
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
        if let Some(pending) = self.pending(index) {
            let (next, timer) = (pending.begin(now, &timing), pending.timer);
            self.timers.reschedule(timer, next);
            self.write(index, out);
        }
    }

    fn write(&self, index: u32, out: &mut Outbox) {
        let watcher = self.watchers.get(index as usize);
        let Some((watcher, pending)) = watcher.and_then(|one| Some((one, one.pending.as_ref()?)))
        else {
            return;
        };
        out.push(|bytes| self.write_subscribe(index, watcher, pending, bytes));
    }

    fn write_subscribe(
        &self,
        index: u32,
        watcher: &Watcher,
        pending: &PendingRequest,
        bytes: &mut Vec<u8>,
    ) {
        let Self { users, local, .. } = self;
        let device = index % self.devices;
        let (aor, branch) = (users.aor(device), users.branch(index, pending.cseq));
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
                format_args!("<{aor}>;tag={:08x}{index}", users.run),
            )
            .header(HeaderName::To, format_args!("<{aor}>{tag}"))
            .header(HeaderName::CallId, users.call_id(index))
            .header(HeaderName::CSeq, format_args!("{} SUBSCRIBE", pending.cseq))
            .header(
                HeaderName::Contact,
                format_args!("<{}>", users.contact(device, *local)),
            )
            .header(HeaderName::Event, self.package())
            .header(HeaderName::Expires, pending.expires_s);
        let request = match self.list {
            Some(_) => request.header(HeaderName::Supported, "eventlist"),
            None => request,
        };
        match &pending.authorization {
            Some(value) => request.header(HeaderName::Authorization, value).finish(),
            None => request.finish(),
        }
    }

    fn package(&self) -> &'static str {
        match self.lamps {
            None => "presence",
            Some(_) => "dialog",
        }
    }

    /// The target of the next SUBSCRIBE: the address of record, or in a
    /// dialog the server's Contact.
    fn target(&self, index: u32) -> impl Display + '_ {
        let watcher = self.watchers.get(index as usize);
        let dialog = watcher.and_then(|watcher| watcher.dialog.as_ref());
        let aor = self.users.aor(index % self.devices);
        let list = self.list.as_ref();
        shown(move |f| match (dialog, list) {
            (Some(dialog), _) => f.write_str(&dialog.target),
            (None, Some(list)) => f.write_str(&list.uri),
            (None, None) => aor.fmt(f),
        })
    }

    fn pending(&mut self, index: u32) -> Option<&mut PendingRequest> {
        self.watchers.get_mut(index as usize)?.pending.as_mut()
    }

    /// The watcher whose current transaction a response answers.
    fn transaction_of(&self, response: &Message<'_>) -> Option<u32> {
        let (index, cseq) = self.users.of_branch(response.via().ok()?.branch()?)?;
        let pending = self.watchers.get(index as usize)?.pending.as_ref()?;
        (pending.cseq == cseq).then_some(index)
    }

    fn index_of(&self, notify: &Message<'_>) -> Option<u32> {
        let (run, rest) = notify.call_id().ok()?.split_once('.')?;
        let (index, _) = rest.split_once('@')?;
        let ours = u32::from_str_radix(run, 16) == Ok(self.users.run);
        index.parse().ok().filter(|_| ours)
    }
}

fn reply(notify: &Message<'_>, status: Status, out: &mut Outbox) {
    out.push(|bytes| ResponseBuilder::new(bytes, notify, status, None).finish());
}

fn says_open(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"<basic>open</basic>").is_some()
}

/// Longer than any storm.
const EXPIRES_S: u64 = 7200;

#[cfg(test)]
#[path = "watch_agent_tests.rs"]
mod tests;
