//! Telephones that call, answer, hold, hang up and crash, over a network that loses,
//! doubles and delays, with a proxy between them that tells the table what it forwards.
//! When it is quiet, each lamp must be what the telephones themselves say.

mod phone;
mod proxy;
mod network;

use std::collections::{BTreeMap, BTreeSet};

use busyhour_proxy::dialogs::{CallHandle, DialogRequest, EndedFlow, ProbeOutcome, Role};
use busyhour_registrar::watch::LineState;

use crate::rig::{Rig, SENDONLY, SENDRECV, aor};

#[test]
fn no_lamp_is_wrong_after_quiet() {
    let first = std::env::var("BUSYHOUR_SIM_SEED").map_or(0, |seed| seed.parse().unwrap());
    let count = std::env::var("BUSYHOUR_SIM_SEEDS").map_or(300, |count| count.parse().unwrap());
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
            // So late that calls outlive it.
            let wait = BUSY_MS - 1 - world.below(40_000) as u64;
            world.after(wait, Happening::Restart);
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
            // A refresh does not say who held whom before the restart.
            let known = |line| match line {
                LineState::OnHold if self.restarts => LineState::InUse,
                line => line,
            };
            let truth = known(LineState::aggregate(lines.chain([LineState::Idle])));
            assert_eq!(
                known(self.rig.line(device)),
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
        self.send_to_proxy(wire);
    }

    fn cancel(&mut self, phone: usize) {
        if let Some(invite) = self.phones[phone].calling.clone() {
            self.phones[phone].is_cancelled = true;
            self.send_to_proxy(Wire {
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
        self.send_to_proxy(wire.clone());
        wire
    }
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
const QUIET_MS: u64 = 1_500_000;
const SESSION_MS: u64 = 300_000;
const SESSION: &str = "Session-Expires: 300;refresher=uac\r\n";
