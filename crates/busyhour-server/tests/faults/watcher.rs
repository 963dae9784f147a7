//! A watcher of a device: it subscribes, refreshes, subscribes again when the
//! server has lost its subscription, and knows what the last NOTIFY said.

use crate::{
    call::{CHALLENGES_MAX, Context, Credentials, REALM, Request},
    device::HERE,
};
use busyhour_sip::{Contacts, HeaderName, Message, ResponseBuilder, Status};
use std::time::{Duration, Instant};

pub struct Watcher {
    number: u32,
    /// The number of the device that it watches, and whose account it uses.
    pub device: u32,
    credentials: Credentials,
    /// The number of its dialogs so far.
    generation: u32,
    cseq: u32,
    dialog: Option<Dialog>,
    /// The server's tag and CSeq of the last NOTIFY.
    heard: Option<(Box<str>, u32)>,
    belief: Option<bool>,
    confirmed_at: Option<Instant>,
    pending: Option<Request>,
    next_at: Instant,
}

/// The server's part of a dialog.
struct Dialog {
    tag: Box<str>,
    target: Box<str>,
}

impl Watcher {
    pub fn new(number: u32, device: u32, begins_at: Instant) -> Self {
        Self {
            number,
            device,
            credentials: Credentials::default(),
            generation: 0,
            cseq: 0,
            dialog: None,
            heard: None,
            belief: None,
            confirmed_at: None,
            pending: None,
            next_at: begins_at,
        }
    }

    /// Whether its device is registered, according to a subscription that the
    /// server has confirmed since `then`.
    pub fn belief_since(&self, then: Instant) -> Option<bool> {
        self.belief.filter(|_| self.is_confirmed_since(then))
    }

    pub fn is_confirmed_since(&self, then: Instant) -> bool {
        self.confirmed_at.is_some_and(|at| at >= then)
    }

    /// Describes its state for a message.
    pub fn describe(&self) -> String {
        let (number, device, belief) = (self.number, self.device, self.belief);
        format!("watcher {number} believes {belief:?} of device {device}")
    }

    pub fn next_wake(&self) -> Instant {
        match &self.pending {
            Some(request) => request.next_wake(),
            None => self.next_at,
        }
    }

    pub fn wake(&mut self, context: &mut Context<'_>) {
        match &mut self.pending {
            Some(request) if request.is_hopeless(context.now) => self.begin_anew(context.now),
            Some(request) => request.resend(context),
            None if context.now < self.next_at => {}
            None if context.plan.is_last && self.dialog.is_some() => {
                self.next_at = context.about(Duration::from_secs(1));
            }
            None => self.subscribe(context),
        }
    }

    /// # Errors
    ///
    /// What no server may send.
    pub fn receive(
        &mut self,
        response: &Message<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let is_answered = |request: &mut Request| request.is_answered_by(response);
        if self.pending.take_if(is_answered).is_none() {
            return Ok(());
        }
        match response.status() {
            Some(200) => self.accepted(response, context),
            Some(401) if self.credentials.in_a_row < CHALLENGES_MAX => {
                self.credentials.challenged(response);
                self.subscribe(context);
            }
            Some(481) => self.begin_anew(context.now),
            Some(503) => self.next_at = context.after(response),
            other => return Err(format!("{} was answered {other:?}", self.describe())),
        }
        Ok(())
    }

    /// Answers a NOTIFY of one of its dialogs.
    pub fn notified(&mut self, notify: &Message<'_>, generation: u32, context: &mut Context<'_>) {
        if generation != self.generation {
            return reply(notify, Status::CALL_DOES_NOT_EXIST, context);
        }
        reply(notify, Status::OK, context);
        let (Some(tag), Ok(cseq)) = (from_tag(notify), notify.cseq()) else {
            return;
        };
        let is_old = |heard: &(Box<str>, u32)| *heard.0 == *tag && heard.1 >= cseq.number;
        if self.heard.as_ref().is_some_and(is_old) {
            return;
        }
        self.heard = Some((tag.into(), cseq.number));
        self.belief = Some(says_open(notify.body()));
        let state = notify.header(HeaderName::SubscriptionState);
        if state.is_some_and(|state| state.starts_with("terminated")) {
            self.begin_anew(context.about(Duration::from_millis(200)));
        }
    }

    /// Begins another dialog; the state from the last one no longer counts.
    fn begin_anew(&mut self, at: Instant) {
        self.generation += 1;
        self.cseq = 0;
        (self.dialog, self.heard, self.belief, self.pending) = (None, None, None, None);
        self.next_at = at;
    }

    fn subscribe(&mut self, context: &mut Context<'_>) {
        self.cseq += 1;
        let Self {
            number,
            generation,
            cseq,
            ..
        } = *self;
        let branch = format!("z9hG4bKw{number}.{generation}.{cseq}");
        let text = self.request(&branch, context.plan.subscription);
        self.pending = Some(Request::send(branch, text, context));
    }

    fn request(&mut self, branch: &str, expires: Duration) -> String {
        let user = format!("device{}", self.device);
        let aor = format!("sip:{user}@{REALM}");
        let (uri, tag) = match &self.dialog {
            Some(dialog) => (dialog.target.to_string(), format!(";tag={}", dialog.tag)),
            None => (aor.clone(), String::new()),
        };
        let authorization = self.credentials.line(&user, "SUBSCRIBE", &uri);
        let Self {
            number,
            generation,
            cseq,
            ..
        } = self;
        format!(
            "SUBSCRIBE {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {HERE};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@{REALM}>;tag=w{number}.{generation}\r\n\
             To: <{aor}>{tag}\r\n\
             Call-ID: w{number}.{generation}\r\n\
             CSeq: {cseq} SUBSCRIBE\r\n\
             Contact: <sip:w{number}@{HERE}>\r\n\
             Event: presence\r\n\
             Accept: application/pidf+xml\r\n\
             Expires: {}\r\n\
             {authorization}Content-Length: 0\r\n\r\n",
            expires.as_secs()
        )
    }

    fn accepted(&mut self, response: &Message<'_>, context: &mut Context<'_>) {
        self.credentials.in_a_row = 0;
        self.dialog = Dialog::of(response);
        self.confirmed_at = Some(context.now);
        self.next_at = context.about(context.plan.refresh);
    }
}

impl Dialog {
    fn of(response: &Message<'_>) -> Option<Self> {
        let Ok(Contacts::List(mut contacts)) = response.contacts() else {
            return None;
        };
        Some(Self {
            tag: response.to().ok()?.tag()?.into(),
            target: contacts.next()?.ok()?.address.uri_text.into(),
        })
    }
}

fn reply(notify: &Message<'_>, status: Status, context: &mut Context<'_>) {
    let mut bytes = Vec::new();
    ResponseBuilder::new(&mut bytes, notify, status, None).finish();
    context.out.push(bytes);
}

fn from_tag<'m>(notify: &Message<'m>) -> Option<&'m str> {
    notify.from().ok()?.tag()
}

fn says_open(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"<basic>open</basic>").is_some()
}
