//! A telephone and its user: it registers, calls, is called, moves and loses power.

use super::{
    called::Incoming,
    calling::Outgoing,
    dialog::{Dialog, Name},
    message::user,
    within::Asked,
};
use crate::{
    client::{Context, Credentials, NEVER, REALM, SECOND, Transaction},
    device::retry_after,
};
use busyhour_sip::{Message, Method};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

pub struct Telephone {
    pub user: usize,
    pub address: SocketAddr,
    number: usize,
    /// Knows session timers (RFC 4028).
    knows_timers: bool,
    /// Until then it has no power.
    off_until: u64,
    boots: u32,
    serial: u32,
    acts_at: u64,
    registering: Registering,
    pub(super) call_credentials: Credentials,
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) incoming: Vec<Incoming>,
    pub(super) dialogs: Vec<Dialog>,
    /// Requests within dialogs that wait for their response.
    pub(super) asked: Vec<Asked>,
    /// What was said to each request, by branch and method.
    pub(super) answers: BTreeMap<(String, String), Vec<u8>>,
    /// The ACK of each 2xx, by Call-ID, tag of the other side and number.
    pub(super) acks: BTreeMap<(String, String, u32), Vec<u8>>,
    /// The ACK of each refusal, by branch.
    pub(super) refusal_acks: BTreeMap<String, Vec<u8>>,
    /// How each call of its own went.
    pub stories: BTreeMap<String, Story>,
}

/// What a caller knows of its call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Story {
    /// When the server said something of it first.
    pub carried_at: u64,
    /// The first final response, but for challenges; 0 without.
    pub status: u16,
}

#[derive(Default)]
struct Registering {
    credentials: Credentials,
    pending: Option<Transaction>,
    cseq: u32,
    next_at: u64,
}

impl Telephone {
    pub fn new(
        number: usize,
        user: usize,
        address: SocketAddr,
        knows_timers: bool,
        context: &mut Context<'_>,
    ) -> Self {
        let mut telephone = Self {
            user,
            address,
            number,
            knows_timers,
            off_until: 0,
            boots: 0,
            serial: 0,
            acts_at: context.now + context.random.within(5 * SECOND, 40 * SECOND),
            registering: Registering::default(),
            call_credentials: Credentials::default(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            dialogs: Vec::new(),
            asked: Vec::new(),
            answers: BTreeMap::new(),
            acks: BTreeMap::new(),
            refusal_acks: BTreeMap::new(),
            stories: BTreeMap::new(),
        };
        telephone.registering.next_at = context.now + context.random.within(0, 5 * SECOND);
        telephone
    }

    pub fn knows_timers(&self) -> bool {
        self.knows_timers
    }

    pub fn is_off(&self, now: u64) -> bool {
        self.off_until > now
    }

    /// The calls that it is in, and who holds whom: itself, the other side.
    pub fn talks(&self) -> impl Iterator<Item = (&Name, [bool; 2])> {
        let dialogs = self.dialogs.iter();
        dialogs.map(|dialog| (&dialog.name, [dialog.holds, dialog.is_held]))
    }

    /// Whether it rings, or waits for an answer.
    pub fn is_undecided(&self) -> bool {
        self.is_calling() || self.is_ringing()
    }

    pub fn next_wake(&self) -> u64 {
        if self.off_until > 0 {
            return self.off_until;
        }
        let registering = match &self.registering.pending {
            Some(transaction) => transaction.next_wake(),
            None => self.registering.next_at,
        };
        let outgoing = self.outgoing.iter().map(Outgoing::next_wake);
        let incoming = self.incoming.iter().map(Incoming::next_wake);
        let dialogs = self.dialogs.iter().map(Dialog::next_wake);
        let asked = self.asked.iter().map(Asked::next_wake);
        let parts = outgoing.chain(incoming).chain(dialogs).chain(asked);
        parts.fold(registering.min(self.acts_at), u64::min)
    }

    pub fn wake(&mut self, context: &mut Context<'_>) {
        if self.is_off(context.now) {
            return;
        }
        if std::mem::take(&mut self.off_until) > 0 {
            self.registering.next_at = context.now + context.random.within(0, 3 * SECOND);
        }
        self.wake_registering(context);
        self.wake_outgoing(context);
        self.wake_incoming(context);
        self.wake_dialogs(context);
        self.wake_asked(context);
        if self.acts_at <= context.now {
            self.acts_at = match context.is_quiet {
                true => NEVER,
                false => context.now + context.random.within(SECOND, 25 * SECOND),
            };
            self.act(context);
        }
    }

    pub fn receive(&mut self, bytes: &[u8], context: &mut Context<'_>) {
        if self.is_off(context.now) {
            return;
        }
        let message = &Message::parse(bytes).expect("the server sends complete messages");
        match message.method() {
            Some(Method::Invite) if message.to().unwrap().tag().is_none() => {
                self.invited(message, bytes, context);
            }
            Some(Method::Cancel) => self.cancelled(message, context),
            Some(Method::Ack) => self.acknowledged(message),
            Some(_) => self.asked_within(message, context),
            None => self.answered(message, context),
        }
    }

    /// All calls end, some by their caller and some by their callee.
    pub fn hang_up_all(&mut self, context: &mut Context<'_>) {
        let hangs_up = |name: &Name| {
            let is_caller = name.local_tag.starts_with('f');
            name.call_id.len().is_multiple_of(2) == is_caller
        };
        let names = self.talks().map(|(name, _)| name.clone());
        for name in names.filter(hangs_up).collect::<Vec<_>>() {
            self.hang_up(&name, context);
        }
    }

    /// What the user does.
    fn act(&mut self, context: &mut Context<'_>) {
        if context.is_quiet {
            // A call that lasts to the end, if somebody answers it.
            if !self.is_undecided() && self.dialogs.is_empty() {
                self.call(context);
            }
            return;
        }
        let usable = |dialog: &&Dialog| dialog.unacknowledged.is_none() && !dialog.is_asking;
        let talk = self.dialogs.iter().find(usable);
        let talk = talk.map(|dialog| dialog.name.clone());
        match (context.random.within(0, 40), talk) {
            (0, _) => self.lose_power(context),
            (1, _) => self.move_away(context),
            (2..20, None) if !self.is_undecided() => self.call(context),
            (2, Some(_)) if !self.is_undecided() => self.call(context),
            (3..6, Some(name)) => self.hang_up(&name, context),
            (6..18, Some(name)) => self.hold(&name, context),
            (18..20, Some(name)) => self.ask(&name, "INFO", context),
            (20..22, Some(name)) => self.ask(&name, "UPDATE", context),
            _ => {}
        }
    }

    /// It forgets everything.
    fn lose_power(&mut self, context: &mut Context<'_>) {
        self.off_until = context.now + context.random.within(SECOND, 60 * SECOND);
        self.boots += 1;
        self.registering = Registering::default();
        self.call_credentials = Credentials::default();
        self.outgoing.clear();
        self.incoming.clear();
        self.dialogs.clear();
        self.asked.clear();
        self.answers.clear();
        self.acks.clear();
        self.refusal_acks.clear();
    }

    /// It has another address, maybe in another network, registers there, and tells the others in its calls.
    fn move_away(&mut self, context: &mut Context<'_>) {
        if self.is_undecided() {
            return;
        }
        match (self.address.ip(), context.random.permille(500)) {
            (IpAddr::V4(ip), true) => {
                let [one, two, three, four] = ip.octets();
                self.address.set_ip([one, two, three + 1, four].into());
            }
            _ => self.address.set_port(self.address.port() + 1),
        }
        self.registering.pending = None;
        self.registering.next_at = context.now;
        self.wake_registering(context);
        let names: Vec<_> = self.talks().map(|(name, _)| name.clone()).collect();
        for name in names {
            self.ask(&name, "INVITE", context);
        }
    }

    fn wake_registering(&mut self, context: &mut Context<'_>) {
        match &mut self.registering.pending {
            Some(transaction) if transaction.is_hopeless(context.now) => {
                self.registering.pending = None;
                self.registering.next_at = context.now + SECOND;
            }
            Some(transaction) => transaction.resend(context),
            None if self.registering.next_at <= context.now => self.register(context),
            None => {}
        }
    }

    fn register(&mut self, context: &mut Context<'_>) {
        let (branch, contact, user) = (self.branch(), self.contact(), user(self.user));
        let name = format!("device{}", self.user);
        let Self {
            address,
            number,
            boots,
            registering,
            ..
        } = self;
        registering.cseq += 1;
        let uri = format!("sip:{REALM}");
        let proof = registering.credentials.line(&name, "REGISTER", &uri);
        let request = format!(
            "REGISTER {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: <{user}>;tag=r{number}\r\nTo: <{user}>\r\n\
             Call-ID: register-{number}-{boots}\r\nCSeq: {} REGISTER\r\n\
             Contact: <{contact}>\r\nExpires: {REGISTERED_S}\r\n{proof}Content-Length: 0\r\n\r\n",
            registering.cseq
        );
        registering.pending = Some(Transaction::send(branch, request, context));
    }

    fn answered(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let registering = &mut self.registering;
        let ours = |transaction: &mut Transaction| transaction.is_answered_by(message);
        let status = message.status().unwrap_or(0);
        match message.cseq().unwrap().method {
            Method::Register if registering.pending.take_if(ours).is_none() => {}
            Method::Register => match status {
                200 => registering.next_at = context.now + REGISTERED_S * SECOND / 2,
                401 => {
                    registering.credentials.challenged(message);
                    self.register(context);
                }
                503 => registering.next_at = context.now + retry_after(message) * SECOND,
                // A late copy of a request, or one of the telephone's last life, was quicker.
                500 => registering.next_at = context.now + SECOND,
                other => panic!("a telephone that registers was answered {other}"),
            },
            Method::Invite if self.is_of_asked(message) => self.answered_within(message, context),
            Method::Invite => self.invite_answered(message, context),
            Method::Cancel => self.cancel_answered(message),
            _ => self.answered_within(message, context),
        }
    }

    pub(super) fn contact(&self) -> String {
        format!("sip:phone{}@{}", self.number, self.address)
    }

    pub(super) fn branch(&mut self) -> String {
        format!("z9hG4bK{}", self.unique())
    }

    /// A text that nobody else has.
    pub(super) fn unique(&mut self) -> String {
        self.serial += 1;
        format!("{}.{}.{}", self.number, self.boots, self.serial)
    }

    /// Without media for a minute a telephone hangs up, unless it has a session timer.
    pub fn listen(&mut self, talks: &BTreeSet<Name>, context: &mut Context<'_>) {
        let mut lonely = Vec::new();
        for dialog in &mut self.dialogs {
            if talks.contains(&dialog.name.mirrored()) || dialog.session.is_some() {
                dialog.lonely_since = None;
                continue;
            }
            let since = *dialog.lonely_since.get_or_insert(context.now);
            if context.now - since >= 60 * SECOND {
                lonely.push(dialog.name.clone());
            }
        }
        for name in lonely {
            self.hang_up(&name, context);
        }
    }
}

const REGISTERED_S: u64 = 400;
