//! Callers, telephones, the proxy between them, and the network.

use super::{
    caller::Caller,
    choices::Choices,
    telephone::{State, Telephone},
};
use busyhour::{buffer::BufferPool, clock::Instant};
use busyhour_proxy::{
    Actions, Begun, BranchId, Edge, EventKind, Fallback, Identity, Inbound, LoopDetection, NextHop,
    Occasion, Passage, Policy, Proxy, Received, Routing, Target, TargetSet, TransactionId,
};
use busyhour_sip::{Flow, Host, Message, Method, SipUri};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    time::Duration,
};

/// What the network does to datagrams, in percent.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    pub loss: u64,
    pub doubles: u64,
    pub delay_ms: u64,
}

/// A token in Record-Route names both ends of a call.
struct Tokens;

impl Edge for Tokens {
    type Data = Rc<()>;

    fn put_sent_by(&self, _: Flow, out: &mut String) {
        out.push_str("192.0.2.1");
    }

    fn put_record_route(&self, passage: &Passage<'_, '_, Rc<()>>, out: &mut String) {
        let (from, to) = (passage.from.remote.port(), passage.to.remote.port());
        out.push_str(&format!("<sip:{from}.{to}@192.0.2.1;lr>"));
    }
}

impl Identity for Tokens {
    fn is_us(&self, host: &Host<'_>, _: Option<u16>) -> bool {
        ["192.0.2.1", "example.org"].contains(&host.to_string().as_str())
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        uri.user.is_some_and(|user| user.contains('.'))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    ToProxy(u16, String),
    ToAgent(u16, String),
    Wake(u16),
    Start(u16),
    ProxyDue,
    Locate(usize),
    Undeliverable(usize),
}

/// What happened to a request of the proxy.
#[derive(Debug, Default)]
struct Story {
    is_invite: bool,
    finals: usize,
    ended: usize,
}

pub struct World {
    network: Network,
    choices: Choices,
    now: u64,
    serial: u64,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    /// When wake-ups are scheduled, and whose; those of this millisecond may come again.
    awaited: BTreeSet<(u64, u16)>,
    proxy: Proxy<Tokens>,
    permit: Rc<()>,
    loops: LoopDetection,
    pool: BufferPool,
    out: Actions,
    callers: BTreeMap<u16, Caller>,
    telephones: BTreeMap<u16, Telephone>,
    stories: Vec<(TransactionId, Story)>,
    located: Vec<TransactionId>,
    failed: Vec<BranchId>,
    /// Telephones that nobody can send to.
    dead: Vec<u16>,
    trace: DefaultHasher,
}

impl World {
    pub fn new(seed: u64, network: Network) -> Self {
        let mut choices = Choices(seed);
        let pool = BufferPool::builder().build().expect("a pool");
        let loops = LoopDetection::new(seed);
        let telephones = (2_000..2_006).map(|port| (port, Telephone::new(port)));
        let callers = (1_000..1_004).map(|port| (port, Caller::new(port, 0, &mut choices)));
        let callers = callers.collect();
        let dead = if choices.happens(20) {
            vec![2_000 + choices.below(6) as u16]
        } else {
            Vec::new()
        };
        Self {
            network,
            choices,
            now: 1,
            serial: 0,
            steps: BinaryHeap::new(),
            awaited: BTreeSet::new(),
            proxy: Proxy::new(Policy::default(), Tokens, pool.clone(), loops.clone(), seed),
            permit: Rc::new(()),
            loops,
            pool,
            out: Actions::default(),
            callers,
            telephones: telephones.collect(),
            stories: Vec::new(),
            located: Vec::new(),
            failed: Vec::new(),
            dead,
            trace: DefaultHasher::new(),
        }
    }

    /// Runs to the end, checks everything, and returns a hash of all that was sent.
    pub fn run(mut self) -> u64 {
        let ports: Vec<u16> = self.callers.keys().copied().collect();
        for port in ports {
            let at = self.choices.below(20_000);
            self.schedule(at, Step::Start(port));
        }
        while let Some(Reverse((at, _, step))) = self.steps.pop() {
            assert!(at < 3_600_000, "it never ends");
            self.now = at.max(self.now);
            self.awaited = self.awaited.split_off(&(at + 1, 0));
            self.step(step);
        }
        self.check();
        self.trace.finish()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::ToProxy(port, text) => self.proxy_receives(port, &text),
            Step::ToAgent(port, text) => self.agent_receives(port, &text),
            Step::Wake(port) => self.agent_wakes(port),
            Step::Start(port) => {
                let caller = self.callers.get_mut(&port).expect("a caller");
                let sent = caller.start(self.now);
                self.send_all(port, sent);
            }
            Step::ProxyDue => {
                let now = self.instant();
                self.proxy.expire(now, &mut self.out);
                self.flush();
            }
            Step::Locate(number) => {
                let set = self.targets();
                let (now, id) = (self.instant(), self.located[number]);
                self.proxy.forward(now, id, set, &mut self.out);
                self.flush();
            }
            Step::Undeliverable(number) => {
                let (now, branch) = (self.instant(), self.failed[number]);
                self.proxy.transport_error(now, branch, &mut self.out);
                self.flush();
            }
        }
    }

    fn proxy_receives(&mut self, port: u16, text: &str) {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let (flow, now) = (flow(port), self.instant());
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow,
        };
        if message.status().is_some() {
            self.proxy.receive_response(now, &inbound, &mut self.out);
            return self.flush();
        }
        if self.proxy.receive(now, &inbound, &mut self.out) == Received::New {
            let essentials = message.essentials().expect("valid");
            let routing =
                Routing::read(&message, &essentials, &self.loops, &Tokens).expect("valid");
            // The other end of the call that the token names.
            let token = routing.own_routes().next().and_then(|uri| uri.user);
            let ends = token.map(|token| {
                token
                    .split('.')
                    .map(|end| end.parse::<u16>().expect("a port"))
            });
            let other = ends.and_then(|mut ends| ends.find(|end| *end != port));
            let hop = other.map(|other| NextHop::registered(crate::simulation::world::flow(other)));
            match (message.method(), hop) {
                (Some(Method::Ack), Some(hop)) => {
                    self.proxy
                        .forward_ack(&inbound, &routing, &hop.into(), &mut self.out);
                }
                (Some(Method::Ack), None) => panic!("an ACK without a way: {text}"),
                (method, hop) => {
                    let permit = self.permit.clone();
                    let begun = self
                        .proxy
                        .begin(now, &inbound, &routing, permit, &mut self.out);
                    let Ok(Begun::New(id)) = begun else {
                        panic!("{begun:?}")
                    };
                    let story = Story {
                        is_invite: method == Some(Method::Invite),
                        ..Story::default()
                    };
                    self.stories.push((id, story));
                    self.route(now, id, hop);
                }
            }
        }
        self.flush();
    }

    /// Within a dialog at once, else when the location is known.
    fn route(&mut self, now: Instant, id: TransactionId, hop: Option<NextHop>) {
        match hop {
            Some(hop) => {
                let target = Target::new(None, hop);
                self.proxy.forward(now, id, target.into(), &mut self.out);
            }
            None => {
                let at = self.now + self.choices.below(100);
                self.located.push(id);
                self.schedule(at, Step::Locate(self.located.len() - 1));
            }
        }
    }

    fn targets(&mut self) -> TargetSet {
        let ports: Vec<u16> = self.telephones.keys().copied().collect();
        let mut set = TargetSet::default();
        let mut group = 0;
        for port in ports {
            if self.choices.happens(40) {
                group += u16::from(self.choices.happens(30));
                let uri = format!("sip:bob@10.0.0.1:{port}");
                let mut target = Target::new(Some(uri.into()), NextHop::registered(flow(port)));
                if self.choices.happens(20) {
                    target.hops.push(NextHop::registered(flow(
                        2_000 + self.choices.below(6) as u16,
                    )));
                }
                target.group = group;
                set.targets.push(target);
            }
        }
        if self.choices.happens(50) {
            set.ring_time = Some(Duration::from_millis(1 + self.choices.below(20_000)));
            let uri = "sip:box@10.0.0.1:2005".into();
            set.fallbacks.push(Fallback {
                on: [Occasion::NoAnswer, Occasion::Busy, Occasion::Unavailable].into(),
                targets: vec![Target::new(Some(uri), NextHop::registered(flow(2_005)))],
            });
        }
        set
    }

    fn agent_receives(&mut self, port: u16, text: &str) {
        let sent = match self.telephones.get_mut(&port) {
            Some(telephone) => telephone.receive(self.now, text, &mut self.choices),
            None => {
                let caller = self.callers.get_mut(&port).expect("an agent");
                caller.receive(self.now, text)
            }
        };
        self.send_all(port, sent);
    }

    fn agent_wakes(&mut self, port: u16) {
        let sent = match self.telephones.get_mut(&port) {
            Some(telephone) => telephone.wake(self.now),
            None => self
                .callers
                .get_mut(&port)
                .expect("an agent")
                .wake(self.now),
        };
        self.send_all(port, sent);
    }

    /// What an agent sends, and when it wakes next.
    fn send_all(&mut self, port: u16, sent: Vec<String>) {
        for text in sent {
            self.transmit(|text| Step::ToProxy(port, text), &text);
        }
        let due = match self.telephones.get(&port) {
            Some(telephone) => telephone.due(),
            None => self.callers[&port].due(),
        };
        if let Some(due) = due {
            self.schedule(due.max(self.now), Step::Wake(port));
        }
    }

    /// What the proxy sends, and when it is due next.
    fn flush(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for outbound in out.take_outbound() {
            let port = outbound.flow.remote.port();
            let text = String::from_utf8(outbound.datagram.to_vec()).expect("a text");
            text.hash(&mut self.trace);
            match outbound.branch.filter(|_| self.dead.contains(&port)) {
                Some(branch) => {
                    self.failed.push(branch);
                    self.schedule(self.now, Step::Undeliverable(self.failed.len() - 1));
                }
                None => self.transmit(|text| Step::ToAgent(port, text), &text),
            }
        }
        for event in out.take_events() {
            self.note(event.transaction, event.kind);
        }
        self.out = out;
        if let Some(due) = self.proxy.next_deadline() {
            let due = due.as_nanos().div_ceil(1_000_000);
            self.schedule(due.max(self.now), Step::ProxyDue);
        }
    }

    fn note(&mut self, id: TransactionId, kind: EventKind) {
        let story = self.stories.iter_mut().find(|(it, _)| *it == id);
        // The 100 is sent before the story begins; nothing else is.
        let Some((_, story)) = story else {
            panic!("{kind:?} of an unknown request")
        };
        match kind {
            EventKind::Answered { is_first, .. } => story.finals += usize::from(is_first),
            EventKind::Refused { .. } | EventKind::Unanswered => story.finals += 1,
            EventKind::Ended => story.ended += 1,
            _ => {}
        }
    }

    fn transmit(&mut self, step: impl Fn(String) -> Step, text: &str) {
        let copies = 1 + u64::from(self.choices.happens(self.network.doubles));
        for _ in 0..copies {
            if !self.choices.happens(self.network.loss) {
                let at = self.now + 1 + self.choices.below(self.network.delay_ms);
                self.schedule(at, step(text.to_owned()));
            }
        }
    }

    fn schedule(&mut self, at: u64, step: Step) {
        // A wake-up that is asked for twice comes once.
        let is_new = match step {
            Step::Wake(port) => self.awaited.insert((at, port)),
            Step::ProxyDue => self.awaited.insert((at, 0)),
            _ => true,
        };
        if !is_new {
            return;
        }
        self.serial += 1;
        self.steps.push(Reverse((at, self.serial, step)));
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now * 1_000_000)
    }

    fn check(&mut self) {
        self.proxy.drop_ended();
        assert!(
            self.proxy.is_empty(),
            "{} requests are left",
            self.proxy.len()
        );
        assert_eq!(self.proxy.stats().held_bytes, 0);
        assert_eq!(self.proxy.next_deadline(), None);
        assert_eq!(Rc::strong_count(&self.permit), 1);
        for (id, story) in &self.stories {
            assert_eq!((story.finals, story.ended), (1, 1), "{id:?} {story:?}");
        }
        assert!(self.stories.iter().any(|(_, story)| story.is_invite));
        self.callers
            .values()
            .for_each(|caller| self.check_caller(caller));
        self.telephones
            .values()
            .for_each(|it| self.check_telephone(it));
    }

    fn check_caller(&self, caller: &Caller) {
        assert_eq!(caller.finals.len(), 1, "one final response: {caller:#?}");
        assert_ne!(caller.finals, [0], "an answer came: {caller:#?}");
        for dialog in caller.dialogs.values() {
            assert_eq!(dialog.bye_status, 200, "{caller:#?}");
        }
        // Nothing was invented: every response was said by a telephone, or is one of the
        // few that the proxy makes itself.
        for (status, tag) in &caller.heard {
            let is_ours = tag.is_empty() || tag.starts_with("bh");
            let ours = [100, 408, 480, 487, 500];
            let said = |said: &(u16, String)| {
                said.1 == *tag && (said.0 == *status || (said.0, *status) == (503, 500))
            };
            let is_true = match is_ours {
                true => ours.contains(status),
                false => self.telephones.values().any(|it| it.said.iter().any(said)),
            };
            assert!(is_true, "{status} {tag} was invented");
        }
    }

    /// Nothing rings, nobody talks, and nobody waits for an ACK.
    fn check_telephone(&self, telephone: &Telephone) {
        for call in telephone.calls.values() {
            let is_quiet = matches!(call.state, State::Over | State::Silent);
            assert!(is_quiet, "port {}: {call:#?}", telephone.port);
        }
    }
}

fn flow(port: u16) -> Flow {
    Flow::udp(([192, 0, 2, 1], 5060).into(), ([10, 0, 0, 1], port).into())
}
