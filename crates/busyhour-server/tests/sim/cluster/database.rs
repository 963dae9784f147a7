//! The database that all nodes share, in virtual time. Leases and owners follow the rules of `Tables`, which PostgreSQL has too; a
//! commit takes time, its answer may be lost, and it is done by the database also if the node that asked is dead by then.

use crate::random::Random;
use busyhour::clock::Instant;
use busyhour_cluster::{
    Counted, Failure, Grant, InUse, Life, Member, NodeNumber, Ownership, Partition, Tables, Timing,
    View,
};
use busyhour_registrar::{BindingChange, BindingId, Contact, EndedBinding};
use busyhour_store::{
    AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Change, CommitError,
    Completion, Contents, EndListener, Refused, SettingKind, SoftState, Store, StoreError,
    StoreStats, StoredBinding,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// What all of it is in, for the world and for each node.
#[derive(Clone)]
pub struct Database(Arc<Mutex<DatabaseState>>);

struct DatabaseState {
    /// The world's time, which is the database's own.
    now: u64,
    random: Random,
    answer_time_max: u64,
    lost_answers_permille: u64,
    tables: Tables,
    bindings: BTreeMap<BindingId, StoredBinding>,
    /// Each with the partition of its address.
    soft_states: BTreeMap<BindingId, (Partition, SoftState)>,
    settings: BTreeMap<(SettingKind, String), String>,
    call_records: BTreeMap<u64, CallRecordRow>,
    sessions: BTreeMap<u64, Session>,
    /// The places that do not reach it.
    away: BTreeSet<usize>,
    /// What dead nodes have sent, and it will do.
    orphaned: Vec<Transaction>,
    /// Who has committed to a partition in one of its epochs.
    committers: BTreeMap<(Partition, u64), Member>,
    /// The last CSeq that was committed for a contact and a Call-ID.
    last_cseqs: BTreeMap<[Box<str>; 2], u32>,
    /// Each contact that ever was durable, with each CSeq that it had.
    ever_bound: BTreeSet<(String, u32)>,
    ever_subscribed: Vec<Box<str>>,
}

/// One process of a node.
struct Session {
    place: usize,
    member: Member,
    groups: u64,
    waiting: VecDeque<Batch>,
    current: Option<Transaction>,
    purges: VecDeque<(u64, EndedBinding)>,
    is_closed: bool,
    has_ended: bool,
    listener: Option<EndListener>,
}

struct Batch {
    grant: Option<Grant>,
    changes: Vec<Change>,
    done: Completion,
}

struct Transaction {
    member: Member,
    groups: u64,
    grant: Option<Grant>,
    changes: Vec<Change>,
    /// `None` once nobody waits for it.
    done: Option<Completion>,
    phase: Phase,
}

enum Phase {
    /// The database does it at this time.
    Asked(u64),
    /// The answer is with the node at this time.
    Done(u64, Result<(), CommitError>),
}

/// What a node is told: the completions are called without the database's lock.
pub type Told = (Completion, Result<(), CommitError>);

impl Database {
    pub fn new(random: &mut Random) -> Self {
        let answer_time_max = random.pick(&[2, 20, 20, 400]) * 1_000_000;
        let lost_answers_permille = random.pick(&[0, 0, 20, 100]);
        // PostgreSQL's schema makes it, so that all nodes have one.
        let route_key = (
            (SettingKind::Server, "route-key".to_owned()),
            "b2".repeat(32),
        );
        Self(Arc::new(Mutex::new(DatabaseState {
            now: 0,
            random: Random::new(random.next()),
            answer_time_max,
            lost_answers_permille,
            tables: Tables::new(Timing::default()),
            bindings: BTreeMap::new(),
            soft_states: BTreeMap::new(),
            settings: BTreeMap::from([route_key]),
            call_records: BTreeMap::new(),
            sessions: BTreeMap::new(),
            away: BTreeSet::new(),
            orphaned: Vec::new(),
            committers: BTreeMap::new(),
            last_cseqs: BTreeMap::new(),
            ever_bound: BTreeSet::new(),
            ever_subscribed: Vec::new(),
        })))
    }

    pub fn set_now(&self, now: u64) {
        self.lock().now = now;
    }

    /// A place reaches it from now on, or does not.
    pub fn reach(&self, place: usize, reaches: bool) {
        let mut state = self.lock();
        match reaches {
            true => state.away.remove(&place),
            false => state.away.insert(place),
        };
    }

    pub fn is_away(&self, place: usize) -> bool {
        self.lock().away.contains(&place)
    }

    pub fn quiet(&self) {
        let mut state = self.lock();
        state.away.clear();
        state.lost_answers_permille = 0;
        state.answer_time_max = 20_000_000;
    }

    /// Begins a life of the node of this name, to which nothing is assigned before it can serve.
    pub fn join(&self, name: &str) -> Result<Member, InUse> {
        let mut state = self.lock();
        let now = state.instant();
        let member = state.tables.join(now, name)?;
        let marked = state.tables.drain(member);
        assert_eq!(marked, Ok(()), "it has just joined");
        Ok(member)
    }

    /// The names of those that live and are assigned nothing.
    pub fn draining(&self) -> BTreeSet<String> {
        let state = self.lock();
        let nodes = state.tables.view(state.instant()).nodes.into_iter();
        let draining = nodes.filter(|node| node.is_draining && node.life != Life::Over);
        draining.map(|node| node.name.into()).collect()
    }

    /// What a process of a node uses.
    pub fn open(&self, process: u64, place: usize, member: Member) -> (NodeStore, NodeOwnership) {
        let session = Session {
            place,
            member,
            groups: 0,
            waiting: VecDeque::new(),
            current: None,
            purges: VecDeque::new(),
            is_closed: false,
            has_ended: false,
            listener: None,
        };
        self.lock().sessions.insert(process, session);
        let store = NodeStore {
            database: self.clone(),
            process,
        };
        let ownership = NodeOwnership {
            database: self.clone(),
            place,
        };
        (store, ownership)
    }

    /// The process is dead. What it has sent may be done all the same.
    pub fn close(&self, process: u64) {
        let mut state = self.lock();
        let Some(session) = state.sessions.remove(&process) else {
            return;
        };
        let mut unheard = Vec::new();
        if let Some(mut transaction) = session.current {
            unheard.extend(transaction.done.take());
            if state.random.permille(500) {
                if let Phase::Asked(at) = &mut transaction.phase {
                    *at += state.random.within(0, 10_000_000_000);
                }
                state.orphaned.push(transaction);
            }
        }
        unheard.extend(session.waiting.into_iter().map(|batch| batch.done));
        drop(state);
        // They may hold the server's last handles.
        drop((unheard, session.listener));
    }

    /// When something happens here, or is told to one of these processes.
    pub fn next_event(&self, is_running: impl Fn(u64) -> bool) -> Option<u64> {
        let state = self.lock();
        let of_session = |(process, session): (&u64, &Session)| {
            let current = session.current.as_ref().and_then(|it| match it.phase {
                Phase::Asked(at) => Some(at),
                Phase::Done(at, _) => is_running(*process).then_some(at),
            });
            let purge = session.purges.front().map(|(at, _)| *at);
            [current, purge].into_iter().flatten().min()
        };
        let sessions = state.sessions.iter().filter_map(of_session);
        let orphaned = state.orphaned.iter().filter_map(|it| match it.phase {
            Phase::Asked(at) => Some(at),
            Phase::Done(..) => None,
        });
        sessions.chain(orphaned).min()
    }

    /// Does what is due.
    pub fn run_due(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        for mut transaction in mem::take(&mut state.orphaned) {
            state.execute(&mut transaction, false);
            if let Phase::Asked(_) = transaction.phase {
                state.orphaned.push(transaction);
            }
        }
        let processes: Vec<u64> = state.sessions.keys().copied().collect();
        for process in processes {
            state.run_session(process);
        }
    }

    /// What a process is told now.
    pub fn take_told(&self, process: u64) -> (Vec<Told>, Option<EndListener>) {
        let mut state = self.lock();
        let now = state.now;
        let is_lasting = |tables: &Tables, member: Member| {
            let view = tables.view(Instant::from_nanos(now));
            let mut nodes = view.nodes.iter();
            nodes.any(|node| node.member == member && node.life != Life::Over)
        };
        let state = &mut *state;
        let Some(session) = state.sessions.get_mut(&process) else {
            return Default::default();
        };
        let is_due = |it: &mut Transaction| matches!(it.phase, Phase::Done(at, _) if at <= now);
        let Some(transaction) = session.current.take_if(is_due) else {
            return Default::default();
        };
        let Phase::Done(_, outcome) = transaction.phase else {
            return Default::default();
        };
        if outcome.is_ok() {
            session.groups += 1;
        } else if !is_lasting(&state.tables, session.member) {
            session.has_ended = true;
        }
        let listener = (session.has_ended)
            .then(|| session.listener.take())
            .flatten();
        let told = transaction.done.map(|done| (done, outcome));
        state.begin(process);
        (told.into_iter().collect(), listener)
    }

    /// Whether this contact was ever durable with one of these CSeqs.
    pub fn was_bound(&self, contact: &str, cseqs: RangeInclusive<u32>) -> bool {
        let state = self.lock();
        let [from, until] = [*cseqs.start(), *cseqs.end()].map(|it| (contact.to_owned(), it));
        state.ever_bound.range(from..=until).next().is_some()
    }

    /// Whether a subscription whose dialog has this tag ever was durable.
    pub fn was_subscribed(&self, tag: &str) -> bool {
        let state = self.lock();
        state
            .ever_subscribed
            .iter()
            .any(|value| value.contains(tag))
    }

    /// What was kept of calls.
    pub fn call_records(&self) -> Vec<CallRecordRow> {
        self.lock().call_records.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl DatabaseState {
    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn some_time(&mut self) -> u64 {
        self.random.within(100_000, self.answer_time_max)
    }

    fn run_session(&mut self, process: u64) {
        let Some(session) = self.sessions.get_mut(&process) else {
            return;
        };
        let is_away = self.away.contains(&session.place);
        let (now, member) = (self.now, session.member);
        let mut gone = Vec::new();
        while let Some((_, ended)) = session.purges.pop_front_if(|(at, _)| *at <= now) {
            gone.push(ended);
        }
        let mut current = session.current.take();
        if !is_away {
            let view = self.tables.view(self.instant());
            let is_ours = |partition| view.owner(partition) == Some(member);
            gone.iter()
                .for_each(|ended| self.remove_ended(ended, is_ours));
        }
        if let Some(transaction) = &mut current {
            self.execute(transaction, is_away);
        }
        if let Some(session) = self.sessions.get_mut(&process) {
            session.current = current;
        }
        self.begin(process);
    }

    /// The node's next transaction, if it has none.
    fn begin(&mut self, process: u64) {
        let at = self.now + self.some_time();
        let Some(session) = self.sessions.get_mut(&process) else {
            return;
        };
        if session.current.is_some() {
            return;
        }
        if let Some(batch) = session.waiting.pop_front() {
            session.current = Some(Transaction {
                member: session.member,
                groups: session.groups,
                grant: batch.grant,
                changes: batch.changes,
                done: Some(batch.done),
                phase: Phase::Asked(at),
            });
        }
    }

    fn execute(&mut self, transaction: &mut Transaction, is_away: bool) {
        let now = self.now;
        if !matches!(transaction.phase, Phase::Asked(at) if at <= now) {
            return;
        }
        if is_away {
            transaction.phase = Phase::Asked(now + 200_000_000);
            return;
        }
        let Transaction { member, groups, .. } = *transaction;
        let grants: Vec<Grant> = transaction.grant.into_iter().collect();
        let outcome = match self.tables.count(member, groups, &grants) {
            Counted::Now => {
                self.apply(transaction);
                Ok(())
            }
            Counted::Before => Ok(()),
            Counted::Refused => Err(CommitError::new("the grant does not hold any more")),
        };
        let some_time = self.some_time();
        let is_lost = self.random.permille(self.lost_answers_permille);
        transaction.phase = match is_lost {
            true => Phase::Asked(now + 10 * some_time),
            false => Phase::Done(now + some_time, outcome),
        };
    }

    fn apply(&mut self, transaction: &Transaction) {
        let member = transaction.member;
        if let Some(grant) = transaction.grant {
            let epoch = (grant.partition, grant.epoch);
            let first = *self.committers.entry(epoch).or_insert(member);
            assert_eq!(first, member, "two members commit with {grant:?}");
        }
        for change in &transaction.changes {
            self.apply_change(transaction.grant, change.clone());
        }
    }

    fn apply_change(&mut self, grant: Option<Grant>, change: Change) {
        match change {
            Change::Binding(BindingChange::Put {
                id,
                aor,
                contact,
                lease,
            }) => {
                let of = grant.map(|grant| grant.partition);
                assert_eq!(of, Some(Partition::of(&aor)), "{aor} has another partition");
                self.note_cseq(&contact, lease.cseq);
                if !lease.removed {
                    self.ever_bound
                        .insert((contact.uri().to_owned(), lease.cseq));
                }
                let row = StoredBinding {
                    id,
                    aor,
                    contact,
                    lease,
                };
                self.bindings.insert(id, row);
            }
            Change::Binding(BindingChange::Renew { id, lease }) => {
                if let Some(row) = self.bindings.get_mut(&id) {
                    let contact = row.contact.clone();
                    let (cseq, is_removed) = (lease.cseq, lease.removed);
                    row.lease = lease;
                    self.note_cseq(&contact, cseq);
                    if !is_removed {
                        self.ever_bound.insert((contact.uri().to_owned(), cseq));
                    }
                }
            }
            Change::Binding(BindingChange::Remove { id }) => drop(self.bindings.remove(&id)),
            Change::PutSoftState(row) => {
                let partition = grant.expect("a grant").partition;
                self.ever_subscribed.push(row.value.clone());
                self.soft_states.insert(row.id, (partition, row));
            }
            Change::RemoveSoftState(id) => drop(self.soft_states.remove(&id)),
            Change::PutSetting { kind, name, value } => {
                self.settings.insert((kind, name), value);
            }
            Change::RemoveSetting { kind, name } => drop(self.settings.remove(&(kind, name))),
            Change::PutCallRecord(row) => {
                // The database numbers them, since several nodes write some.
                let last = self.call_records.keys().next_back();
                let id = last.map_or(1, |last| last + 1);
                self.call_records.insert(id, *row);
            }
            other => panic!("nobody changes accounts here: {other:?}"),
        }
    }

    /// What a device asks for rises, as long as it has one Call-ID.
    fn note_cseq(&mut self, contact: &Contact, cseq: u32) {
        let key = [contact.uri(), contact.call_id()].map(Box::from);
        let last = self.last_cseqs.entry(key).or_default();
        assert!(*last <= cseq, "{contact:?} has {cseq} after {last}");
        *last = cseq;
    }

    /// Removes a row, unless it was renewed since; a soft state only if its partition is this node's.
    fn remove_ended(&mut self, ended: &EndedBinding, is_ours: impl Fn(Partition) -> bool) {
        let binding = self.bindings.get(&ended.id);
        if binding.is_some_and(|row| row.lease.expires_at == ended.expires_at) {
            self.bindings.remove(&ended.id);
        }
        let soft_state = self.soft_states.get(&ended.id);
        if soft_state.is_some_and(|(of, row)| row.expires_at == ended.expires_at && is_ours(*of)) {
            self.soft_states.remove(&ended.id);
        }
    }
}

/// The database, as the server of a node uses it.
pub struct NodeStore {
    database: Database,
    process: u64,
}

impl NodeStore {
    fn push(
        &self,
        grant: Option<Grant>,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        let mut state = self.database.lock();
        let session = state.sessions.get_mut(&self.process);
        match session.filter(|it| !it.is_closed && !it.has_ended) {
            None => Err(Refused::Closed),
            Some(session) => {
                session.waiting.push_back(Batch {
                    grant,
                    changes,
                    done,
                });
                state.begin(self.process);
                Ok(())
            }
        }
    }

    fn is_away(&self, state: &DatabaseState) -> bool {
        let session = state.sessions.get(&self.process);
        session.is_none_or(|session| state.away.contains(&session.place))
    }
}

impl Store for NodeStore {
    /// Settings and ids; what partitions have is read when they are granted.
    fn load(&self) -> Result<Contents, StoreError> {
        let state = self.database.lock();
        let bindings = state.bindings.keys().next_back();
        let soft_states = state.soft_states.keys().next_back();
        let last_id = bindings.max(soft_states).map_or(0, |id| id.0);
        Ok(Contents {
            last_id,
            settings: state.settings.clone(),
            last_call_record: state.call_records.keys().next_back().copied().unwrap_or(0),
            ..Contents::default()
        })
    }

    fn load_partitions(&self, grants: &[Grant]) -> Result<Contents, StoreError> {
        let state = self.database.lock();
        if self.is_away(&state) {
            return Err(StoreError::Simulated("the database cannot be reached"));
        }
        let view = state.tables.view(state.instant());
        let is_unknown = |it: &Grant| view.partitions[it.partition.index()].epoch < it.epoch;
        if grants.iter().any(is_unknown) {
            return Err(StoreError::Simulated("the database knows an earlier owner"));
        }
        let partitions: Vec<Partition> = grants.iter().map(|it| it.partition).collect();
        let bindings = state.bindings.values();
        let soft_states = state.soft_states.values();
        Ok(Contents {
            bindings: (bindings.filter(|row| partitions.contains(&Partition::of(&row.aor))))
                .cloned()
                .collect(),
            soft_states: (soft_states.filter(|(of, _)| partitions.contains(of)))
                .map(|(_, row)| row.clone())
                .collect(),
            ..Contents::default()
        })
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.push(None, changes, done)
    }

    fn commit_granted(
        &self,
        grant: Grant,
        changes: Vec<Change>,
        done: Completion,
    ) -> Result<(), Refused> {
        self.push(Some(grant), changes, done)
    }

    fn purge(&self, ended: &[EndedBinding]) {
        let mut state = self.database.lock();
        for ended in ended {
            let at = state.now + state.random.within(1_000_000, 1_000_000_000);
            if let Some(session) = state.sessions.get_mut(&self.process) {
                session.purges.push_back((at, *ended));
            }
        }
    }

    /// Nobody asks a node for them.
    fn call_records(&self, _query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        Ok(Vec::new())
    }

    /// There are few.
    fn remove_old_call_records(&self, _limits: CallRecordLimits) {}

    /// Nobody changes accounts here.
    fn watch_accounts(&self, _revision: u64, _listener: AccountListener) {}

    fn watch_end(&self, listener: EndListener) {
        if let Some(session) = self.database.lock().sessions.get_mut(&self.process) {
            session.listener = Some(listener);
        }
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            queue_capacity: 65_536,
            ..StoreStats::default()
        }
    }

    /// Virtual time does not pass in here: what waits is done while the world goes on.
    fn close(&self, _deadline: Duration) -> bool {
        let mut state = self.database.lock();
        let session = state.sessions.get_mut(&self.process);
        session.is_none_or(|session| {
            session.is_closed = true;
            session.current.is_none() && session.waiting.is_empty()
        })
    }
}

/// The database, as a node asks it for its lease and its partitions.
pub struct NodeOwnership {
    database: Database,
    place: usize,
}

impl NodeOwnership {
    fn ask<R>(
        &self,
        ask: impl FnOnce(&mut Tables, Instant) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut state = self.database.lock();
        if state.away.contains(&self.place) {
            return Err(Failure::Away);
        }
        let now = state.instant();
        let answer = ask(&mut state.tables, now);
        let lost_permille = state.lost_answers_permille;
        match state.random.permille(lost_permille) {
            true => Err(Failure::Away),
            false => answer,
        }
    }
}

impl Ownership for NodeOwnership {
    fn blocks(&self) -> bool {
        false
    }

    fn beat(&mut self, member: Member) -> Result<View, Failure> {
        self.ask(|tables, now| tables.beat(now, member))
    }

    fn fence(&mut self, by: Member, other: Member) -> Result<bool, Failure> {
        self.ask(|tables, now| tables.fence(now, by, other))
    }

    fn take(&mut self, by: Member, seen: &[Grant]) -> Result<Vec<Grant>, Failure> {
        self.ask(|tables, now| tables.take(now, by, seen))
    }

    fn give(&mut self, by: Member, grants: &[Grant], to: Member) -> Result<Vec<Grant>, Failure> {
        self.ask(|tables, _| tables.give(by, grants, to))
    }

    fn drain(&mut self, member: Member) -> Result<(), Failure> {
        self.ask(|tables, _| tables.drain(member))
    }

    fn undrain(&mut self, member: Member) -> Result<(), Failure> {
        self.ask(|tables, _| tables.undrain(member))
    }

    fn pin(
        &mut self,
        by: Member,
        partition: Partition,
        to: Option<NodeNumber>,
    ) -> Result<(), Failure> {
        self.ask(|tables, _| tables.pin(by, partition, to))
    }

    fn leave(&mut self, member: Member) -> Result<(), Failure> {
        self.ask(|tables, _| tables.leave(member))
    }
}
