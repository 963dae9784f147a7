//! A watcher: it subscribes, refreshes, ends its subscription and subscribes
//! again, and knows what the last NOTIFY said.

use crate::{
    client::{Context, Credentials, NEVER, REALM, SECOND, Transaction, response},
    device::retry_after,
    panel::Panel,
};
use busyhour_sip::{HeaderName, Message, Method};
use std::net::SocketAddr;

pub struct Watcher {
    user: String,
    pub address: SocketAddr,
    /// The index of the device that it watches.
    pub device: usize,
    package: &'static str,
    /// It refreshes once in half an hour, and receives everything.
    is_patient: bool,
    credentials: Credentials,
    dialog: Dialog,
    dialog_count: u32,
    belief: Belief,
    pending: Option<Transaction>,
    next_at: u64,
    /// Until this time it receives nothing, like a frozen program.
    deaf_until: u64,
    /// For how long it subscribes, in seconds: at least and less than.
    expires_s: [u64; 2],
    /// It watches the list of all devices.
    is_of_list: bool,
    panel: Panel,
    /// The last body.
    document: String,
}

/// What a watcher knows about its device.
#[derive(Debug, Clone, PartialEq)]
pub enum Belief {
    Nothing,
    /// The contacts with these priorities can be reached.
    Priorities(Vec<String>),
    /// This number of contacts can be reached.
    Count(usize),
}

#[derive(Default)]
struct Dialog {
    call_id: String,
    remote_tag: Option<String>,
    cseq: u32,
    notified_cseq: u32,
    wishes_end: bool,
}

impl Watcher {
    pub fn new(
        number: usize,
        address: SocketAddr,
        device: usize,
        is_patient: bool,
        context: &mut Context<'_>,
    ) -> Self {
        let mut watcher = Self {
            user: format!("watcher{number}"),
            address,
            device,
            is_patient,
            package: context.random.pick(&["presence", "presence", "dialog"]),
            credentials: Credentials::default(),
            dialog: Dialog::default(),
            dialog_count: 0,
            belief: Belief::Nothing,
            pending: None,
            next_at: context.now + context.random.within(0, 20 * SECOND),
            deaf_until: 0,
            expires_s: [10, 120],
            is_of_list: context.random.permille(300),
            panel: Panel::default(),
            document: String::new(),
        };
        watcher.leave_dialog();
        watcher
    }

    /// Watches calls.
    pub fn of_calls(mut self) -> Self {
        self.package = "dialog";
        self.is_of_list = false;
        self.expires_s = [60, 150];
        self
    }

    /// Unless it is patient.
    pub fn refreshing_often(mut self) -> Self {
        self.expires_s = [10, 60];
        self
    }

    pub fn document(&self) -> &str {
        &self.document
    }

    pub fn belief(&self) -> &Belief {
        &self.belief
    }

    pub fn stop(&mut self) {
        self.pending = None;
        self.next_at = NEVER;
    }

    pub fn next_wake(&self) -> u64 {
        match &self.pending {
            Some(transaction) => transaction.next_wake(),
            None => self.next_at,
        }
    }

    pub fn wake(&mut self, context: &mut Context<'_>) {
        match &mut self.pending {
            Some(transaction) if transaction.is_hopeless(context.now) => {
                self.pending = None;
                self.leave_dialog();
                self.next_at = context.now + SECOND;
            }
            Some(transaction) => transaction.resend(context),
            None if context.now >= self.next_at => self.subscribe(context),
            None => {}
        }
    }

    pub fn receive(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        if context.now < self.deaf_until && !context.is_quiet {
            return;
        }
        match message.method() {
            Some(Method::Notify) => self.notified(message, context),
            Some(method) => panic!("{} was sent a {method}", self.user),
            None => self.answered(message, context),
        }
    }

    fn subscribe(&mut self, context: &mut Context<'_>) {
        let has_dialog = self.dialog.remote_tag.is_some();
        if !context.is_quiet && !self.is_patient {
            self.dialog.wishes_end = has_dialog && context.random.permille(100);
            if context.random.permille(50) {
                self.deaf_until = context.now + context.random.within(0, 60 * SECOND);
            }
        }
        self.send(context);
    }

    fn send(&mut self, context: &mut Context<'_>) {
        let expires_s = match self.dialog.wishes_end {
            true => 0,
            false if self.is_patient => 3600,
            false => context.random.within(self.expires_s[0], self.expires_s[1]),
        };
        self.dialog.cseq += 1;
        let (dialog_count, cseq) = (self.dialog_count, self.dialog.cseq);
        let branch = format!("z9hG4bK{}.{dialog_count}.{cseq}", self.user);
        let request = self.request(&branch, expires_s);
        self.pending = Some(Transaction::send(branch, request, context));
    }

    fn request(&mut self, branch: &str, expires_s: u64) -> String {
        let uri = match self.is_of_list {
            true => format!("sip:{LIST}@{REALM}"),
            false => format!("sip:device{}@{REALM}", self.device),
        };
        let supported = match self.is_of_list {
            true => "Supported: eventlist\r\n",
            false => "",
        };
        let authorization = self.credentials.line(&self.user, "SUBSCRIBE", &uri);
        let Self {
            user,
            address,
            package,
            dialog,
            ..
        } = self;
        let to_tag = match &dialog.remote_tag {
            Some(tag) => format!(";tag={tag}"),
            None => String::new(),
        };
        let Dialog { call_id, cseq, .. } = dialog;
        format!(
            "SUBSCRIBE {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@{REALM}>;tag={user}\r\n\
             To: <{uri}>{to_tag}\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq} SUBSCRIBE\r\n\
             Contact: <sip:{user}@{address}>\r\n\
             Event: {package}\r\n\
             Expires: {expires_s}\r\n\
             {supported}{authorization}\
             Content-Length: 0\r\n\r\n"
        )
    }

    fn answered(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let ours = |transaction: &mut Transaction| transaction.is_answered_by(message);
        if self.pending.take_if(ours).is_none() {
            return;
        }
        match message.status() {
            Some(200) => self.accepted(message, context),
            Some(401) => {
                self.credentials.challenged(message);
                self.send(context);
            }
            Some(481) => {
                self.leave_dialog();
                self.next_at = context.now;
            }
            Some(503) => self.next_at = context.now + retry_after(message) * SECOND,
            other => panic!("{} was answered {other:?}", self.user),
        }
    }

    fn accepted(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        if self.dialog.wishes_end {
            self.leave_dialog();
            self.next_at = context.now + context.random.within(0, 30 * SECOND);
            return;
        }
        let granted_s = u64::from(message.expires().unwrap().unwrap());
        let tag = message.to().unwrap().tag().unwrap();
        self.dialog.is_with(tag);
        self.next_at = context.now + granted_s * SECOND / 2;
    }

    fn notified(&mut self, notify: &Message<'_>, context: &mut Context<'_>) {
        let tag = notify.from().unwrap().tag().unwrap();
        if notify.call_id() != Ok(&self.dialog.call_id) || !self.dialog.is_with(tag) {
            let answer = response(notify, "481 Subscription Does Not Exist");
            return context.sent.push(answer);
        }
        context.sent.push(response(notify, "200 OK"));
        let cseq = notify.cseq().unwrap().number;
        if cseq <= self.dialog.notified_cseq {
            return;
        }
        self.dialog.notified_cseq = cseq;
        match self.is_of_list {
            true => self.take_list(notify),
            false => {
                let body = String::from_utf8_lossy(notify.body()).into_owned();
                let content_type = notify.header(HeaderName::ContentType).unwrap_or_default();
                self.take_document(content_type, body);
            }
        }
        let state = notify.subscription_state().unwrap().unwrap();
        if state.is_terminated() {
            self.pending = None;
            self.leave_dialog();
            self.next_at = context.now + context.random.within(0, 5 * SECOND);
        }
    }

    fn take_document(&mut self, content_type: &str, body: String) {
        self.belief = Belief::read(content_type, &body);
        self.document = body;
    }

    /// The last NOTIFY to a watcher that goes has no body.
    fn take_list(&mut self, notify: &Message<'_>) {
        if notify.body().is_empty() {
            return;
        }
        let mut text = Vec::new();
        notify.write(&mut text);
        self.panel.take(std::str::from_utf8(&text).unwrap());
        let uri = format!("sip:device{}@{REALM}", self.device);
        if let Some(Some(lamp)) = self.panel.lamps.get(&uri) {
            let content_type = match self.package {
                "presence" => "application/pidf+xml",
                _ => "application/dialog-info+xml",
            };
            self.take_document(content_type, lamp.clone());
        }
    }

    fn leave_dialog(&mut self) {
        self.dialog_count += 1;
        self.panel = Panel::default();
        self.dialog = Dialog {
            call_id: format!("{}-{}@{}", self.user, self.dialog_count, self.address),
            ..Dialog::default()
        };
    }
}

impl Dialog {
    /// Whether this tag is that of the server's end: the first tag that was
    /// received. A SUBSCRIBE that was duplicated on its way may have opened two
    /// dialogs.
    fn is_with(&mut self, tag: &str) -> bool {
        self.remote_tag.get_or_insert_with(|| tag.to_owned()) == tag
    }
}

impl Belief {
    fn read(content_type: &str, body: &str) -> Self {
        match content_type {
            "application/pidf+xml" => Self::Priorities(priorities(body)),
            "application/dialog-info+xml" => Self::Count(count(body)),
            other => panic!("a body of {other:?}"),
        }
    }
}

fn priorities(body: &str) -> Vec<String> {
    let tuples = body.split("<tuple ").skip(1);
    tuples
        .filter(|tuple| tuple.contains("<basic>open</basic>"))
        .map(|tuple| {
            let (_, contact) = tuple.split_once("<contact priority=\"").unwrap();
            contact.split_once('"').unwrap().0.to_owned()
        })
        .collect()
}

fn count(body: &str) -> usize {
    let (_, rest) = body.split_once("contacts=\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

/// The list of all devices.
pub const LIST: &str = "panel";
