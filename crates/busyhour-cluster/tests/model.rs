//! Every state that three nodes, a database and faults can reach, within bounds.
//!
//! The nodes are the crate's own `Node`s, and the database is its `Tables`. A partition holds a
//! counter. To write, an owner adds one to what it remembers, as the server computes bindings
//! from those in its memory. So if anybody writes who does not know all that was committed, the
//! counter is less than the number of writes that were acknowledged.

use busyhour::clock::Instant;
use busyhour_cluster::{
    Action, Counted, Failure, Grant, Member, Node, Partition, Reply, Route, Tables, Timing,
};
use stateright::{Checker, Model, Property};
use std::{collections::VecDeque, time::Duration};

/// What may go wrong, and how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Budget {
    writes: u8,
    crashes: u8,
    /// How often a node that has crashed starts again.
    starts: u8,
    /// How often a node stops without noticing.
    pauses: u8,
    /// How often the database's answer is lost, or the request is late.
    losses: u8,
    /// How often a node leaves of its own will.
    leaves: u8,
    /// Times at which the database's clock is set by this many lease times.
    clock_steps: u8,
}

/// A cluster with these faults, until this time.
struct Cluster {
    budget: Budget,
    ticks_max: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    tick: u8,
    /// How far the database's clock is ahead of everybody's.
    database_ahead: u8,
    tables: Tables,
    servers: Vec<Server>,
    /// Requests whose sender has given up, and which the database may still do.
    late: Vec<(Member, Action)>,
    /// Commits whose sender has crashed.
    late_commits: Vec<Commit>,
    /// What servers have said within this second that they serve, and nobody has heard yet.
    said: Vec<(usize, Grant)>,
    durable: Vec<u8>,
    acknowledged: Vec<u8>,
    /// Who has committed to which partition in which of its epochs.
    committed: Vec<(Grant, Member)>,
    /// For how long nobody has served a partition though somebody could have.
    neglected: Vec<u8>,
    left: Budget,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Server {
    /// `None` when it does not run.
    node: Option<Node>,
    requests: VecDeque<Action>,
    memory: Vec<Option<u8>>,
    /// The commit on its way.
    writing: Option<Commit>,
    closing: Vec<Grant>,
    groups: u64,
    is_paused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Commit {
    member: Member,
    groups: u64,
    grant: Grant,
    value: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// A second passes.
    Tick,
    /// The database does the first request of a server and answers.
    Answer(usize),
    /// It does it, and the answer is lost.
    LoseAnswer(usize),
    /// It does not do it yet, and the server gives up.
    Delay(usize),
    DoLate(usize),
    BeginWrite(usize, u8),
    Commit(usize),
    DoLateCommit(usize),
    /// All others hear what a server has said that it serves. What is not heard at once is lost.
    HearServed(usize),
    Crash(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
    Leave(usize),
    SetClock,
}

#[test]
fn three_nodes_keep_the_invariants_when_one_crashes_and_starts_again() {
    let budget = Budget {
        writes: 2,
        crashes: 1,
        starts: 1,
        ..Budget::default()
    };
    check(budget, 11);
}

#[test]
fn three_nodes_keep_the_invariants_when_one_stops_without_noticing() {
    let budget = Budget {
        writes: 2,
        pauses: 1,
        ..Budget::default()
    };
    check(budget, 10);
}

#[test]
fn three_nodes_keep_the_invariants_when_one_leaves_and_requests_are_late() {
    let budget = Budget {
        writes: 1,
        losses: 1,
        leaves: 1,
        ..Budget::default()
    };
    check(budget, 8);
}

#[test]
fn three_nodes_keep_the_invariants_when_the_clock_of_the_database_is_set() {
    let budget = Budget {
        writes: 1,
        crashes: 1,
        clock_steps: 1,
        ..Budget::default()
    };
    check(budget, 10);
}

fn check(budget: Budget, ticks_max: u8) {
    let cluster = Cluster { budget, ticks_max };
    let checker = cluster.checker().threads(2).spawn_bfs().join();
    println!(
        "{budget:?}: {} states, {} of them distinct",
        checker.state_count(),
        checker.unique_state_count()
    );
    checker.assert_properties();
}

impl Model for Cluster {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::settled(self.budget)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        state.steps(self.ticks_max, steps);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        state.take(step);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one owner commits", |_, state: &State| {
                state.has_one_committer()
            }),
            Property::always("acknowledged is kept", |_, state: &State| {
                (state.durable.iter().zip(&state.acknowledged)).all(|(kept, told)| kept >= told)
            }),
            Property::always("an owner has everything", |_, state: &State| {
                state.owners_know_all()
            }),
            Property::always("orphans are taken", |_, state: &State| {
                state.neglected.iter().all(|ticks| *ticks <= NEGLECT_MAX)
            }),
            Property::always("one node answers", |_, state: &State| {
                state.has_one_answerer()
            }),
            // Without these, a model that does nothing would pass.
            Property::sometimes("a partition has a new owner", |_, state: &State| {
                state
                    .servers
                    .iter()
                    .any(|server| server.memory.iter().flatten().count() > 1)
            }),
            Property::sometimes(
                "everything is acknowledged",
                |model: &Cluster, state: &State| {
                    state.acknowledged.iter().sum::<u8>() == model.budget.writes
                },
            ),
        ];
        if self.budget.starts > 0 {
            properties.push(Property::sometimes(
                "somebody waits for who serves what it gave away",
                |_, state: &State| !state.said.is_empty(),
            ));
        }
        if self.budget.pauses > 0 {
            properties.push(Property::sometimes(
                "a node ends, since it is declared dead",
                |_, state: &State| {
                    state.servers.iter().any(|server| server.node.is_none())
                        && state.left.crashes == 0
                },
            ));
        }
        properties
    }
}

impl State {
    /// Three nodes that have lived for some time and have one partition each.
    fn settled(budget: Budget) -> Self {
        let mut state = Self {
            tick: 0,
            database_ahead: 0,
            tables: Tables::with_partitions(TIMING, PARTITIONS),
            servers: vec![Server::new(); SERVERS],
            late: Vec::new(),
            late_commits: Vec::new(),
            said: Vec::new(),
            durable: vec![0; PARTITIONS],
            acknowledged: vec![0; PARTITIONS],
            committed: Vec::new(),
            neglected: vec![0; PARTITIONS],
            left: Budget::default(),
        };
        (0..SERVERS).for_each(|server| state.start(server));
        while state.tick < 4 {
            state.run_all();
            state.tick();
        }
        state.run_all();
        state.left = budget;
        assert!(
            state
                .servers
                .iter()
                .all(|server| server.memory.iter().flatten().count() == 1)
        );
        state
    }

    fn run_all(&mut self) {
        while let Some(server) =
            (0..SERVERS).find(|server| !self.servers[*server].requests.is_empty())
        {
            self.answer(server, true);
        }
    }

    fn steps(&self, ticks_max: u8, steps: &mut Vec<Step>) {
        let left = self.left;
        for (index, server) in self.servers.iter().enumerate() {
            match (&server.node, server.is_paused) {
                (None, _) if left.starts > 0 => steps.push(Step::Start(index)),
                (None, _) => {}
                (Some(_), true) => steps.push(Step::Resume(index)),
                (Some(node), false) => self.steps_of(index, server, node, steps),
            }
            if server.writing.is_some() {
                steps.push(Step::Commit(index));
            }
        }
        steps.extend((0..self.late.len()).map(Step::DoLate));
        steps.extend((0..self.late_commits.len()).map(Step::DoLateCommit));
        steps.extend((0..self.said.len()).map(Step::HearServed));
        if left.clock_steps > 0 {
            steps.push(Step::SetClock);
        }
        // Who can act does so before time passes.
        let is_busy = |server: &Server| !server.is_paused && !server.requests.is_empty();
        if self.tick < ticks_max && !self.servers.iter().any(is_busy) {
            steps.push(Step::Tick);
        }
    }

    fn steps_of(&self, index: usize, server: &Server, node: &Node, steps: &mut Vec<Step>) {
        let left = self.left;
        if !server.requests.is_empty() {
            steps.push(Step::Answer(index));
            if left.losses > 0 {
                steps.extend([Step::LoseAnswer(index), Step::Delay(index)]);
            }
        }
        if left.writes > 0 && server.writing.is_none() {
            let is_served = |partition: &u8| {
                matches!(
                    node.route(self.now(), Partition(*partition)),
                    Route::Here(_)
                )
            };
            steps.extend(
                (0..PARTITIONS as u8)
                    .filter(is_served)
                    .map(|partition| Step::BeginWrite(index, partition)),
            );
        }
        // Which of three equal nodes fails makes no difference.
        if index == 0 {
            steps.extend((left.crashes > 0).then_some(Step::Crash(index)));
            steps.extend((left.pauses > 0).then_some(Step::Pause(index)));
            steps.extend((left.leaves > 0).then_some(Step::Leave(index)));
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Tick => self.tick(),
            Step::Answer(server) => self.answer(server, true),
            Step::LoseAnswer(server) => {
                self.left.losses -= 1;
                self.answer(server, false);
            }
            Step::Delay(server) => self.delay(server),
            Step::DoLate(index) => {
                let (member, request) = self.late.remove(index);
                let _nobody_waits = self.perform(member, &request);
            }
            Step::BeginWrite(server, partition) => self.begin_write(server, Partition(partition)),
            Step::Commit(server) => self.commit(server),
            Step::DoLateCommit(index) => {
                let commit = self.late_commits.remove(index);
                let _nobody_waits = self.write(commit);
            }
            Step::HearServed(index) => {
                let (speaker, grant) = self.said.remove(index);
                (0..SERVERS)
                    .filter(|server| *server != speaker)
                    .for_each(|server| self.hear_served(server, grant));
            }
            Step::Crash(server) => {
                self.left.crashes -= 1;
                self.end(server);
            }
            Step::Start(server) => {
                self.left.starts -= 1;
                self.start(server);
            }
            Step::Pause(server) => {
                self.left.pauses -= 1;
                self.servers[server].is_paused = true;
            }
            Step::Resume(server) => {
                self.servers[server].is_paused = false;
                self.wake(server);
            }
            Step::Leave(server) => {
                self.left.leaves -= 1;
                let now = self.now();
                if let Some(node) = &mut self.servers[server].node {
                    node.on_leave_wanted(now);
                }
                self.wake(server);
            }
            Step::SetClock => {
                self.left.clock_steps -= 1;
                self.database_ahead = 10;
            }
        }
    }

    fn tick(&mut self) {
        self.tick += 1;
        self.said.clear();
        let served: Vec<bool> = (0..PARTITIONS as u8)
            .map(|partition| !self.answerers(Partition(partition)).is_empty())
            .collect();
        let could = self
            .servers
            .iter()
            .any(|server| server.node.is_some() && !server.is_paused);
        for (ticks, is_served) in self.neglected.iter_mut().zip(served) {
            *ticks = if is_served || !could { 0 } else { *ticks + 1 };
        }
        (0..SERVERS).for_each(|server| self.wake(server));
    }

    /// Lets a server do what its clock says.
    fn wake(&mut self, index: usize) {
        let now = self.now();
        let server = &mut self.servers[index];
        if server.is_paused {
            return;
        }
        let actions = server.node.as_mut().map(|node| node.on_time(now));
        self.follow(index, actions.unwrap_or_default());
    }

    fn hear_served(&mut self, index: usize, grant: Grant) {
        let now = self.now();
        let server = &mut self.servers[index];
        if server.is_paused {
            return;
        }
        let actions = server
            .node
            .as_mut()
            .map(|node| node.on_served(now, [grant]));
        self.follow(index, actions.unwrap_or_default());
    }

    /// It joins as one that drains, and is ready at once.
    fn start(&mut self, index: usize) {
        let (now, database_now) = (self.now(), self.database_now());
        // While its last life has a lease, it tries again: that is another step.
        if let Ok(member) = self
            .tables
            .join(database_now, ["alpha", "beta", "gamma"][index])
        {
            let mut node = Node::new(member, TIMING, now);
            self.tables.drain(member).expect("it lives");
            assert_eq!(node.on_ready(), None, "it has no view");
            self.servers[index].node = Some(node);
            self.servers[index].groups = 0;
            self.wake(index);
        } else {
            self.left.starts += 1;
        }
    }

    fn end(&mut self, index: usize) {
        let server = &mut self.servers[index];
        self.late_commits.extend(server.writing);
        *server = Server::new();
    }

    fn answer(&mut self, index: usize, is_heard: bool) {
        let Some((request, member)) = self.servers[index].next_request() else {
            return;
        };
        let reply = self.perform(member, &request);
        let reply = match is_heard {
            true => reply,
            false => unanswered(&request),
        };
        self.hear(index, &request, reply);
    }

    fn delay(&mut self, index: usize) {
        self.left.losses -= 1;
        let Some((request, member)) = self.servers[index].next_request() else {
            return;
        };
        self.late.push((member, request.clone()));
        self.hear(index, &request, unanswered(&request));
    }

    fn hear(&mut self, index: usize, request: &Action, reply: Option<Reply>) {
        let now = self.now();
        let durable = &self.durable;
        let server = &mut self.servers[index];
        let Some(node) = &mut server.node else { return };
        let actions = match (request, reply) {
            (Action::Load(grant), Some(_)) => {
                server.memory[grant.partition.index()] = Some(durable[grant.partition.index()]);
                node.on_loaded(*grant)
            }
            // It is read again.
            (Action::Load(grant), None) => vec![Action::Load(*grant)],
            (_, Some(reply)) => node.on_reply(now, reply),
            (_, None) => Vec::new(),
        };
        self.follow(index, actions);
        self.wake(index);
    }

    /// Does a request as a transaction; loads read nothing else than what is durable.
    fn perform(&mut self, member: Member, request: &Action) -> Option<Reply> {
        let now = self.database_now();
        let tables = &mut self.tables;
        Some(match request {
            Action::Beat => Reply::Beaten(tables.beat(now, member)),
            Action::Fence(other) => Reply::Ended(tables.fence(now, member, *other)),
            Action::Take(seen) => Reply::Taken(tables.take(now, member, seen)),
            Action::Give(grants, to) => {
                Reply::Given(grants.clone(), *to, tables.give(member, grants, *to))
            }
            Action::Drain => Reply::Drained(tables.drain(member)),
            Action::Undrain => Reply::Undrained(tables.undrain(member)),
            Action::Leave => Reply::Drained(tables.leave(member)),
            _ => Reply::Drained(Ok(())),
        })
    }

    fn follow(&mut self, index: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Close(grants) => self.servers[index].closing.extend(grants),
                Action::Unload(grant) => self.servers[index].memory[grant.partition.index()] = None,
                // Each beat finds what is new.
                Action::Announce => {}
                Action::SayServed(grant) => {
                    // To all others it makes no difference.
                    let now = self.now();
                    if self.servers.iter().any(|server| server.awaits(now, grant)) {
                        self.said.push((index, grant));
                        self.said.sort();
                    }
                }
                // A request to leave is on its way to the database, like any other.
                Action::End => {
                    let last = self.servers[index].requests.pop_back();
                    let member = self.servers[index].node.as_ref().map(Node::member);
                    self.late
                        .extend(member.zip(last).filter(|(_, last)| *last == Action::Leave));
                    return self.end(index);
                }
                request => self.servers[index].requests.push_back(request),
            }
        }
        self.settle(index);
    }

    /// Tells the node of partitions to which nothing is on its way.
    fn settle(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let writing = server.writing.map(|commit| commit.grant.partition);
        let is_settled = |grant: &mut Grant| Some(grant.partition) != writing;
        let settled: Vec<Grant> = server.closing.extract_if(.., is_settled).collect();
        if settled.is_empty() {
            return;
        }
        let actions = server.node.as_mut().map(|node| node.on_settled(settled));
        self.follow(index, actions.unwrap_or_default());
    }

    fn begin_write(&mut self, index: usize, partition: Partition) {
        self.left.writes -= 1;
        let now = self.now();
        let server = &mut self.servers[index];
        let Some(node) = &server.node else { return };
        let (Route::Here(grant), Some(value)) =
            (node.route(now, partition), server.memory[partition.index()])
        else {
            return;
        };
        server.writing = Some(Commit {
            member: node.member(),
            groups: server.groups,
            grant,
            value: value + 1,
        });
    }

    fn commit(&mut self, index: usize) {
        let Some(commit) = self.servers[index].writing.take() else {
            return;
        };
        let is_written = self.write(commit);
        let server = &mut self.servers[index];
        if is_written {
            server.groups += 1;
            if let Some(value) = &mut server.memory[commit.grant.partition.index()] {
                *value = commit.value;
            }
            self.acknowledged[commit.grant.partition.index()] += 1;
        }
        self.settle(index);
    }

    fn write(&mut self, commit: Commit) -> bool {
        let Commit {
            member,
            groups,
            grant,
            value,
        } = commit;
        let is_counted = self.tables.count(member, groups, &[grant]) == Counted::Now;
        if is_counted {
            self.durable[grant.partition.index()] = value;
            self.committed.push((grant, member));
            self.committed.sort();
            self.committed.dedup();
        }
        is_counted
    }

    fn has_one_committer(&self) -> bool {
        self.committed.windows(2).all(|pair| pair[0].0 != pair[1].0)
    }

    /// The members that answer for a partition from memory at this moment. A paused one does not
    /// answer: it looks at its clock when it goes on.
    fn answerers(&self, partition: Partition) -> Vec<Member> {
        let nodes = self
            .servers
            .iter()
            .filter_map(|server| server.node.as_ref().filter(|_| !server.is_paused));
        let answers =
            nodes.filter(|node| matches!(node.route(self.now(), partition), Route::Here(_)));
        answers.map(Node::member).collect()
    }

    fn has_one_answerer(&self) -> bool {
        (0..PARTITIONS as u8).all(|partition| self.answerers(Partition(partition)).len() <= 1)
    }

    fn owners_know_all(&self) -> bool {
        let view = self.tables.view(self.database_now());
        self.servers.iter().all(|server| {
            let Some(node) = &server.node else {
                return true;
            };
            (view.iter()).all(|(partition, found)| {
                let grant = Grant {
                    partition,
                    epoch: found.epoch,
                };
                let is_owner = view.owner(partition) == Some(node.member());
                let serves = node.route(self.now(), partition) == Route::Here(grant);
                // A commit may be done, and its answer on its way.
                let known = server.memory.get(partition.index()).copied().flatten();
                !(is_owner && serves) || known == Some(self.durable[partition.index()])
            })
        })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(u64::from(self.tick) * 1_000_000_000)
    }

    fn database_now(&self) -> Instant {
        self.now() + Duration::from_secs(self.database_ahead.into())
    }
}

impl Server {
    fn new() -> Self {
        Self {
            node: None,
            requests: VecDeque::new(),
            memory: vec![None; PARTITIONS],
            writing: None,
            closing: Vec::new(),
            groups: 0,
            is_paused: false,
        }
    }

    /// Whether its node has given this away, and has not heard that it is served.
    fn awaits(&self, now: Instant, grant: Grant) -> bool {
        self.node.as_ref().is_some_and(|node| {
            let mut heard = node.clone();
            let _nothing_is_done = heard.on_served(now, [grant]);
            heard != *node
        })
    }

    fn next_request(&mut self) -> Option<(Action, Member)> {
        let member = self.node.as_ref()?.member();
        Some((self.requests.pop_front()?, member))
    }
}

/// What a server hears if the database does not answer.
fn unanswered(request: &Action) -> Option<Reply> {
    match request {
        Action::Beat => Some(Reply::Beaten(Err(Failure::Away))),
        Action::Fence(_) => Some(Reply::Ended(Err(Failure::Away))),
        Action::Take(_) => Some(Reply::Taken(Err(Failure::Away))),
        Action::Give(grants, to) => Some(Reply::Given(grants.clone(), *to, Err(Failure::Away))),
        Action::Drain => Some(Reply::Drained(Err(Failure::Away))),
        Action::Undrain => Some(Reply::Undrained(Err(Failure::Away))),
        _ => None,
    }
}

const SERVERS: usize = 3;
const PARTITIONS: usize = 3;
/// A tick is a second. Clocks run alike here, so there is no margin.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(2),
    beat: Duration::from_secs(1),
    margin: Duration::ZERO,
};
/// Two lease times, a beat, and the beat whose answer may be lost.
const NEGLECT_MAX: u8 = 6;
