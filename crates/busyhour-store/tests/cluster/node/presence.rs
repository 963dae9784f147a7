//! What a node does with publications, watchers and probes of the devices that it has, and for those that others have.

use super::{Life, Then, Write};
use crate::{
    database::SoftChange,
    letter::{Letter, SipVerb},
    node::Out,
};
use busyhour::{
    buffer::BufferPool,
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_cluster::{Grant, Member, Partition, Route};
use busyhour_registrar::{
    Advertised, BindingId, EndedBinding, Now, Pace, Probe, Probes, Reach, Refusal,
    watch::{
        DeviceState, Dialog, Keep, Plan, Publications, Publish, Restorable, RunNumber, Subscribe,
        Subscription, WatchPolicy, write_accepted, write_published,
    },
};
use busyhour_sip::{Flow, Message, Method, ResponseBuilder, Start};
use busyhour_store::{SoftState, SoftStateKind};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::OnceLock,
    time::Duration,
};

/// Of all devices of a node, and of what passes through it.
#[derive(Default)]
pub struct Presence {
    publications: BTreeMap<Box<str>, Publications>,
    /// By our tag.
    pub(super) watchers: BTreeMap<Box<str>, Watched>,
    probes: Probes,
    /// The device that each probed flow leads to, by the telephone's port and the node.
    probed: BTreeMap<(u16, u16), (Flow, Box<str>)>,
    /// The requests that have opened subscriptions in this process, as its transactions know them.
    opened: BTreeMap<String, Box<str>>,
    /// The nodes for which requests left here, by their branches.
    sent_for: BTreeMap<Box<str>, usize>,
    /// Flows for which probes left here, since their nodes are away.
    instead: BTreeMap<Box<str>, Flow>,
    /// Partitions of the registrations that came over each flow.
    registered: HashMap<Flow, BTreeSet<Partition>>,
    probe_count: u64,
    tag_count: u64,
}

pub struct Watched {
    pub(super) subscription: Subscription,
    row: EndedBinding,
}

/// A request that waits for its commit.
pub struct WaitingRequest {
    text: String,
    flow: Flow,
}

/// What a SUBSCRIBE leads to.
pub enum Subscribed {
    New(Box<Subscription>, EndedBinding),
    /// The one of this tag is refreshed, in this row.
    Again(Box<str>, EndedBinding),
}

impl Life {
    /// Something came over a flow of this node.
    pub fn receive(&mut self, now: Instant, unix: UnixTime, flow: Flow, text: String) {
        self.note_life(now, flow);
        self.note_connection(flow);
        if text.trim().is_empty() {
            return self.pass_keepalive_on(now, flow);
        }
        let mut message = Message::parse(text.as_bytes()).expect("our own text");
        match message.start() {
            Start::Request { .. } => self.request(now, unix, flow, &text),
            Start::Response { .. } => {
                let branch = branch_of(&message);
                match self.presence.sent_for.get(&branch).copied() {
                    Some(node) => self.hand_to_node(node, SipVerb::Response, flow, text),
                    None => self.take_response(now, flow, &mut message),
                }
            }
        }
        self.send_notifies(now);
    }

    /// The same from another node.
    pub fn hear_sip(
        &mut self,
        (now, unix): (Instant, UnixTime),
        verb: SipVerb,
        from: usize,
        flow: Flow,
        text: String,
    ) {
        match verb {
            SipVerb::Handle => {
                self.note_life(now, flow);
                self.request(now, unix, flow, &text);
            }
            SipVerb::Response => {
                self.note_life(now, flow);
                if !text.is_empty() {
                    let mut message = Message::parse(text.as_bytes()).expect("our own text");
                    self.take_response(now, flow, &mut message);
                }
            }
            SipVerb::Send => {
                if !text.starts_with("SIP/2.0 ") {
                    let message = Message::parse(text.as_bytes()).expect("our own text");
                    let branch = branch_of(&message);
                    self.presence.sent_for.insert(branch, from);
                }
                self.out.push(Out::ToClient(flow, text));
            }
        }
        self.send_notifies(now);
    }

    /// A registration came over this flow: its partition's node hears of keep-alives.
    pub fn note_registered(&mut self, flow: Flow, partition: Partition) {
        self.presence
            .registered
            .entry(flow)
            .or_default()
            .insert(partition);
    }

    fn pass_keepalive_on(&mut self, now: Instant, flow: Flow) {
        let partitions = self.presence.registered.get(&flow).cloned();
        for partition in partitions.into_iter().flatten() {
            if let Route::At(owner) = self.core.route(now, partition) {
                let to = usize::from(owner.node.0) - 1;
                self.hand_to_node(to, SipVerb::Response, flow, String::new());
            }
        }
    }

    fn hand_to_node(&mut self, to: usize, verb: SipVerb, flow: Flow, text: String) {
        let letter = Letter::Sip(verb, self.number, flow, text);
        self.out.push(Out::ToNode(to, letter));
    }

    fn request(&mut self, now: Instant, unix: UnixTime, flow: Flow, text: &str) {
        let message = Message::parse(text.as_bytes()).expect("our own text");
        let to = message.to().expect("our own text");
        let aor: Box<str> = to.uri_text.into();
        match self.core.route(now, Partition::of(&aor)) {
            Route::Here(grant) => {
                let request = WaitingRequest {
                    text: text.to_owned(),
                    flow,
                };
                match message.method() {
                    Some(Method::Publish) => self.publish(now, unix, (&aor, grant), request),
                    Some(Method::Subscribe) => self.subscribe(now, unix, (&aor, grant), request),
                    _ => {}
                }
            }
            // What was handed on is not handed on again.
            Route::At(owner) if usize::from(flow.node) == self.number + 1 => {
                let to = usize::from(owner.node.0) - 1;
                self.hand_to_node(to, SipVerb::Handle, flow, text.to_owned());
            }
            Route::At(_) | Route::Wait => {}
        }
    }

    fn publish(
        &mut self,
        now: Instant,
        unix: UnixTime,
        (aor, grant): (&str, Grant),
        request: WaitingRequest,
    ) {
        if self.waits(aor) {
            return;
        }
        let message = Message::parse(request.text.as_bytes()).expect("our own text");
        let publish = Publish::read(&message, &policy()).expect("sound");
        let number = self.next_id().0;
        let mut new = || (number, format!("{number:x}-secret"));
        let publications = self.presence.publications.entry(aor.into()).or_default();
        publications.expire(now);
        let plan = publications.plan(publish, None, COUNT_MAX, now, &mut new);
        let mut plan = match plan {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse(&message, request.flow, &refusal),
        };
        let (id, expires_s) = (BindingId(number), plan.kept_s());
        let soft = match publications.keep(aor, &plan) {
            None => return self.published(now, aor, plan, &request),
            Some(Keep::Remove(row)) => SoftChange::Remove(row.id),
            Some(Keep::Put(row, value)) => {
                let id = row.map_or(id, |row| row.id);
                let row = soft_row(id, SoftStateKind::Publication, value, expires_s, unix);
                plan.set_row(row.ended());
                SoftChange::Put(row)
            }
        };
        let name = request_name(&message);
        drop(message);
        let then = Then::Published(Box::new(plan), request, name);
        self.push_write(aor, grant, soft, then);
    }

    fn push_write(&mut self, aor: &str, grant: Grant, soft: SoftChange, then: Then) {
        self.writes.push_back(Write {
            aor: aor.into(),
            grant,
            changes: Vec::new(),
            soft: vec![soft],
            then,
        });
        self.write();
    }

    pub(super) fn published(
        &mut self,
        now: Instant,
        aor: &str,
        plan: Plan,
        request: &WaitingRequest,
    ) {
        let granted = plan.granted.clone();
        let publications = self.presence.publications.entry(aor.into()).or_default();
        publications.apply(plan);
        let message = Message::parse(request.text.as_bytes()).expect("our own text");
        let mut answer = Vec::new();
        write_published(&mut answer, &message, &granted, request.flow.remote, "us");
        self.send(request.flow, text_of(answer));
        self.tell(now, aor);
    }

    fn subscribe(
        &mut self,
        now: Instant,
        unix: UnixTime,
        (aor, grant): (&str, Grant),
        request: WaitingRequest,
    ) {
        if self.waits(aor) {
            return;
        }
        let message = Message::parse(request.text.as_bytes()).expect("our own text");
        let subscribe = Subscribe::read(&message, &policy(), request.flow).expect("sound");
        let run = RunNumber::OfPartition(grant.epoch);
        let (id, value, opened) = match subscribe.to_tag {
            None => {
                let opened = self.presence.opened.get(&request_name(&message)).cloned();
                if let Some(tag) = opened {
                    return self.answer_again(now, &tag, (&message, &subscribe), request.flow);
                }
                self.presence.tag_count += 1;
                let (count, Member { node, epoch }) = (self.presence.tag_count, self.member);
                let tag = format!("{count:x}-{}-{epoch}", node.0);
                let (name, id) = (Name::new(aor), self.next_id());
                let subscription =
                    Subscription::open(&subscribe, name, &tag, Advertised::default(), now);
                let value = subscription.stored(run);
                (id, value, Ok(Box::new(subscription)))
            }
            Some(tag) => {
                let Some(watched) = self.presence.watchers.get(tag) else {
                    return self.refuse(&message, request.flow, &Refusal::NoSubscription);
                };
                if let Err(refusal) = watched.subscription.check_refresh(&subscribe, now) {
                    return self.refuse(&message, request.flow, &refusal);
                }
                let value = watched.subscription.stored_after(&subscribe, run);
                (watched.row.id, value, Err(Box::<str>::from(tag)))
            }
        };
        let kind = SoftStateKind::Subscription;
        let row = soft_row(id, kind, value, subscribe.granted_s, unix);
        let what = match opened {
            Ok(subscription) => Subscribed::New(subscription, row.ended()),
            Err(tag) => Subscribed::Again(tag, row.ended()),
        };
        drop(message);
        self.push_write(
            aor,
            grant,
            SoftChange::Put(row),
            Then::Subscribed(what, request),
        );
    }

    /// The transaction has the answer.
    fn answer_again(
        &mut self,
        now: Instant,
        tag: &str,
        (message, subscribe): (&Message<'_>, &Subscribe<'_>),
        flow: Flow,
    ) {
        if let Some(Watched { subscription, .. }) = self.presence.watchers.get_mut(tag) {
            subscription.asked_again(now);
            let mut answer = Vec::new();
            write_accepted(
                &mut answer,
                message,
                subscription,
                subscribe.granted_s,
                flow,
            );
            self.send(flow, text_of(answer));
        }
    }

    pub(super) fn subscribed(
        &mut self,
        now: Instant,
        aor: &str,
        what: Subscribed,
        request: &WaitingRequest,
    ) {
        let message = Message::parse(request.text.as_bytes()).expect("our own text");
        let subscribe = Subscribe::read(&message, &policy(), request.flow).expect("sound");
        let state = self.device_state(now, aor);
        let tag = match what {
            Subscribed::New(mut subscription, row) => {
                subscription.device_is(state);
                let tag: Box<str> = subscription.dialog().local_tag().into();
                let subscription = *subscription;
                (self.presence.opened).insert(request_name(&message), tag.clone());
                let watched = Watched { subscription, row };
                self.presence.watchers.insert(tag.clone(), watched);
                tag
            }
            Subscribed::Again(tag, row) => {
                if let Some(watched) = self.presence.watchers.get_mut(&tag) {
                    watched.row = row;
                }
                tag
            }
        };
        let Some(watched) = self.presence.watchers.get_mut(&tag) else {
            return self.refuse(&message, request.flow, &Refusal::NoSubscription);
        };
        let is_again = subscribe.to_tag.is_some();
        if is_again && let Err(refusal) = watched.subscription.refresh(&subscribe, now) {
            return self.refuse(&message, request.flow, &refusal);
        }
        let mut answer = Vec::new();
        let (subscription, flow) = (&watched.subscription, request.flow);
        write_accepted(
            &mut answer,
            &message,
            subscription,
            subscribe.granted_s,
            flow,
        );
        self.send(flow, text_of(answer));
    }

    fn refuse(&mut self, message: &Message<'_>, flow: Flow, refusal: &Refusal) {
        let mut answer = Vec::new();
        let status = refusal.status();
        ResponseBuilder::new(&mut answer, message, status, Some(flow.remote)).finish();
        self.send(flow, text_of(answer));
    }

    /// What the device does has changed, or may have.
    pub(super) fn tell(&mut self, now: Instant, aor: &str) {
        let state = self.device_state(now, aor);
        for watched in self.presence.watchers.values_mut() {
            if **watched.subscription.device() == *aor {
                watched.subscription.device_is(state.clone());
            }
        }
    }

    fn device_state(&self, now: Instant, aor: &str) -> Option<DeviceState> {
        let publications = self.presence.publications.get(aor);
        let published = publications.and_then(Publications::told);
        let bindings = self.memory.get(&Partition::of(aor));
        let bindings = bindings.and_then(|memory| memory.get(aor));
        let bindings = bindings.cloned().unwrap_or_default();
        DeviceState::of(&Name::new(aor), &bindings, published, now)
    }

    /// What a watcher has to be told in the end.
    pub fn expected_body(&self, now: Instant, aor: &str, subscribe: &str, flow: Flow) -> String {
        let message = Message::parse(subscribe.as_bytes()).expect("our own text");
        let subscribe = Subscribe::read(&message, &policy(), flow).expect("sound");
        let name = Name::new(aor);
        let mut subscription =
            Subscription::open(&subscribe, name, "any", Advertised::default(), now);
        subscription.device_is(self.device_state(now, aor));
        let polled = subscription.poll(now, &mut Vec::new(), buffers());
        let sent = polled.ok().flatten().expect("a NOTIFY");
        body_of(&text_of(sent.datagram.to_vec())).to_owned()
    }

    /// NOTIFYs and questions that are due.
    pub(super) fn send_due(&mut self, now: Instant) {
        self.send_notifies(now);
        while let Some(probe) = self.presence.probes.poll(now) {
            match probe {
                Probe::Ask(flow) => self.ask(flow),
                Probe::Down(flow) => self.set_reach(now, flow, Reach::Unreachable),
                Probe::KeepAlive(_) => {}
            }
        }
    }

    fn send_notifies(&mut self, now: Instant) {
        let tags: Vec<Box<str>> = self.presence.watchers.keys().cloned().collect();
        for tag in tags {
            while let Some(watched) = self.presence.watchers.get_mut(&tag) {
                if watched.subscription.ended().is_some() {
                    let row = watched.row;
                    self.presence.watchers.remove(&tag);
                    self.out.push(Out::Purge(self.member, row));
                    break;
                }
                let polled = watched.subscription.poll(now, &mut Vec::new(), buffers());
                let Ok(Some(sent)) = polled else {
                    if watched.subscription.ended().is_some() {
                        continue;
                    }
                    break;
                };
                let flow = watched.subscription.dialog().flow();
                let is_sent = self.send(flow, text_of(sent.datagram.to_vec()));
                let is_own = usize::from(flow.node) == self.number + 1;
                let Some(watched) = self.presence.watchers.get_mut(&tag) else {
                    break;
                };
                match is_sent {
                    false => watched.subscription.put_off(now),
                    true if flow.transport.is_reliable() && !is_own => {
                        watched.subscription.may_be_lost(now);
                    }
                    true => {}
                }
            }
        }
    }

    /// `false` if it is certainly lost.
    fn send(&mut self, flow: Flow, text: String) -> bool {
        let to = usize::from(flow.node) - 1;
        let is_reliable = flow.transport.is_reliable();
        if to == self.number {
            self.out.push(Out::ToClient(flow, text));
            return true;
        }
        if self.lives(to) {
            let is_lost = is_reliable && !self.is_connected;
            if !is_lost {
                self.hand_to_node(to, SipVerb::Send, flow, text);
            }
            return !is_lost;
        }
        if is_reliable {
            return false;
        }
        // From here, as far as the client hears it.
        if text.starts_with("OPTIONS ") {
            let message = Message::parse(text.as_bytes()).expect("our own text");
            self.presence.instead.insert(branch_of(&message), flow);
        }
        let node = self.number as u16 + 1;
        self.out.push(Out::ToClient(Flow { node, ..flow }, text));
        true
    }

    fn ask(&mut self, flow: Flow) {
        self.presence.probe_count += 1;
        let (count, node, epoch) = (self.presence.probe_count, self.number, self.member.epoch);
        let remote = flow.remote;
        let name = format!("{node}-{epoch}-{count}");
        let text = format!(
            "OPTIONS sip:{remote} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={PROBE}{name};rport\r\n\
             From: <sip:us>;tag={name}\r\nTo: <sip:{remote}>\r\nCall-ID: {name}\r\nCSeq: 1 OPTIONS\r\n\
             Content-Length: 0\r\n\r\n"
        );
        self.send(flow, text);
    }

    fn take_response(&mut self, now: Instant, flow: Flow, message: &mut Message<'_>) {
        let Start::Response { status, .. } = message.start() else {
            return;
        };
        let branch = branch_of(message);
        if branch.starts_with(PROBE) {
            let meant = self.presence.instead.get(&branch).copied();
            if let Some(meant) = meant.filter(|meant| meant.remote == flow.remote) {
                self.note_life(now, meant);
            }
            return;
        }
        let cseq = message.cseq().expect("our own text");
        let watched = Dialog::tag_in_branch(&branch);
        let watched = watched.and_then(|tag| self.presence.watchers.get_mut(tag));
        if let Some(watched) = watched {
            watched.subscription.answered(cseq.number, status);
        }
        self.send_notifies(now);
    }

    /// Something was heard over this flow.
    pub(super) fn note_life(&mut self, now: Instant, flow: Flow) {
        if self.presence.probes.heard(&flow, now) {
            self.set_reach(now, flow, Reach::Reachable);
        }
    }

    fn set_reach(&mut self, now: Instant, flow: Flow, reach: Reach) {
        let Some((_, aor)) = self.presence.probed.get(&place(flow)).cloned() else {
            return;
        };
        let memory = self.memory.get_mut(&Partition::of(&aor));
        if let Some(bindings) = memory.and_then(|memory| memory.get_mut(&aor))
            && bindings.set_reach(flow, reach).is_some()
        {
            self.tell(now, &aor);
        }
    }

    /// Probes the flows that the device has now.
    pub(super) fn follow_flows(&mut self, now: Instant, aor: &str, is_restored: bool) {
        let memory = self.memory.get(&Partition::of(aor));
        let bindings = memory.and_then(|memory| memory.get(aor));
        let active = bindings
            .into_iter()
            .flat_map(|bindings| bindings.active(now));
        let flows: Vec<Flow> = active.map(|binding| binding.contact.flow()).collect();
        let Presence { probes, probed, .. } = &mut self.presence;
        probed.retain(|_, (flow, of)| {
            let is_gone = **of == *aor && !flows.contains(flow);
            if is_gone {
                probes.forget(flow);
            }
            !is_gone
        });
        for flow in flows
            .into_iter()
            .filter(|flow| !flow.transport.is_reliable())
        {
            let pace = Pace {
                verify_within: is_restored.then_some(INTERVAL),
                ..Pace::every(INTERVAL)
            };
            probes.watch(flow, flow.remote.port().into(), pace, now);
            if !is_restored {
                probes.heard(&flow, now);
            }
            probed.insert(place(flow), (flow, aor.into()));
        }
    }

    /// What the database has of a partition that has come.
    pub(super) fn restore(&mut self, at: Now, grant: Grant, rows: Vec<SoftState>) {
        // A commit that was answered late may have left something.
        self.forget_presence(grant.partition);
        for row in rows {
            let remaining = row.remaining(at.steady);
            if remaining.is_zero() {
                continue;
            }
            let expires_at = at.now + remaining;
            match row.kind {
                SoftStateKind::Publication => {
                    let stored = Restorable::read(&row.value).expect("as it was written");
                    let publications = &mut self.presence.publications;
                    let of_it = publications.entry(stored.device().into()).or_default();
                    of_it.put_back(stored, row.ended(), expires_at, at.now);
                }
                SoftStateKind::Subscription => {
                    let run = |_: &str| RunNumber::OfPartition(grant.epoch);
                    let advertised = Advertised::default();
                    let subscription = Subscription::restore(
                        &row.value,
                        run,
                        &policy(),
                        advertised,
                        expires_at,
                        at.now,
                    );
                    let mut subscription = subscription.expect("as it was written");
                    if self.may_stand(subscription.dialog().flow()) {
                        subscription.connection_stands();
                    }
                    let tag = subscription.dialog().local_tag().into();
                    let row = row.ended();
                    let watched = Watched { subscription, row };
                    self.presence.watchers.insert(tag, watched);
                }
            }
        }
        let known = self.memory.get(&grant.partition).into_iter().flatten();
        let known: BTreeSet<Box<str>> = known.map(|(aor, _)| aor.clone()).collect();
        for aor in &known {
            self.follow_flows(at.now, aor, true);
        }
        let watched = self.presence.watchers.values();
        let watched: BTreeSet<Box<str>> = watched
            .map(|watched| &**watched.subscription.device())
            .filter(|aor| Partition::of(aor) == grant.partition)
            .map(Box::from)
            .collect();
        for aor in watched {
            self.tell(at.now, &aor);
        }
    }

    /// Another node has the partition from now on.
    pub(super) fn forget_presence(&mut self, partition: Partition) {
        let is_other = |aor: &str| Partition::of(aor) != partition;
        let presence = &mut self.presence;
        presence.publications.retain(|aor, _| is_other(aor));
        let watchers = &mut presence.watchers;
        watchers.retain(|_, watched| is_other(watched.subscription.device()));
        let probes = &mut presence.probes;
        presence.probed.retain(|_, (flow, aor)| {
            let is_kept = is_other(aor);
            if !is_kept {
                probes.forget(flow);
            }
            is_kept
        });
    }
}

pub fn policy() -> WatchPolicy {
    WatchPolicy::default()
}

fn soft_row(
    id: BindingId,
    kind: SoftStateKind,
    value: String,
    granted_s: u32,
    unix: UnixTime,
) -> SoftState {
    SoftState {
        id,
        kind,
        value: value.into(),
        granted_s,
        expires_at: unix + Duration::from_secs(granted_s.into()),
    }
}

fn place(flow: Flow) -> (u16, u16) {
    (flow.remote.port(), flow.node)
}

fn branch_of(message: &Message<'_>) -> Box<str> {
    let via = message.via().expect("our own text");
    via.branch().expect("our own text").into()
}

/// Call-ID and CSeq.
pub fn request_name(message: &Message<'_>) -> String {
    let cseq = message.cseq().expect("our own text");
    format!(
        "{} {}",
        message.call_id().expect("our own text"),
        cseq.number
    )
}

pub fn body_of(text: &str) -> &str {
    text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// All nodes write into the same memory.
fn buffers() -> &'static BufferPool {
    static BUFFERS: OnceLock<BufferPool> = OnceLock::new();
    BUFFERS.get_or_init(|| {
        let pool = BufferPool::builder().budget_bytes(64 << 20).build();
        pool.expect("memory")
    })
}

/// Of one device; what nobody takes back any more stays.
const COUNT_MAX: usize = 64;
const INTERVAL: Duration = Duration::from_secs(2);
const PROBE: &str = "z9hG4bKprobe";
