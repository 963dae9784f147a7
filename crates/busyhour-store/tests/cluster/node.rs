//! One node: what the server does around the cores, with nothing that blocks.

mod connections;
pub mod presence;

use self::{
    connections::Connections,
    presence::{Presence, Subscribed, WaitingRequest},
};
use crate::{
    database::{Group, SoftChange},
    letter::{Answer, Asked, Bye, Letter, Query, away},
};
use busyhour::clock::{Instant, UnixTime};
use busyhour_cluster::{
    Action, Counted, Failure, Grant, Incarnation, Life as NodeLife, LiveMessage, LiveOutbox,
    Member, Node, NodeView, Notices, Partition, Reply, Report, Route, SharedAction, SharedStates,
    Timing, Value,
};
use busyhour_registrar::{
    BindingId, Bindings, EndedBinding, Now, Registration, RegistrationPolicy, watch::Plan,
};
use busyhour_sip::{Flow, Message};
use busyhour_store::{SoftState, StoredBinding};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// What a node wants to be sent.
pub enum Out {
    ToDatabase(Query),
    ToNode(usize, Letter),
    ToAll(Letter),
    /// The telephone has its 200.
    Acknowledge(Asked),
    /// The telephone's BYE is answered.
    Over(Bye),
    /// To a client of this node.
    ToClient(Flow, String),
    /// The row of a subscription that is over.
    Purge(Member, EndedBinding),
    /// The program ends.
    End,
}

/// A life of a node.
pub struct Life {
    pub number: usize,
    pub member: Member,
    incarnation: Incarnation,
    pub core: Node,
    pub shared: SharedStates,
    /// Changes that leave with the next look at what has to be sent.
    outbox: LiveOutbox,
    /// Asked for and not sent yet; the first one is on its way.
    asks: VecDeque<Action>,
    is_asking: bool,
    /// The bindings of devices of partitions that this node has read.
    memory: BTreeMap<Partition, BTreeMap<Box<str>, Bindings>>,
    writes: VecDeque<Write>,
    /// The first of `writes` is on its way.
    is_writing: bool,
    groups: u64,
    closing: BTreeMap<Partition, Grant>,
    /// What is being read.
    loading: BTreeMap<Partition, Grant>,
    next_id: u64,
    speaks_for: BTreeSet<Partition>,
    begun: BTreeSet<Box<str>>,
    pub wants: BTreeSet<Box<str>>,
    /// What its watchers were told last of devices of others.
    pub told: BTreeMap<Box<str>, Option<u32>>,
    /// The dialogs that it carries.
    pub carries: BTreeSet<(Box<str>, u64)>,
    /// Those of its devices, by who carries them.
    pub dialogs: BTreeSet<(Box<str>, Member, u64)>,
    /// Dialogs whose end other nodes have to be told.
    notices: Notices,
    is_connected: bool,
    next_beacon: Instant,
    presence: Presence,
    connections: Connections,
    out: Vec<Out>,
}

/// A change that waits for its turn or for its answer.
struct Write {
    aor: Box<str>,
    grant: Grant,
    changes: Vec<busyhour_registrar::BindingChange>,
    soft: Vec<SoftChange>,
    then: Then,
}

/// What follows once it is written.
enum Then {
    Registered(Asked, Bindings),
    /// With the name of the request.
    Published(Box<Plan>, WaitingRequest, String),
    Subscribed(Subscribed, WaitingRequest),
    /// The connection of a contact has ended.
    CutOff(Bindings),
}

impl Life {
    pub fn new(number: usize, member: Member, random: u64, asked_at: Instant) -> Self {
        let incarnation = Incarnation::new(member, random);
        let mut core = Node::new(member, Timing::default(), asked_at);
        assert_eq!(core.on_ready(), None, "it has no view");
        Self {
            number,
            member,
            incarnation,
            core,
            shared: SharedStates::new(incarnation, PATIENCE),
            outbox: LiveOutbox::default(),
            asks: VecDeque::new(),
            is_asking: false,
            memory: BTreeMap::new(),
            writes: VecDeque::new(),
            is_writing: false,
            groups: 0,
            closing: BTreeMap::new(),
            loading: BTreeMap::new(),
            next_id: u64::from(member.node.0) << 48 | member.epoch << 32,
            speaks_for: BTreeSet::new(),
            begun: BTreeSet::new(),
            wants: BTreeSet::new(),
            told: BTreeMap::new(),
            carries: BTreeSet::new(),
            dialogs: BTreeSet::new(),
            notices: Notices::new(member.node, PATIENCE, 10),
            is_connected: false,
            next_beacon: asked_at,
            presence: Presence::default(),
            connections: Connections::default(),
            out: Vec::new(),
        }
    }

    /// What has to be sent.
    pub fn take_out(&mut self) -> Vec<Out> {
        self.send_changes();
        std::mem::take(&mut self.out)
    }

    /// Time has passed.
    pub fn poll(&mut self, now: Instant, unix: UnixTime, is_connected: bool) {
        let due = self.core.on_time(now);
        self.follow(now, due);
        self.send_due(now);
        self.end_cut_off(now, unix);
        if now < self.next_beacon {
            return;
        }
        self.next_beacon = now + BEACON;
        let Some(view) = self.core.view().cloned() else {
            return;
        };
        self.know_nodes();
        self.send_notices(now);
        self.follow_connections(now, is_connected);
        let beacon = self.shared.beacon_due(&view);
        let mut actions: Vec<_> = beacon.map(SharedAction::Send).into_iter().collect();
        if self.is_connected != is_connected {
            self.is_connected = is_connected;
            actions.extend(self.shared.on_connected(now, is_connected));
        }
        actions.extend(self.shared.on_view(now, self.core.view_read_at(), &view));
        actions.extend(self.shared.on_time(now));
        self.follow_shared(actions);
    }

    /// A request of a telephone, from it or from another node.
    pub fn register(&mut self, now: Instant, unix: UnixTime, asked: Asked, aor: &str, text: &str) {
        let partition = Partition::of(aor);
        self.note_life(now, asked.flow());
        if asked.came_to == self.number {
            self.note_connection(asked.flow());
        }
        match self.core.route(now, partition) {
            Route::Here(grant) => self.decide(now, unix, asked, (aor, text), grant),
            // What was handed on is not handed on again.
            Route::At(owner) if asked.came_to == self.number => {
                let to = usize::from(owner.node.0) - 1;
                self.out.push(Out::ToNode(to, Letter::Handle(asked)));
            }
            // The telephone sends it again.
            Route::At(_) | Route::Wait => {}
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        unix: UnixTime,
        asked: Asked,
        (aor, text): (&str, &str),
        grant: Grant,
    ) {
        if self.waits(aor) {
            return;
        }
        let message = Message::parse(text.as_bytes()).expect("our own text");
        let registration = Registration::read(&message, aor, asked.flow()).expect("sound");
        let memory = self.memory.get(&grant.partition).expect("it is loaded");
        let before = memory.get(aor).cloned().unwrap_or_default();
        let (policy, next_id) = (RegistrationPolicy::default(), &mut self.next_id);
        let mut next_id = || {
            *next_id += 1;
            BindingId(*next_id)
        };
        let at = Now {
            now,
            unix,
            steady: unix,
        };
        let Ok(update) = before.update(&registration, &policy, at, &mut next_id) else {
            return;
        };
        if update.changes.is_empty() {
            return self.acknowledge(asked);
        }
        self.writes.push_back(Write {
            aor: aor.into(),
            grant,
            changes: update.changes,
            soft: Vec::new(),
            then: Then::Registered(asked, update.bindings),
        });
        self.write();
    }

    /// Whether a request waits for the one before of its device. By then it is sent again.
    fn waits(&self, aor: &str) -> bool {
        self.writes.iter().any(|write| *write.aor == *aor)
    }

    fn next_id(&mut self) -> BindingId {
        self.next_id += 1;
        BindingId(self.next_id)
    }

    fn acknowledge(&mut self, asked: Asked) {
        self.out.push(match asked.came_to == self.number {
            true => Out::Acknowledge(asked),
            false => Out::ToNode(asked.came_to, Letter::Answer(asked)),
        });
    }

    fn write(&mut self) {
        let Some(write) = self.writes.front().filter(|_| !self.is_writing) else {
            return;
        };
        let group = Group {
            member: self.member,
            number: self.groups,
            grant: write.grant,
            aor: write.aor.clone(),
            cseq: match &write.then {
                Then::Registered(asked, _) => Some(asked.cseq),
                _ => None,
            },
            changes: write.changes.clone(),
            soft: write.soft.clone(),
            published: match &write.then {
                Then::Published(_, _, name) => Some(name.clone()),
                _ => None,
            },
        };
        self.is_writing = true;
        self.out.push(Out::ToDatabase(Query::Commit(group)));
    }

    pub fn hear(&mut self, now: Instant, letter: Letter) {
        match letter {
            Letter::Live(bytes) => {
                let message = LiveMessage::from_bytes(&bytes).expect("as it was sent");
                if message.origin() != self.incarnation {
                    let actions = self.shared.on_message(now, message);
                    self.follow_shared(actions);
                }
            }
            Letter::Ask(from, bytes) => {
                let Some(LiveMessage::Ask(request)) = LiveMessage::from_bytes(&bytes) else {
                    panic!("as it was sent");
                };
                if let Some(part) = self.shared.part(&request, PART_BYTES) {
                    let part = LiveMessage::Part(part).to_bytes();
                    self.out.push(Out::ToNode(from, Letter::Live(part)));
                }
            }
            Letter::Announce => self.core.on_announced(now),
            Letter::Served(grant) => {
                let actions = self.core.on_served(now, [grant]);
                self.follow(now, actions);
            }
            Letter::Answer(asked) => self.out.push(Out::Acknowledge(asked)),
            Letter::Bye(bye) => self.bye(now, bye),
            Letter::Ended(by, number, bye) => {
                self.carry(&bye.aor, bye.id, false);
                let to = usize::from(by.node.0) - 1;
                self.out.push(Out::ToNode(to, Letter::Known(by, number)));
            }
            Letter::Known(by, number) if by == self.member => self.notices.answered(number),
            // It answers an earlier life.
            Letter::Known(..) => {}
            Letter::ByeAnswer(bye) => self.out.push(Out::Over(bye)),
            Letter::ConnectionEnded(..) | Letter::DoTheyStand(..) | Letter::TheyHaveEnded(..) => {
                self.hear_of_connections(now, letter)
            }
            Letter::Handle(_) | Letter::Sip(..) => unreachable!("the world knows the rest"),
        }
    }

    pub fn answer(&mut self, now: Instant, at: Now, answer: Answer) {
        match answer {
            Answer::Owned(reply) => {
                self.is_asking = false;
                let actions = self.core.on_reply(now, reply);
                self.follow(now, actions);
            }
            Answer::Loaded(grant, rows, soft) => self.take_in(now, at, grant, (rows, soft)),
            Answer::Committed(counted) => self.committed(now, counted),
            Answer::Away(Query::Own(_, action)) => {
                self.is_asking = false;
                let reply = away(&action).unwrap_or(Reply::Drained(Err(Failure::LifeOver)));
                let actions = self.core.on_reply(now, reply);
                self.follow(now, actions);
            }
            // They are tried again until there is an answer.
            Answer::Away(Query::Load(grant)) => {
                if self.loading.get(&grant.partition) == Some(&grant) {
                    self.out.push(Out::ToDatabase(Query::Load(grant)));
                }
            }
            Answer::Away(Query::Commit(_)) => {
                self.is_writing = false;
                self.write();
            }
            Answer::Joined(_) | Answer::Purged => {}
            Answer::Away(Query::Join(_) | Query::Purge(..)) => {}
        }
    }

    fn committed(&mut self, now: Instant, counted: Counted) {
        self.is_writing = false;
        let Some(write) = self.writes.pop_front() else {
            return;
        };
        let partition = write.grant.partition;
        if counted != Counted::Refused {
            self.groups += 1;
            let aor = write.aor;
            match write.then {
                Then::Registered(asked, bindings) => {
                    if let Some(memory) = self.memory.get_mut(&partition) {
                        memory.insert(aor.clone(), bindings);
                    }
                    self.follow_flows(now, &aor, false);
                    self.say(&aor);
                    self.acknowledge(asked);
                    self.tell(now, &aor);
                    // It may have ended meanwhile.
                    self.check(now, [asked.flow()]);
                }
                Then::Published(plan, request, _) => self.published(now, &aor, *plan, &request),
                Then::Subscribed(what, request) => self.subscribed(now, &aor, what, &request),
                Then::CutOff(bindings) => {
                    if let Some(memory) = self.memory.get_mut(&partition) {
                        memory.insert(aor.clone(), bindings);
                    }
                    self.say(&aor);
                    self.tell(now, &aor);
                }
            }
        }
        let actions = self.settle([partition]);
        self.follow(now, actions);
        self.write();
    }

    /// Goes on with those of them that were to be closed and of which nothing is under way.
    fn settle(&mut self, partitions: impl IntoIterator<Item = Partition>) -> Vec<Action> {
        let mut settled = Vec::new();
        for partition in partitions {
            let is_under_way = |write: &Write| write.grant.partition == partition;
            if !self.writes.iter().any(is_under_way) {
                settled.extend(self.closing.remove(&partition));
            }
        }
        match settled.is_empty() {
            true => Vec::new(),
            false => self.core.on_settled(settled),
        }
    }

    fn take_in(
        &mut self,
        now: Instant,
        at: Now,
        grant: Grant,
        (rows, soft): (Vec<StoredBinding>, Vec<SoftState>),
    ) {
        let partition = grant.partition;
        if self.loading.get(&partition) != Some(&grant) {
            // It was given back meanwhile.
            return;
        }
        self.loading.remove(&partition);
        let mut memory: BTreeMap<Box<str>, Bindings> = BTreeMap::new();
        for row in rows {
            let contact = self.reached_contact(row.contact);
            let bindings = memory.entry(row.aor).or_default();
            bindings.restore(row.id, contact, row.lease, at);
        }
        self.memory.insert(partition, memory);
        self.restore(at, grant, soft);
        self.check_partition(now, partition);
        self.speaks_for.insert(partition);
        let actions = self.shared.granted(grant);
        self.follow_shared(actions);
        let more = self.core.on_loaded(grant);
        self.follow(now, more);
    }

    fn forget(&mut self, partition: Partition) {
        self.memory.remove(&partition);
        self.speaks_for.remove(&partition);
        self.forget_presence(partition);
        self.dialogs
            .retain(|(aor, ..)| Partition::of(aor) != partition);
        let actions = self.shared.lost(partition);
        self.follow_shared(actions);
        let carried = self.carries.iter();
        let of_it = carried.filter(|(aor, _)| Partition::of(aor) == partition);
        for (aor, id) in of_it.cloned().collect::<Vec<_>>() {
            self.report(&aor, id);
        }
    }

    fn follow(&mut self, now: Instant, actions: Vec<Action>) {
        let mut waiting = VecDeque::from(actions);
        loop {
            // To give many partitions away takes longer than a lease, which goes on meanwhile.
            for due in self.core.on_time(now) {
                match due {
                    Action::Beat => self.asks.push_front(due),
                    _ => waiting.push_back(due),
                }
            }
            let Some(action) = waiting.pop_front() else {
                break;
            };
            match action {
                Action::Load(grant) => {
                    self.loading.insert(grant.partition, grant);
                    self.out.push(Out::ToDatabase(Query::Load(grant)));
                }
                Action::Close(grants) => {
                    let closing = grants.iter().map(|grant| (grant.partition, *grant));
                    self.closing.extend(closing);
                    waiting.extend(self.settle(grants.iter().map(|grant| grant.partition)));
                }
                Action::Unload(grant) => {
                    self.closing.remove(&grant.partition);
                    self.loading.remove(&grant.partition);
                    self.forget(grant.partition);
                }
                Action::Announce => self.out.push(Out::ToAll(Letter::Announce)),
                Action::SayServed(grant) => self.out.push(Out::ToAll(Letter::Served(grant))),
                Action::End => self.out.push(Out::End),
                asked => self.asks.push_back(asked),
            }
        }
        if !self.is_asking
            && let Some(action) = self.asks.pop_front()
        {
            self.is_asking = action != Action::Leave;
            let query = Query::Own(self.member, action);
            self.out.push(Out::ToDatabase(query));
        }
    }

    pub fn leave(&mut self, now: Instant) {
        self.core.on_leave_wanted(now);
    }

    pub fn want(&mut self, aor: &str, is_wanted: bool) {
        let actions = match is_wanted {
            true => {
                self.wants.insert(aor.into());
                let mut actions = self.shared.want(aor);
                actions.extend(self.shared.recall(aor));
                actions
            }
            false => {
                self.wants.remove(aor);
                self.told.remove(aor);
                self.shared.unwant(aor)
            }
        };
        self.follow_shared(actions);
    }

    /// A dialog begins here, or ends.
    pub fn carry(&mut self, aor: &str, id: u64, is_begun: bool) {
        let key = (Box::<str>::from(aor), id);
        let _ = match is_begun {
            true => self.carries.insert(key),
            false => self.carries.remove(&key),
        };
        self.report(aor, id);
    }

    /// A telephone ends a dialog: the carrier is told, and if it cannot be, the request goes on
    /// from here.
    pub fn bye(&mut self, now: Instant, bye: Bye) {
        if bye.carrier == self.number {
            self.carry(&bye.aor, bye.id, false);
            self.out.push(match bye.came_to == self.number {
                true => Out::Over(bye),
                false => Out::ToNode(bye.came_to, Letter::ByeAnswer(bye)),
            });
        } else if !self.know_nodes() {
            // The telephone sends it again.
        } else if self.is_connected && self.lives(bye.carrier) {
            self.out.push(Out::ToNode(bye.carrier, Letter::Bye(bye)));
        } else {
            let source = [192, 0, 2, bye.came_to as u8].into();
            let text = bye.to_text();
            let about = String::from_utf8_lossy(&text).into();
            self.notices.add(now, source, &about, text.into());
            self.send_notices(now);
            self.out.push(Out::Over(bye));
        }
    }

    fn send_notices(&mut self, now: Instant) {
        for notice in self.notices.due(now) {
            let to = usize::from(notice.to.0) - 1;
            let bye = Bye::of_text(&notice.text);
            let letter = Letter::Ended(self.member, notice.number, bye);
            self.out.push(Out::ToNode(to, letter));
        }
    }

    /// Takes over who lives, if that is known yet.
    fn know_nodes(&mut self) -> bool {
        let Some(view) = self.core.view() else {
            return false;
        };
        let nodes = view.nodes.iter();
        let nodes = nodes.map(|it| (it.member.node, it.life != NodeLife::Over));
        self.notices.view_is(self.core.view_read_at(), nodes);
        true
    }

    fn lives(&self, number: usize) -> bool {
        let mut nodes = self.core.view().into_iter().flat_map(|view| &view.nodes);
        let is_it = |node: &&NodeView| usize::from(node.member.node.0) == number + 1;
        nodes
            .find(is_it)
            .is_some_and(|node| node.life != NodeLife::Over)
    }

    fn report(&mut self, aor: &str, id: u64) {
        let is_carried = self.carries.contains(&(Box::<str>::from(aor), id));
        if self.speaks_for.contains(&Partition::of(aor)) {
            let key = (Box::from(aor), self.member, id);
            let _ = match is_carried {
                true => self.dialogs.insert(key),
                false => self.dialogs.remove(&key),
            };
            return;
        }
        let value = is_carried.then(|| Value::from([1]));
        let actions = self.shared.report(aor, id, value);
        self.follow_shared(actions);
    }

    /// What a device of this node does: the newest CSeq of its contacts.
    pub fn state(&self, aor: &str) -> Option<u32> {
        let bindings = self.memory.get(&Partition::of(aor))?.get(aor)?;
        bindings.all().map(|binding| binding.lease().cseq).max()
    }

    fn say(&mut self, aor: &str) {
        if self.begun.contains(aor) {
            let state = self.state(aor).map(u32::to_be_bytes);
            let actions = self
                .shared
                .state_is(aor, state.as_ref().map(|state| &state[..]));
            self.follow_shared(actions);
        }
    }

    fn send_changes(&mut self) {
        let messages = self.outbox.take().into_iter();
        let letters = messages.map(|message| Out::ToAll(Letter::Live(message.to_bytes())));
        self.out.extend(letters);
    }

    fn follow_shared(&mut self, actions: Vec<SharedAction>) {
        for action in actions {
            match action {
                SharedAction::Send(LiveMessage::Change(change)) => self.outbox.push(change),
                SharedAction::Send(message) => {
                    self.send_changes();
                    self.out.push(Out::ToAll(Letter::Live(message.to_bytes())));
                }
                SharedAction::Ask(request) => {
                    let to = usize::from(request.origin.member.node.0) - 1;
                    let bytes = LiveMessage::Ask(request).to_bytes();
                    self.out
                        .push(Out::ToNode(to, Letter::Ask(self.number, bytes)));
                }
                SharedAction::Begin(aor) => {
                    self.begun.insert(aor.clone());
                    self.say(&aor);
                }
                SharedAction::Stop(aor) => {
                    self.begun.remove(&aor);
                }
                SharedAction::Ours(_) => {}
                SharedAction::State(aor, state) => {
                    let state = state.and_then(|state| <[u8; 4]>::try_from(&*state).ok());
                    self.told.insert(aor, state.map(u32::from_be_bytes));
                }
                SharedAction::Report(report) => self.take(report),
            }
        }
    }

    fn take(&mut self, report: Report) {
        let key = (report.aor, report.by, report.id);
        let _ = match report.value {
            Some(_) => self.dialogs.insert(key),
            None => self.dialogs.remove(&key),
        };
    }
}

const BEACON: Duration = Duration::from_millis(600);
const PATIENCE: Duration = Duration::from_millis(1000);
/// Small, so that a sync has several parts.
const PART_BYTES: usize = 64;
