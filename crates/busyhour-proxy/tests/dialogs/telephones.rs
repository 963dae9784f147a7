//! Telephones that call, answer, hold, hang up and crash, over a network that loses,
//! doubles and delays, with a proxy between them that tells the table what it forwards.
//! When it is quiet, each lamp must be what the telephones themselves say.

use std::collections::{BTreeMap, BTreeSet};

use busyhour_proxy::dialogs::{CallHandle, DialogRequest, EndedFlow, ProbeOutcome, Role};
use busyhour_registrar::watch::LineState;
use busyhour_sip::Message;

use crate::rig::{Names, RECVONLY, Rig, SENDONLY, SENDRECV, aor, headers, user};

#[test]
fn no_lamp_is_wrong_after_quiet() {
    let first = std::env::var("BUSYHOUR_SIM_SEED").map_or(0, |seed| seed.parse().unwrap());
    let count = std::env::var("BUSYHOUR_SIM_SEEDS").map_or(1_000, |count| count.parse().unwrap());
    for seed in first..first + count {
        World::new(seed).run();
    }
}

/// All that happens, in the order of time. Times are milliseconds.
struct World {
    seed: u64,
    random: u64,
    now: u64,
    serial: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    phones: Vec<Phone>,
    proxy: Proxy,
    rig: Rig,
    /// The server restarts in this run, and so all calls have session timers.
    restarts: bool,
    is_quiet: bool,
}

#[derive(Clone, Debug)]
enum Happening {
    /// A user does something.
    Act(usize),
    ToProxy(Wire),
    ToPhone(usize, Wire),
    /// The proxy has waited long enough for a branch or a request.
    BranchTimeout(u64, u16),
    RequestTimeout(u64),
    /// The sender of a request has.
    GiveUp(usize, Wire),
    /// The callee answers, refuses, or has rung long enough.
    Pick(usize, u64),
    RingOut(usize, u64),
    /// The 200 is sent again, or the callee gives up.
    Again(usize, Key, u32),
    /// Telephones look after their calls: media, session timers.
    Look(usize),
    Up(usize),
    Probed(busyhour_proxy::dialogs::ProbeId, ProbeOutcome),
    Restart,
}

/// A request or response on its way.
#[derive(Clone, Debug)]
struct Wire {
    /// Names the transaction; CANCEL and ACK name that of their INVITE.
    transaction: u64,
    method: &'static str,
    /// 0 for a request.
    status: u16,
    cseq: u32,
    key: Key,
    /// Who sent the request: the caller or the callee.
    sender: Role,
    from: usize,
    /// The telephone of the other side; `None` for an INVITE outside of a dialog.
    to: Option<usize>,
    callee: &'static str,
    branch: u16,
    offer: &'static str,
    has_timer: bool,
}

/// Call, tag of the callee; the tag of the caller is the call's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Key {
    call: u64,
    tag: u64,
}

#[derive(Default)]
struct Phone {
    name: &'static str,
    device: &'static str,
    is_off: bool,
    calling: Option<Wire>,
    is_cancelled: bool,
    ringing: BTreeMap<u64, Wire>,
    talks: BTreeMap<Key, Talk>,
    /// Answers by transaction, for what comes twice.
    answers: BTreeMap<u64, Wire>,
    waiting: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
struct Talk {
    role: Role,
    peer: usize,
    holds: bool,
    cseq: u32,
    is_acked: bool,
    has_timer: bool,
    refreshed_at: u64,
    lonely_since: Option<u64>,
    offer: Option<Wire>,
}

#[derive(Default)]
struct Proxy {
    invites: BTreeMap<u64, Invite>,
    requests: BTreeMap<u64, Forwarded>,
}

struct Invite {
    wire: Wire,
    handle: Option<CallHandle>,
    branches: Vec<Option<u16>>,
    targets: Vec<usize>,
    is_done: bool,
}

struct Forwarded {
    wire: Wire,
    known: Option<DialogRequest>,
    is_done: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let phones = PHONES.map(|(name, device)| Phone {
            name,
            device,
            ..Phone::default()
        });
        let mut world = Self {
            seed,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            now: 0,
            serial: 0,
            queue: BTreeMap::new(),
            phones: phones.into(),
            proxy: Proxy::default(),
            rig: Rig::new(),
            restarts: seed % 4 == 3,
            is_quiet: false,
        };
        for phone in 0..PHONES.len() {
            world.after_random(20_000, Happening::Act(phone));
            world.after(10_000, Happening::Look(phone));
        }
        if world.restarts {
            world.after_random(BUSY_MS, Happening::Restart);
        }
        world
    }

    fn run(&mut self) {
        self.run_until(BUSY_MS);
        self.is_quiet = true;
        self.run_until(BUSY_MS + QUIET_MS);
        self.check("after quiet");
        for phone in 0..self.phones.len() {
            for key in self.phones[phone].talks.keys().copied().collect::<Vec<_>>() {
                self.hang_up(phone, key);
            }
        }
        self.run_until(BUSY_MS + 2 * QUIET_MS);
        self.check("after all have hung up");
        assert!(self.rig.dialogs.is_empty(), "seed {}", self.seed);
        assert_eq!(self.rig.dialogs.next_deadline(), None, "seed {}", self.seed);
    }

    fn run_until(&mut self, until: u64) {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > until {
                self.serial += 1;
                self.queue.insert((at, self.serial), happening);
                break;
            }
            self.advance(at);
            self.happen(happening);
            self.probe();
        }
        self.advance(until);
        self.probe();
    }

    fn advance(&mut self, to: u64) {
        // The rig counts in seconds from its own beginning.
        let nanos = (1_000_000 + to) * 1_000_000;
        let until = busyhour::clock::Instant::from_nanos(nanos);
        self.rig.wait_until(until);
        self.now = to;
    }

    /// What the telephones say themselves.
    fn check(&self, when: &str) {
        for device in ["alice", "bob", "carol", "dave"] {
            let phones = self.phones.iter().filter(|phone| phone.device == device);
            let lines = phones.flat_map(|phone| {
                let talks = phone.talks.values().map(|talk| match talk.holds {
                    true => LineState::OnHold,
                    false => LineState::InUse,
                });
                let rings = phone.ringing.values().map(|_| LineState::Ringing);
                talks
                    .chain(rings)
                    .chain(phone.calling.iter().map(|_| LineState::InUse))
            });
            let truth = LineState::aggregate(lines.chain([LineState::Idle]));
            assert_eq!(
                self.rig.line(device),
                truth,
                "seed {}, {device} {when}",
                self.seed
            );
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Act(phone) => self.act(phone),
            Happening::ToProxy(wire) => self.at_proxy(wire),
            Happening::ToPhone(phone, wire) => self.at_phone(phone, wire),
            Happening::BranchTimeout(transaction, branch) => {
                self.branch_timeout(transaction, branch)
            }
            Happening::RequestTimeout(transaction) => self.request_timeout(transaction),
            Happening::GiveUp(phone, wire) => self.give_up(phone, wire),
            Happening::Pick(phone, transaction) => self.pick(phone, transaction),
            Happening::RingOut(phone, transaction) => self.refuse(phone, transaction, 480),
            Happening::Again(phone, key, tries) => self.again(phone, key, tries),
            Happening::Look(phone) => self.look(phone),
            Happening::Up(phone) => self.phones[phone].is_off = false,
            Happening::Probed(id, outcome) => {
                let now = self.rig.now;
                self.rig.dialogs.probed(now, id, outcome, &mut self.rig.out);
                self.rig.apply();
            }
            Happening::Restart => {
                let mut rig = Rig::new();
                rig.now = self.rig.now;
                self.rig = rig;
                self.proxy = Proxy::default();
            }
        }
    }

    // Users.

    fn act(&mut self, phone: usize) {
        if self.is_quiet {
            return;
        }
        self.after_random(15_000, Happening::Act(phone));
        if self.phones[phone].is_off {
            return;
        }
        let talks: Vec<Key> = self.phones[phone].talks.keys().copied().collect();
        match (self.below(20), talks.first().copied()) {
            (0, _) => self.crash(phone),
            (1..=3, _) if self.phones[phone].calling.is_some() => self.cancel(phone),
            (1..=6, None) if self.phones[phone].calling.is_none() => self.call(phone),
            (7..=9, Some(key)) => self.hang_up(phone, key),
            (10..=14, Some(key)) => self.hold(phone, key),
            (15, Some(key)) => {
                self.request(phone, key, "INFO", "");
            }
            _ => {}
        }
    }

    fn call(&mut self, phone: usize) {
        let callee = ["alice", "bob", "carol", "dave"][self.below(4)];
        if callee == self.phones[phone].device {
            return;
        }
        self.serial += 1;
        let wire = Wire {
            transaction: self.serial,
            method: "INVITE",
            status: 0,
            cseq: 1,
            key: Key {
                call: self.serial,
                tag: 0,
            },
            sender: Role::Caller,
            from: phone,
            to: None,
            callee,
            branch: 0,
            offer: SENDRECV,
            has_timer: self.restarts || self.below(2) == 0,
        };
        self.phones[phone].calling = Some(wire.clone());
        self.phones[phone].is_cancelled = false;
        self.after(250_000, Happening::GiveUp(phone, wire.clone()));
        self.to_proxy(wire);
    }

    fn cancel(&mut self, phone: usize) {
        if let Some(invite) = self.phones[phone].calling.clone() {
            self.phones[phone].is_cancelled = true;
            self.to_proxy(Wire {
                method: "CANCEL",
                ..invite
            });
        }
    }

    fn crash(&mut self, phone: usize) {
        let (name, device) = PHONES[phone];
        self.phones[phone] = Phone {
            name,
            device,
            is_off: true,
            ..Phone::default()
        };
        self.after(40_000, Happening::Up(phone));
        if self.below(2) == 0 {
            let (now, device) = (self.rig.now, aor(device));
            let ended = EndedFlow {
                device: &device,
                flow: None,
            };
            self.rig.dialogs.flow_ended(now, ended);
        }
    }

    fn hang_up(&mut self, phone: usize, key: Key) {
        self.request(phone, key, "BYE", "");
        self.phones[phone].talks.remove(&key);
    }

    fn hold(&mut self, phone: usize, key: Key) {
        let talk = &self.phones[phone].talks[&key];
        if talk.offer.is_none() && talk.is_acked {
            let offer = if talk.holds { SENDRECV } else { SENDONLY };
            let wire = self.request(phone, key, "INVITE", offer);
            self.phones[phone].talks.get_mut(&key).unwrap().offer = Some(wire);
        }
    }

    /// A request within the dialog.
    fn request(
        &mut self,
        phone: usize,
        key: Key,
        method: &'static str,
        offer: &'static str,
    ) -> Wire {
        self.serial += 1;
        let transaction = self.serial;
        let talk = self.phones[phone].talks.get_mut(&key).expect("a call");
        talk.cseq += 1;
        let wire = Wire {
            transaction,
            method,
            status: 0,
            cseq: talk.cseq,
            key,
            sender: talk.role,
            from: phone,
            to: Some(talk.peer),
            callee: "",
            branch: 0,
            offer,
            has_timer: talk.has_timer,
        };
        self.phones[phone].waiting.insert(transaction);
        self.after(33_000, Happening::GiveUp(phone, wire.clone()));
        self.to_proxy(wire.clone());
        wire
    }

    // Telephones.

    fn at_phone(&mut self, phone: usize, wire: Wire) {
        if self.phones[phone].is_off {
            return;
        }
        if wire.status > 0 {
            return self.response_at_phone(phone, wire);
        }
        if let Some(answer) = self.phones[phone].answers.get(&wire.transaction)
            && !matches!(wire.method, "ACK" | "CANCEL")
        {
            let again = answer.clone();
            return self.to_proxy(again);
        }
        match (wire.method, wire.to) {
            ("INVITE", None) => self.ring(phone, wire),
            ("CANCEL", _) => self.refuse(phone, wire.transaction, 487),
            ("ACK", _) => {
                if let Some(talk) = self.phones[phone].talks.get_mut(&wire.key) {
                    talk.is_acked = true;
                }
            }
            _ => self.serve(phone, wire),
        }
    }

    fn ring(&mut self, phone: usize, mut wire: Wire) {
        if self.phones[phone].ringing.contains_key(&wire.transaction) {
            return;
        }
        self.serial += 1;
        wire.key.tag = self.serial;
        let transaction = wire.transaction;
        self.phones[phone].ringing.insert(transaction, wire.clone());
        self.to_proxy(Wire {
            status: 180,
            ..wire
        });
        self.after_random(25_000, Happening::Pick(phone, transaction));
        self.after(60_000, Happening::RingOut(phone, transaction));
    }

    fn pick(&mut self, phone: usize, transaction: u64) {
        match self.below(4) {
            0 => self.refuse(phone, transaction, 486),
            1 => {}
            _ => self.answer(phone, transaction),
        }
    }

    fn answer(&mut self, phone: usize, transaction: u64) {
        let Some(invite) = self.phones[phone].ringing.remove(&transaction) else {
            return;
        };
        let talk = self.talk(Role::Callee, invite.from, invite.has_timer);
        self.phones[phone].talks.insert(invite.key, talk);
        let answer = Wire {
            status: 200,
            ..invite
        };
        self.phones[phone]
            .answers
            .insert(transaction, answer.clone());
        self.after(500, Happening::Again(phone, answer.key, 1));
        self.to_proxy(answer);
    }

    fn talk(&self, role: Role, peer: usize, has_timer: bool) -> Talk {
        Talk {
            role,
            peer,
            holds: false,
            cseq: 100,
            is_acked: role == Role::Caller,
            has_timer,
            refreshed_at: self.now,
            lonely_since: None,
            offer: None,
        }
    }

    fn again(&mut self, phone: usize, key: Key, tries: u32) {
        let Some(talk) = self.phones[phone].talks.get(&key) else {
            return;
        };
        if talk.is_acked {
            return;
        }
        if tries >= 10 {
            return self.hang_up(phone, key);
        }
        let answers = self.phones[phone].answers.values();
        let of_call = |wire: &&Wire| wire.key == key && wire.to.is_none();
        if let Some(answer) = answers.clone().find(of_call).cloned() {
            self.to_proxy(answer);
        }
        let wait = (500 << tries).min(4_000);
        self.after(wait, Happening::Again(phone, key, tries + 1));
    }

    fn refuse(&mut self, phone: usize, transaction: u64, status: u16) {
        if let Some(invite) = self.phones[phone].ringing.remove(&transaction) {
            let answer = Wire { status, ..invite };
            self.phones[phone]
                .answers
                .insert(transaction, answer.clone());
            self.to_proxy(answer);
        }
    }

    /// A request within a dialog.
    fn serve(&mut self, phone: usize, wire: Wire) {
        let now = self.now;
        let talk = self.phones[phone].talks.get_mut(&wire.key);
        let (status, offer) = match talk {
            None => (481, ""),
            Some(_) if wire.method == "BYE" => (200, ""),
            Some(talk) if talk.offer.is_some() && wire.offer != "" => (491, ""),
            Some(talk) => {
                if wire.method == "UPDATE" {
                    talk.refreshed_at = now;
                }
                if wire.offer != "" {
                    talk.holds = false;
                }
                (
                    200,
                    if wire.offer == SENDONLY {
                        RECVONLY
                    } else {
                        wire.offer
                    },
                )
            }
        };
        if wire.method == "BYE" {
            self.phones[phone].talks.remove(&wire.key);
        }
        let answer = Wire {
            status,
            offer,
            ..wire
        };
        self.phones[phone]
            .answers
            .insert(answer.transaction, answer.clone());
        self.to_proxy(answer);
    }

    fn response_at_phone(&mut self, phone: usize, wire: Wire) {
        match (wire.to, wire.status) {
            (_, 100..=199) => {}
            (None, 200) => self.answered(phone, wire),
            (None, _) => {
                let calling = &mut self.phones[phone].calling;
                if calling
                    .as_ref()
                    .is_some_and(|it| it.transaction == wire.transaction)
                {
                    *calling = None;
                }
            }
            _ if !self.phones[phone].waiting.remove(&wire.transaction) => {}
            _ => self.concluded(phone, wire),
        }
    }

    /// A 200 to the INVITE: each one gets an ACK, and a BYE if it is one too many.
    fn answered(&mut self, phone: usize, wire: Wire) {
        let peer = PHONES
            .iter()
            .position(|(name, _)| *name == tag_owner(self, wire.key));
        let Some(peer) = peer else { return };
        let calling = self.phones[phone].calling.take();
        let is_mine = calling
            .as_ref()
            .is_some_and(|it| it.transaction == wire.transaction);
        let is_wanted = is_mine && !self.phones[phone].is_cancelled;
        if !is_mine {
            self.phones[phone].calling = calling;
        }
        let is_known = self.phones[phone].talks.contains_key(&wire.key);
        let ack = Wire {
            status: 0,
            method: "ACK",
            offer: "",
            to: Some(peer),
            from: phone,
            ..wire.clone()
        };
        self.to_proxy(ack);
        if !is_known {
            let talk = self.talk(Role::Caller, peer, wire.has_timer);
            self.phones[phone].talks.insert(wire.key, talk);
            if !is_wanted {
                self.hang_up(phone, wire.key);
            }
        }
    }

    /// A final response to a request within a dialog.
    fn concluded(&mut self, phone: usize, wire: Wire) {
        let now = self.now;
        let Some(talk) = self.phones[phone].talks.get_mut(&wire.key) else {
            return;
        };
        let is_offer = talk.offer.take_if(|it| it.transaction == wire.transaction);
        match (wire.status, is_offer) {
            (481 | 408, _) => self.hang_up(phone, wire.key),
            (200, Some(offer)) => {
                talk.holds = offer.offer == SENDONLY;
                let ack = Wire {
                    method: "ACK",
                    offer: "",
                    ..offer
                };
                self.to_proxy(ack);
            }
            (200, None) if wire.method == "UPDATE" => talk.refreshed_at = now,
            _ => {}
        }
    }

    /// RFC 3261 §12.2.1.2: no answer at all is a 408.
    fn give_up(&mut self, phone: usize, wire: Wire) {
        if wire.to.is_some() {
            if self.phones[phone].waiting.remove(&wire.transaction) {
                self.concluded(
                    phone,
                    Wire {
                        status: 408,
                        ..wire
                    },
                );
            }
            return;
        }
        let calling = &mut self.phones[phone].calling;
        calling.take_if(|it| it.transaction == wire.transaction);
    }

    /// Without media for a minute a telephone hangs up, and when its session expires.
    fn look(&mut self, phone: usize) {
        self.after(10_000, Happening::Look(phone));
        for (key, talk) in self.phones[phone].talks.clone() {
            let age = self.now - talk.refreshed_at;
            let has_peer = self.phones[talk.peer].talks.contains_key(&key);
            let lonely_since = match has_peer {
                true => None,
                false => Some(talk.lonely_since.unwrap_or(self.now)),
            };
            self.phones[phone].talks.get_mut(&key).unwrap().lonely_since = lonely_since;
            let is_lonely = lonely_since.is_some_and(|since| self.now - since >= 60_000);
            if is_lonely || (talk.has_timer && age > SESSION_MS) {
                self.hang_up(phone, key);
            } else if talk.has_timer && talk.role == Role::Caller && age > SESSION_MS / 2 {
                self.request(phone, key, "UPDATE", "");
            }
        }
    }

    // The proxy.

    fn at_proxy(&mut self, wire: Wire) {
        match (wire.method, wire.to, wire.status) {
            ("INVITE", None, 0) => self.fork(wire),
            ("CANCEL", _, 0) => self.cancel_branches(wire.transaction, true),
            ("INVITE", None, _) => self.branch_response(wire),
            ("ACK", ..) => {
                self.tell_request(&wire);
                self.to_phone(wire.to.unwrap_or(0), wire);
            }
            (_, _, 0) => self.forward(wire),
            _ => self.forward_response(wire),
        }
    }

    fn fork(&mut self, wire: Wire) {
        if self.proxy.invites.contains_key(&wire.transaction) {
            return;
        }
        let text = self.text(&wire, "");
        let caller = user(PHONES[wire.from].1);
        let handle = self.rig.invite_text(&text, &caller);
        let phones = PHONES.iter().enumerate();
        let of_callee = phones.filter(|(_, (_, device))| *device == wire.callee);
        let targets: Vec<usize> = of_callee.map(|(phone, _)| phone).collect();
        for (branch, target) in targets.iter().enumerate() {
            if let Some(handle) = handle {
                self.rig
                    .dialogs
                    .forwarded(handle, branch as u16, user(wire.callee));
            }
            let copy = Wire {
                branch: branch as u16,
                ..wire.clone()
            };
            self.to_phone(*target, copy);
            self.after(
                180_000,
                Happening::BranchTimeout(wire.transaction, branch as u16),
            );
        }
        let invite = Invite {
            handle,
            branches: vec![None; targets.len()],
            targets,
            is_done: false,
            wire: wire.clone(),
        };
        self.proxy.invites.insert(wire.transaction, invite);
    }

    fn cancel_branches(&mut self, transaction: u64, by_caller: bool) {
        let Some(invite) = self.proxy.invites.get(&transaction) else {
            return;
        };
        if by_caller && let Some(handle) = invite.handle {
            self.rig.dialogs.cancelled(handle);
        }
        let wire = Wire {
            method: "CANCEL",
            ..invite.wire.clone()
        };
        let branches = invite.branches.iter().zip(&invite.targets).enumerate();
        let open = branches.filter(|(_, (status, _))| status.is_none());
        for (branch, target) in open.map(|(b, (_, t))| (b as u16, *t)).collect::<Vec<_>>() {
            self.to_phone(
                target,
                Wire {
                    branch,
                    ..wire.clone()
                },
            );
            self.after(32_000, Happening::BranchTimeout(transaction, branch));
        }
    }

    fn branch_response(&mut self, wire: Wire) {
        let now = self.rig.now;
        let text = self.text(&wire, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let Some(invite) = self.proxy.invites.get_mut(&wire.transaction) else {
            return;
        };
        let before = invite.branches[usize::from(wire.branch)];
        // RFC 6026 §7.2: after a final response only another 2xx passes.
        if before.is_some() && !(before == Some(200) && wire.status == 200) {
            return;
        }
        if let Some(handle) = invite.handle {
            let out = &mut self.rig.out;
            self.rig
                .dialogs
                .response(now, handle, wire.branch, &message, out);
            self.rig.apply();
        }
        if wire.status < 200 {
            return;
        }
        invite.branches[usize::from(wire.branch)] = Some(wire.status);
        if wire.status == 200 {
            let is_first = !std::mem::replace(&mut invite.is_done, true);
            let caller = invite.wire.from;
            if is_first {
                self.cancel_branches(wire.transaction, false);
            }
            return self.to_phone(caller, wire);
        }
        self.conclude_invite(wire.transaction);
    }

    fn conclude_invite(&mut self, transaction: u64) {
        let Some(invite) = self.proxy.invites.get_mut(&transaction) else {
            return;
        };
        if invite.is_done || invite.branches.iter().any(Option::is_none) {
            return;
        }
        invite.is_done = true;
        let status = invite
            .branches
            .iter()
            .flatten()
            .copied()
            .min()
            .unwrap_or(480);
        let (wire, handle) = (invite.wire.clone(), invite.handle);
        if let Some(handle) = handle {
            self.rig.refused(handle, status);
        }
        self.to_phone(wire.from, Wire { status, ..wire });
    }

    fn branch_timeout(&mut self, transaction: u64, branch: u16) {
        let Some(invite) = self.proxy.invites.get_mut(&transaction) else {
            return;
        };
        let status = &mut invite.branches[usize::from(branch)];
        if status.is_some() {
            return;
        }
        *status = Some(408);
        if let Some(handle) = invite.handle {
            self.rig.failed(handle, branch, 408);
        }
        // Timer C (RFC 3261 §16.8) cancels it as well.
        let cancel = Wire {
            method: "CANCEL",
            branch,
            ..invite.wire.clone()
        };
        let target = invite.targets[usize::from(branch)];
        self.to_phone(target, cancel);
        self.conclude_invite(transaction);
    }

    fn tell_request(&mut self, wire: &Wire) -> Option<DialogRequest> {
        let text = self.text(wire, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let flow = user(PHONES[wire.from].1).flow;
        let now = self.rig.now;
        let known = self
            .rig
            .dialogs
            .request(now, &message, flow, &mut self.rig.out);
        self.rig.apply();
        known
    }

    fn forward(&mut self, wire: Wire) {
        if self.proxy.requests.contains_key(&wire.transaction) {
            return;
        }
        let known = self.tell_request(&wire);
        let forwarded = Forwarded {
            wire: wire.clone(),
            known,
            is_done: false,
        };
        self.proxy.requests.insert(wire.transaction, forwarded);
        self.after(32_000, Happening::RequestTimeout(wire.transaction));
        self.to_phone(wire.to.expect("a dialog"), wire);
    }

    fn forward_response(&mut self, wire: Wire) {
        let text = self.text(&wire, SESSION);
        let Some(forwarded) = self.proxy.requests.get_mut(&wire.transaction) else {
            return;
        };
        if std::mem::replace(&mut forwarded.is_done, true) {
            return;
        }
        let message = Message::parse(text.as_bytes()).expect("sound");
        let (now, at) = (self.rig.now, self.rig.at());
        match forwarded.known {
            Some(known) => self
                .rig
                .dialogs
                .answered(now, known, &message, &mut self.rig.out),
            None => {
                let mut parties = [wire.from, wire.to.unwrap()].map(|it| user(PHONES[it].1));
                if wire.sender == Role::Callee {
                    parties.reverse();
                }
                self.rig
                    .dialogs
                    .adopt(at, &message, parties, wire.sender, &mut self.rig.out);
            }
        }
        self.rig.apply();
        self.to_phone(wire.from, wire);
    }

    fn request_timeout(&mut self, transaction: u64) {
        let Some(forwarded) = self.proxy.requests.get_mut(&transaction) else {
            return;
        };
        if std::mem::replace(&mut forwarded.is_done, true) {
            return;
        }
        let (known, wire) = (forwarded.known, forwarded.wire.clone());
        if let Some(known) = known {
            let now = self.rig.now;
            self.rig
                .dialogs
                .unanswered(now, known, 408, &mut self.rig.out);
            self.rig.apply();
        }
        self.to_phone(
            wire.from,
            Wire {
                status: 408,
                ..wire
            },
        );
    }

    /// Probes are sent again for 32 seconds, so only a telephone that is off misses one.
    fn probe(&mut self) {
        for probe in std::mem::take(&mut self.rig.probes) {
            let mut text = Vec::new();
            probe.write(&mut text, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKp");
            let options = Message::parse(&text).expect("sound");
            let number = |text: &str| text[1..].parse::<u64>().expect("a number");
            let call = number(options.call_id().unwrap());
            let tags =
                [options.from(), options.to()].map(|it| it.unwrap().tag().unwrap().to_owned());
            let tag = tags
                .iter()
                .find(|tag| tag.starts_with('t'))
                .expect("the callee's");
            let key = Key {
                call,
                tag: number(tag),
            };
            let name = probe
                .uri
                .trim_start_matches("sip:")
                .split('@')
                .next()
                .unwrap_or("");
            let phone = self
                .phones
                .iter()
                .find(|phone| phone.name == name)
                .expect("a telephone");
            let (wait, outcome) = match (phone.is_off, phone.talks.contains_key(&key)) {
                (true, _) => (32_000, ProbeOutcome::Silent),
                (false, true) => (50, ProbeOutcome::Answered(500)),
                (false, false) => (50, ProbeOutcome::Answered(481)),
            };
            self.after(wait, Happening::Probed(probe.id, outcome));
        }
    }

    /// A message as text.
    fn text(&self, wire: &Wire, extra: &str) -> String {
        let call_id = format!("c{}", wire.key.call);
        let (caller_tag, callee_tag) =
            (format!("f{}", wire.key.call), format!("t{}", wire.key.tag));
        let (names, sender) = (
            Names {
                call_id: &call_id,
                from: "caller",
                from_tag: &caller_tag,
                to: "callee",
                to_tag: if wire.key.tag == 0 { "" } else { &callee_tag },
            },
            match (wire.status, wire.to) {
                (0, _) => PHONES[wire.from].0,
                (_, Some(to)) => PHONES[to].0,
                (_, None) => tag_owner(self, wire.key),
            },
        );
        let names = match wire.sender {
            Role::Caller => names,
            Role::Callee => names.reversed(),
        };
        let method = if wire.method == "ACK" {
            "ACK"
        } else {
            wire.method
        };
        let line = match wire.status {
            0 => format!("{method} sip:x@example.com SIP/2.0\r\n"),
            status => format!("SIP/2.0 {status} Because\r\n"),
        };
        let is_timed = wire.status == 200 && wire.has_timer && wire.method != "BYE";
        let timer = if is_timed { SESSION } else { extra };
        let timer = if wire.has_timer { timer } else { "" };
        line + timer + &headers(wire.cseq, method, names, sender, wire.offer)
    }

    // The network.

    fn to_proxy(&mut self, wire: Wire) {
        self.carry(wire.method, Happening::ToProxy(wire));
    }

    fn to_phone(&mut self, phone: usize, wire: Wire) {
        self.carry(wire.method, Happening::ToPhone(phone, wire));
    }

    /// Some messages are lost for good, some come twice, and all in any order.
    fn carry(&mut self, method: &str, happening: Happening) {
        // An ACK is sent again with each 200.
        let loss = if method == "ACK" { 10 } else { 4 };
        let copies = match self.below(100) {
            chance if chance < loss && !self.is_quiet => 0,
            chance if chance > 92 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let slowest = if self.below(10) == 0 { 2_000 } else { 60 };
            let wait = 1 + self.below(slowest) as u64;
            self.after(wait, happening.clone());
        }
    }

    fn after(&mut self, wait_ms: u64, happening: Happening) {
        self.serial += 1;
        self.queue
            .insert((self.now + wait_ms, self.serial), happening);
    }

    fn after_random(&mut self, wait_max_ms: u64, happening: Happening) {
        let wait_ms = self.below(wait_max_ms as usize) as u64;
        self.after(wait_ms, happening);
    }

    /// splitmix64.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// The telephone that made this tag of a callee.
fn tag_owner(world: &World, key: Key) -> &'static str {
    let has_it = |phone: &&Phone| {
        phone
            .answers
            .values()
            .any(|it| it.key == key && it.to.is_none())
            || phone.ringing.values().any(|it| it.key == key)
    };
    world
        .phones
        .iter()
        .find(has_it)
        .map_or("", |phone| phone.name)
}

const PHONES: [(&str, &str); 5] = [
    ("alice", "alice"),
    ("bob1", "bob"),
    ("bob2", "bob"),
    ("carol", "carol"),
    ("dave", "dave"),
];
const BUSY_MS: u64 = 600_000;
/// Longer than it takes to probe what is quiet.
const QUIET_MS: u64 = 3_600_000;
const SESSION_MS: u64 = 300_000;
const SESSION: &str = "Session-Expires: 300;refresher=uac\r\n";
