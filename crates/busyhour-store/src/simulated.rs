//! A disk in virtual time, for the simulation: it is slow, fails and crashes.
//!
//! The disk outlives the stores opened on it, as a real one outlives servers.
//! Nothing here runs by itself: the owner of the virtual clock asks for
//! [`SimulatedDisk::next_due`] and calls [`SimulatedDisk::run_due`].

use super::{
    Account, AccountListener, AddressHash, BindingReader, BindingRows, CallRecordLimits,
    CallRecordQuery, CallRecordRow, Change, CommitError, Completion, Contents, EndListener,
    Refused, SettingKind, SoftState, Store, StoreError, StoreStats, StoredBinding,
    outside_changes::AccountWatch, queue::Batch,
};
use busyhour::clock::{Clock, Instant};
use busyhour_registrar::{BindingChange, BindingId, EndedBinding};
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// What survives a crash, and the transaction that may or may not.
///
/// # Examples
///
/// ```
/// use busyhour::clock::{Clock, UnixTime};
/// use busyhour_store::{Change, DiskBehaviour, SettingKind, SimulatedDisk, Store};
///
/// let clock = Clock::simulated(UnixTime::from_secs(1_700_000_000));
/// let disk = SimulatedDisk::new(7, DiskBehaviour::default());
/// let store = disk.open(clock.clone());
/// let (kind, name) = (SettingKind::Hint, "100".to_owned());
/// let hint = Change::PutSetting { kind, name: name.clone(), value: "alice".into() };
/// store.commit(vec![hint], Box::new(|fate| assert!(fate.is_ok()))).unwrap();
///
/// assert!(store.load().unwrap().settings.is_empty(), "not durable yet");
/// clock.as_virtual().unwrap().advance_to(disk.next_due().unwrap());
/// disk.run_due();
/// assert_eq!(store.load().unwrap().settings[&(kind, name)], "alice");
/// ```
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

/// One server's handle of a [`SimulatedDisk`]; dead after a crash or the next open.
pub struct SimulatedStore {
    disk: SimulatedDisk,
    feed: Arc<AccountWatch>,
    life: u64,
}

/// How a simulated disk behaves.
#[derive(Debug, Clone)]
pub struct DiskBehaviour {
    /// The shortest transaction.
    pub transaction_min: Duration,
    /// The longest transaction.
    pub transaction_max: Duration,
    /// How much later than that ended rows may be deleted.
    pub removal_delay_max: Duration,
    /// Of a thousand transactions, how many fail.
    pub failures_per_mille: u64,
    /// Most changes that may wait.
    pub queue_capacity: u64,
    /// More bindings than this are read while a server serves, where it asks for that.
    pub eager_bindings_max: usize,
    /// Of these, which make no sense then.
    pub unreadable: Vec<BindingId>,
}

impl Default for DiskBehaviour {
    fn default() -> Self {
        Self {
            transaction_min: Duration::from_micros(200),
            transaction_max: Duration::from_millis(20),
            removal_delay_max: Duration::from_secs(1),
            failures_per_mille: 0,
            queue_capacity: 65_536,
            eager_bindings_max: usize::MAX,
            unreadable: Vec::new(),
        }
    }
}

struct Disk {
    behaviour: DiskBehaviour,
    random: u64,
    /// Counts opens and crashes: a store with an older number is dead.
    life: u64,
    clock: Option<Clock>,
    /// Of the living store.
    feed: Arc<AccountWatch>,
    durable: Durable,
    writing: Option<Transaction>,
    waiting: Vec<Batch>,
    removing: Option<Removal>,
    ended: Vec<EndedBinding>,
    closed: bool,
    stats: StoreStats,
}

#[derive(Default)]
struct Durable {
    bindings: BTreeMap<BindingId, StoredBinding>,
    soft_states: BTreeMap<BindingId, SoftState>,
    accounts: BTreeMap<(String, String), Account>,
    settings: BTreeMap<(SettingKind, String), String>,
    call_records: BTreeMap<u64, CallRecordRow>,
}

struct Transaction {
    begun: Instant,
    due: Instant,
    group: Vec<Batch>,
}

/// Rows of what has ended, at some moment between two transactions.
struct Removal {
    due: Instant,
    batch: Vec<EndedBinding>,
}

impl SimulatedDisk {
    /// An empty disk whose timing and failures follow from `seed`.
    pub fn new(seed: u64, behaviour: DiskBehaviour) -> Self {
        let stats = StoreStats::of_queue(behaviour.queue_capacity);
        Self(Arc::new(Mutex::new(Disk {
            behaviour,
            random: seed,
            life: 0,
            clock: None,
            feed: Arc::default(),
            durable: Durable::default(),
            writing: None,
            waiting: Vec::new(),
            removing: None,
            ended: Vec::new(),
            closed: false,
            stats,
        })))
    }

    /// A store on this disk, timed by `clock`. An earlier store is dead from now on.
    pub fn open(&self, clock: Clock) -> SimulatedStore {
        let mut disk = self.lock();
        disk.die();
        disk.clock = Some(clock);
        disk.closed = false;
        disk.feed = Arc::default();
        SimulatedStore {
            disk: self.clone(),
            feed: disk.feed.clone(),
            life: disk.life,
        }
    }

    /// Simulates a power cut: waiting changes are lost, the seed decides whether the
    /// current transaction is durable, and no completion is called.
    pub fn crash(&self) {
        let mut disk = self.lock();
        let (lost, listener) = (disk.die(), disk.feed.end());
        drop(disk);
        // They may hold the server's last handles: drop them outside the lock.
        drop((lost, listener));
    }

    /// When the transaction on its way ends; `None` when the disk is idle.
    pub fn next_due(&self) -> Option<Instant> {
        let disk = self.lock();
        let written = disk.writing.as_ref().map(|transaction| transaction.due);
        let removed = disk.removing.as_ref().map(|removal| removal.due);
        [written, removed].into_iter().flatten().min()
    }

    /// Ends the transaction that is due by the clock, calls its completions
    /// and begins the next. Returns how many batches were told.
    pub fn run_due(&self) -> usize {
        let mut disk = self.lock();
        disk.remove_due();
        let Some((group, outcome)) = disk.finish_due() else {
            return 0;
        };
        let feed = disk.feed.clone();
        drop(disk);
        if outcome.is_ok() {
            feed.changed(group.iter().flat_map(|batch| &batch.changes), 0, 0);
        }
        let told = group.len();
        for batch in group {
            (batch.done)(outcome.clone());
        }
        told
    }

    /// What would survive a crash now.
    pub fn contents(&self) -> Contents {
        self.lock().contents()
    }

    /// Changes how the disk behaves from the next transaction on.
    pub fn set_behaviour(&self, behaviour: DiskBehaviour) {
        self.lock().behaviour = behaviour;
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Store for SimulatedStore {
    fn load(&self) -> Result<Contents, StoreError> {
        let disk = self.disk.lock();
        match disk.life == self.life {
            true => Ok(disk.contents()),
            false => Err(StoreError::Simulated(DEAD)),
        }
    }

    fn load_lazily(&self) -> Result<(Contents, Option<Arc<dyn BindingReader>>), StoreError> {
        let mut contents = self.load()?;
        if contents.bindings.len() <= self.disk.lock().behaviour.eager_bindings_max {
            return Ok((contents, None));
        }
        let last = contents.bindings.pop();
        contents.last_id = last.map_or(0, |row| row.id.0);
        contents.bindings.clear();
        let (disk, life) = (self.disk.clone(), self.life);
        Ok((contents, Some(Arc::new(SimulatedBindings { disk, life }))))
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        let mut disk = self.disk.lock();
        if disk.life != self.life || disk.closed {
            disk.stats.refused += 1;
            return Err(Refused::Closed);
        }
        disk.push(Batch::of(changes, done))
    }

    fn purge(&self, ended: &[EndedBinding]) {
        let mut disk = self.disk.lock();
        if disk.life == self.life && !disk.closed {
            disk.ended.extend_from_slice(ended);
            disk.begin_removal();
        }
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        let disk = self.disk.lock();
        match disk.life == self.life {
            true => Ok(query.select(disk.durable.call_records.values().rev())),
            false => Err(StoreError::Simulated(DEAD)),
        }
    }

    /// At once: nothing else depends on when.
    fn remove_old_call_records(&self, limits: CallRecordLimits) {
        let mut disk = self.disk.lock();
        if disk.life == self.life && !disk.closed {
            let removed = disk.durable.remove_old_call_records(limits);
            disk.stats.call_records_removed += removed;
        }
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.feed.start(revision, listener);
    }

    /// It ends in a crash, which tells nobody.
    fn watch_end(&self, _listener: EndListener) {}

    fn stats(&self) -> StoreStats {
        let disk = self.disk.lock();
        let removing = disk.removing.as_ref().map_or(0, |one| one.batch.len());
        StoreStats {
            ended_len: (disk.ended.len() + removing) as u64,
            ..disk.stats.clone()
        }
    }

    /// Virtual time does not pass in here: closed at once, drained by `run_due`.
    fn close(&self, _deadline: Duration) -> bool {
        let mut disk = self.disk.lock();
        if disk.life == self.life {
            disk.closed = true;
            disk.leave_ended();
        }
        disk.writing.is_none()
    }
}

/// The bindings of a simulated disk, read while the server of this life serves.
struct SimulatedBindings {
    disk: SimulatedDisk,
    life: u64,
}

impl SimulatedBindings {
    fn select<R>(&self, select: impl FnOnce(&Disk) -> R) -> Result<R, StoreError> {
        let disk = self.disk.lock();
        match disk.life == self.life {
            true => Ok(select(&disk)),
            false => Err(StoreError::Simulated(DEAD)),
        }
    }
}

impl BindingReader for SimulatedBindings {
    fn keys(&self, hash: &AddressHash<'_>) -> Result<Vec<(u64, BindingId)>, StoreError> {
        self.select(|disk| {
            let rows = disk.durable.bindings.values();
            rows.map(|row| (hash(&row.aor), row.id)).collect()
        })
    }

    fn read(&self, ids: &[BindingId]) -> Result<BindingRows, StoreError> {
        self.select(|disk| {
            let rows = &disk.durable.bindings;
            disk.read(ids.iter().filter_map(|id| rows.get(id)))
        })
    }

    fn read_behind(
        &self,
        after: Option<BindingId>,
        count_max: usize,
    ) -> Result<BindingRows, StoreError> {
        let above = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.select(|disk| {
            let rows = disk.durable.bindings.range((above, Bound::Unbounded));
            disk.read(rows.take(count_max).map(|(_, row)| row))
        })
    }

    /// It ends in a crash, which tells nobody.
    fn give_up(&self, _error: &StoreError) {}
}

impl Disk {
    fn read<'r>(&self, rows: impl Iterator<Item = &'r StoredBinding>) -> BindingRows {
        let mut all = BindingRows::default();
        for row in rows {
            let makes_sense = !self.behaviour.unreadable.contains(&row.id);
            let unreadable = StoreError::Simulated("a row makes no sense");
            all.push(row.id, makes_sense.then(|| row.clone()).ok_or(unreadable));
        }
        all
    }

    fn contents(&self) -> Contents {
        Contents {
            run: self.life,
            ..self.durable.contents()
        }
    }

    fn die(&mut self) -> Vec<Batch> {
        self.life += 1;
        let mut lost = std::mem::take(&mut self.waiting);
        if let Some(transaction) = self.writing.take() {
            if self.random_below(2) == 0 {
                self.durable.apply(&transaction.group);
            }
            lost.extend(transaction.group);
        }
        self.stats.set_queued_len(0);
        self.leave_ended();
        lost
    }

    /// Nobody waits for these rows. The current batch is deleted or stays.
    fn leave_ended(&mut self) {
        self.ended.clear();
        if let Some(removal) = self.removing.take()
            && self.random_below(2) == 0
        {
            self.durable.purge(&removal.batch);
        }
    }

    fn begin_removal(&mut self) {
        if self.removing.is_some() || self.ended.is_empty() {
            return;
        }
        let delay = self.random_duration(self.behaviour.removal_delay_max);
        let due = self.now() + self.transaction_time() + delay;
        let len = 1 + self.random_below(self.ended.len() as u64) as usize;
        let batch = self.ended.drain(..len).collect();
        self.removing = Some(Removal { due, batch });
    }

    fn remove_due(&mut self) {
        let now = self.now();
        let Some(removal) = self.removing.take_if(|removal| removal.due <= now) else {
            return;
        };
        match self.random_below(1000) < self.behaviour.failures_per_mille {
            true => self.ended.extend(removal.batch),
            false => {
                self.stats.ended_removed += removal.batch.len() as u64;
                self.durable.purge(&removal.batch);
            }
        }
        self.begin_removal();
    }

    fn push(&mut self, batch: Batch) -> Result<(), Refused> {
        let queued_len = self.stats.queued_len + batch.changes.len() as u64;
        if queued_len > self.behaviour.queue_capacity {
            self.stats.refused += 1;
            return Err(Refused::Full);
        }
        self.stats.set_queued_len(queued_len);
        self.waiting.push(batch);
        self.begin();
        Ok(())
    }

    fn begin(&mut self) {
        if self.writing.is_some() || self.waiting.is_empty() {
            return;
        }
        let begun = self.now();
        let due = begun + self.transaction_time();
        let group = std::mem::take(&mut self.waiting);
        self.writing = Some(Transaction { begun, due, group });
    }

    fn finish_due(&mut self) -> Option<(Vec<Batch>, Result<(), CommitError>)> {
        let now = self.now();
        let transaction = self.writing.take_if(|transaction| transaction.due <= now)?;
        let outcome = match self.random_below(1000) < self.behaviour.failures_per_mille {
            true => Err(CommitError::new("simulated disk is full")),
            false => Ok(()),
        };
        if outcome.is_ok() {
            self.durable.apply(&transaction.group);
        }
        let changes = transaction.group.iter().map(|b| b.changes.len() as u64);
        self.stats
            .record(changes.sum(), now - transaction.begun, &outcome);
        self.begin();
        Some((transaction.group, outcome))
    }

    fn now(&self) -> Instant {
        self.clock.as_ref().map_or(Instant::ZERO, Clock::now)
    }

    fn transaction_time(&mut self) -> Duration {
        let shortest = self.behaviour.transaction_min;
        let spread = self.behaviour.transaction_max.saturating_sub(shortest);
        shortest + self.random_duration(spread)
    }

    fn random_duration(&mut self, longest: Duration) -> Duration {
        let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random_below(longest_ns.saturating_add(1)))
    }

    /// SplitMix64: the simulation must not depend on a library's choice of generator.
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

impl Durable {
    fn contents(&self) -> Contents {
        Contents {
            bindings: self.bindings.values().cloned().collect(),
            soft_states: self.soft_states.values().cloned().collect(),
            accounts: self.accounts.values().cloned().collect(),
            settings: self.settings.clone(),
            last_call_record: self.last_call_record(),
            ..Contents::default()
        }
    }

    fn last_call_record(&self) -> u64 {
        self.call_records.keys().next_back().copied().unwrap_or(0)
    }

    /// How many they were.
    fn remove_old_call_records(&mut self, limits: CallRecordLimits) -> u64 {
        let id_max = self.last_call_record().saturating_sub(limits.count_max);
        let ended_before = limits.ended_before.as_nanos();
        let before = self.call_records.len();
        self.call_records
            .retain(|id, row| *id > id_max && row.ended_at_ns >= ended_before);
        (before - self.call_records.len()) as u64
    }

    /// Leaves alone a lease that ends at another time.
    fn purge(&mut self, batch: &[EndedBinding]) {
        for ended in batch {
            let row = self.bindings.get(&ended.id);
            if row.is_some_and(|row| row.lease.expires_at == ended.expires_at) {
                self.bindings.remove(&ended.id);
            }
            let row = self.soft_states.get(&ended.id);
            if row.is_some_and(|row| row.expires_at == ended.expires_at) {
                self.soft_states.remove(&ended.id);
            }
        }
    }

    fn apply(&mut self, group: &[Batch]) {
        for change in group.iter().flat_map(|batch| &batch.changes) {
            self.apply_change(change.clone());
        }
    }

    fn apply_change(&mut self, change: Change) {
        match change {
            Change::Binding(change) => self.apply_binding(change),
            Change::PutSoftState(row) => {
                self.soft_states.insert(row.id, row);
            }
            Change::RemoveSoftState(id) => {
                self.soft_states.remove(&id);
            }
            Change::PutAccount(account) => {
                let key = (account.username.clone(), account.realm.clone());
                self.accounts.insert(key, *account);
            }
            Change::RemoveAccount { username, realm } => {
                self.accounts.remove(&(username, realm));
            }
            Change::PutSetting { kind, name, value } => {
                self.settings.insert((kind, name), value);
            }
            Change::RemoveSetting { kind, name } => {
                self.settings.remove(&(kind, name));
            }
            Change::PutCallRecord(row) => {
                self.call_records.entry(row.id).or_insert(*row);
            }
        }
    }

    fn apply_binding(&mut self, change: BindingChange) {
        match change {
            BindingChange::Put {
                id,
                aor,
                contact,
                lease,
            } => {
                let stored = StoredBinding {
                    id,
                    aor,
                    contact,
                    lease,
                };
                self.bindings.insert(id, stored);
            }
            BindingChange::Renew { id, lease } => {
                if let Some(binding) = self.bindings.get_mut(&id) {
                    binding.lease = lease;
                }
            }
            BindingChange::Remove { id } => {
                self.bindings.remove(&id);
            }
        }
    }
}

const DEAD: &str = "this store ended with its server";
