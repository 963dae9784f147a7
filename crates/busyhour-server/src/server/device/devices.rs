//! Every device that has bindings or work, found by its address of record.
//!
//! There may be a million, nearly all of them idle, so a device has neither a
//! serializer nor a timer of its own. It works on one of a few strands, always the same
//! one, which keeps its requests in order; no task on a strand waits for the disk, so
//! the wait for a strand is short. And each shard of the table has one expiry timer,
//! for the device whose deadline comes first.

use super::{
    Device,
    device_context::DeviceContext,
    device_request::DeviceRequest,
    listing::changed_devices::{ChangedDevices, ToRead},
    loading::unread_bindings::UnreadBindings,
};
use crate::lock::lock;
use crate::server::{
    expiry_timer::{ExpiryOptions, ExpiryTimer},
    load::{
        due_shards::{DueShards, DueStep},
        shares::{Excess, Holder, Holders, Shares},
    },
    stats::{
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
    tenant::tenant_quota::TenantQuota,
};
use busyhour::{
    clock::Instant,
    runtime::Runtime,
    serializer::Serializer,
    task::{Executor, Task},
    timer::Timers,
};
use busyhour_cluster::{PARTITION_COUNT, Partition};
use busyhour_registrar::Domains;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use std::{
    hash::BuildHasher,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
    vec,
};

/// The table of devices, in shards with a lock each.
pub(in crate::server) struct Devices {
    shards: Box<[Mutex<DeviceShard>]>,
    pub(in crate::server) strand_kind: SerializerKind,
    strands: Box<[Serializer]>,
    pub(in crate::server) expiry_kind: SerializerKind,
    /// The serializer of the expiry timers: however many deadlines come at one instant,
    /// they keep only one worker busy, and that for some half of the time.
    expiry_serializer: Serializer,
    /// Shards with devices whose deadline has come. Its lock is taken under that of no shard.
    due: Mutex<DueShards>,
    timers: Timers,
    hasher: FixedState,
    shares: Shares,
    holders: Holders,
    domains: Domains,
    /// Then a shard has devices of one partition.
    is_in_cluster: bool,
    /// Registrations that are not read yet; none as soon as all are.
    unread: RwLock<Option<Arc<UnreadBindings>>>,
    /// There are some.
    is_reading: AtomicBool,
    /// Some shard notes which devices change.
    is_indexed: AtomicBool,
    /// Requests that may wait for one device.
    pub(super) queue_len_max: usize,
}

#[derive(Default)]
struct DeviceShard {
    table: HashTable<DeviceEntry>,
    expiry_timer: ExpiryTimer,
    /// For the index of devices, while there is one.
    changed: ChangedDevices,
}

struct DeviceEntry {
    device: Arc<Device>,
    /// When the device has to be woken: far in the future if nothing ends.
    deadline: Instant,
}

impl Devices {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        seed: u64,
        shares: Shares,
        (holders, domains): (Holders, Domains),
        (queue_len_max, is_in_cluster): (usize, bool),
    ) -> Self {
        let strand_kind = SerializerKind::new(runtime, STRAND_OPTIONS);
        let expiry_kind = SerializerKind::new(runtime, EXPIRY_OPTIONS);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            strands: (0..STRANDS).map(|_| strand_kind.ephemeral()).collect(),
            strand_kind,
            expiry_serializer: expiry_kind.ephemeral(),
            expiry_kind,
            due: Mutex::default(),
            timers: runtime.timers().clone(),
            hasher: FixedState::with_seed(seed),
            shares,
            holders,
            domains,
            is_in_cluster,
            unread: RwLock::default(),
            is_reading: AtomicBool::new(false),
            is_indexed: AtomicBool::new(false),
            queue_len_max,
        }
    }

    /// The device of an address of record, made for `holder` if there is none.
    fn open(
        &self,
        aor: &str,
        holder: Holder,
        context: &Arc<DeviceContext>,
    ) -> Result<Arc<Device>, Excess> {
        let partition = self.partition(aor);
        let hash = self.hash_in(partition, aor);
        if !self.read_first(hash) {
            return Err(Excess::Whole);
        }
        let mut shard = self.shard(hash);
        if let Some(device) = shard.find(hash, aor) {
            return Ok(device);
        }
        self.shares.take(holder, 1)?;
        let device = Device::new(aor.into(), partition, holder, context);
        Ok(self.insert(&mut shard, hash, device))
    }

    /// As [`open`](Self::open), for the account of the address.
    pub(super) fn open_for_account(
        &self,
        aor: &str,
        context: &Arc<DeviceContext>,
    ) -> Result<Arc<Device>, Excess> {
        let holder = self.holders.of_account(self.domains.account_of(aor));
        self.open(aor, holder, context)
    }

    /// The device of an address of record, if there is one.
    pub(in crate::server) fn find(&self, aor: &str) -> Option<Arc<Device>> {
        let hash = self.hash(aor);
        self.read_first(hash);
        self.shard(hash).find(hash, aor)
    }

    /// Reads the registrations of the addresses with this hash, if nobody has; `false` if they cannot be read.
    fn read_first(&self, hash: u64) -> bool {
        self.unread().is_none_or(|unread| unread.read_first(hash))
    }

    /// Those that are not read yet, if there are any.
    pub(in crate::server) fn unread(&self) -> Option<Arc<UnreadBindings>> {
        if !self.is_reading.load(Ordering::Acquire) {
            return None;
        }
        let unread = self.unread.read();
        unread.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These are read from now on. Devices that they may have take their room in the table.
    pub(super) fn begin_reading(&self, unread: Arc<UnreadBindings>) {
        self.shares.take_anyway(Holder::NOBODY, unread.left());
        *self.unread.write().unwrap_or_else(PoisonError::into_inner) = Some(unread);
        self.is_reading.store(true, Ordering::Release);
    }

    /// An address was read, so that its device has its own room.
    pub(super) fn one_is_read(&self) {
        self.shares.give_back(Holder::NOBODY, 1);
    }

    /// All were read, but for so many addresses whose rows are not there.
    pub(super) fn all_are_read(&self, left: u64) {
        self.is_reading.store(false, Ordering::Release);
        *self.unread.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.shares.give_back(Holder::NOBODY, left);
    }

    /// What a device with this address of record is found by.
    pub(super) fn hash(&self, aor: &str) -> u64 {
        self.hash_in(self.partition(aor), aor)
    }

    /// As [`hash`](Self::hash), without a look for the partition. A device does not keep it, since there may be a million.
    pub(super) fn hash_of(&self, device: &Device) -> u64 {
        self.hash_in(device.partition(), device.aor())
    }

    fn hash_in(&self, partition: Partition, aor: &str) -> u64 {
        let hash = self.hasher.hash_one(aor);
        match self.is_in_cluster {
            true => hash_in(partition, hash),
            false => hash,
        }
    }

    fn partition(&self, aor: &str) -> Partition {
        match self.is_in_cluster {
            true => Partition::of(aor),
            false => Partition(0),
        }
    }

    fn insert(&self, shard: &mut DeviceShard, hash: u64, device: Device) -> Arc<Device> {
        let device = Arc::new(device);
        let entry = DeviceEntry {
            device: device.clone(),
            deadline: Instant::FAR_FUTURE,
        };
        let rehash = |entry: &DeviceEntry| self.hash_of(&entry.device);
        shard.table.insert_unique(hash, entry, rehash);
        device
    }

    /// The device of a stored binding that is being read, made even where the table is full.
    pub(super) fn reopen(&self, aor: Box<str>, context: &Arc<DeviceContext>) -> Arc<Device> {
        let partition = self.partition(&aor);
        let hash = self.hash_in(partition, &aor);
        let mut shard = self.shard(hash);
        shard.find(hash, &aor).unwrap_or_else(|| {
            let holder = self.holders.of_account(self.domains.account_of(&aor));
            self.shares.take_anyway(holder, 1);
            self.insert(
                &mut shard,
                hash,
                Device::new(aor, partition, holder, context),
            )
        })
    }

    /// The devices of `count` shards, beginning with this one; `None` behind the last.
    pub(in crate::server) fn of_shards(
        &self,
        first: usize,
        count: usize,
    ) -> Option<Vec<Arc<Device>>> {
        let behind = self
            .shards
            .get(first..)
            .filter(|shards| !shards.is_empty())?;
        let mut devices = Vec::new();
        if let Some(unread) = self.unread() {
            let shards = first..first + behind.len().min(count);
            shards.for_each(|shard| unread.read_shard_first(shard));
        }
        for shard in behind.iter().take(count) {
            devices.extend(lock(shard).table.iter().map(|entry| entry.device.clone()));
        }
        Some(devices)
    }

    /// Notes that the contacts of a device are others, or last longer. Called under the lock of the device, before anybody
    /// is told: who reads the index after that finds the note, and waits for that lock.
    pub(super) fn note_changed(&self, device: &Arc<Device>) {
        if self.is_indexed.load(Ordering::Relaxed) {
            self.shard(self.hash_of(device)).changed.note(device);
        }
    }

    /// From now on the changes of a shard are noted, or no more.
    pub(super) fn note_changes(&self, shard: usize, is_on: bool) {
        if is_on {
            self.is_indexed.store(true, Ordering::Relaxed);
        }
        lock(&self.shards[shard]).changed.turn(is_on);
    }

    /// No changes are noted, but those of shards that begin to note them from now on.
    pub(super) fn is_indexed_no_more(&self) {
        self.is_indexed.store(false, Ordering::Relaxed);
    }

    /// Every device of a shard is to be read again.
    pub(super) fn forget_changes(&self, shard: usize) {
        lock(&self.shards[shard]).changed.forget();
    }

    /// What has changed in a shard since this was asked last.
    pub(super) fn changed(&self, shard: usize) -> ToRead {
        lock(&self.shards[shard]).changed.take()
    }

    pub(in crate::server) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The shard of an address of record.
    pub(super) fn shard_of(&self, aor: &str) -> usize {
        shard_of(self.hash(aor))
    }

    /// The shard of what has this hash.
    pub(super) fn shard_of_hash(&self, hash: u64) -> usize {
        shard_of(hash)
    }

    /// Hashes as nobody outside can.
    pub(super) fn hasher(&self) -> FixedState {
        self.hasher.clone()
    }

    pub(super) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The devices of a partition, in a cluster.
    pub(in crate::server) fn of_partition(&self, partition: Partition) -> Vec<Arc<Device>> {
        let first = partition.index() * PARTITION_SHARDS;
        self.of_shards(first, PARTITION_SHARDS).unwrap_or_default()
    }

    /// Takes a device out of the table.
    pub(in crate::server) fn remove(&self, device: &Arc<Device>) {
        let hash = self.hash_of(device);
        let mut shard = self.shard(hash);
        let is_it = |entry: &DeviceEntry| Arc::ptr_eq(&entry.device, device);
        if let Ok(entry) = shard.table.find_entry(hash, is_it) {
            entry.remove();
            self.shares.give_back(device.holder(), 1);
        }
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.shares.used() as usize
    }

    /// What waits on the strands.
    pub(in crate::server) fn strand_queues(&self) -> SerializerListing {
        let mut strands = self.strand_kind.listing();
        for (number, strand) in self.strands.iter().enumerate() {
            strands.add(strand.stats(), || number.to_string());
        }
        strands
    }

    /// What waits for the serializer of the expiry timers.
    pub(in crate::server) fn expiry_queue(&self) -> SerializerListing {
        let mut expiry = self.expiry_kind.listing();
        expiry.add(self.expiry_serializer.stats(), || "bindings".into());
        expiry
    }

    /// The serializer for work on many devices, in batches.
    pub(in crate::server) fn expiry_serializer(&self) -> &Serializer {
        &self.expiry_serializer
    }

    /// Whether so much waits on a device's strand that no more requests are taken.
    pub(in crate::server) fn is_crowded(&self, device: &Device) -> bool {
        self.strand_of(device).len() >= STRAND_LEN_MAX
    }

    pub(super) fn strand_of(&self, device: &Device) -> &Serializer {
        self.strand(self.hash_of(device))
    }

    /// The strand of the device with this hash.
    pub(in crate::server) fn strand(&self, hash: u64) -> &Serializer {
        &self.strands[hash as usize % STRANDS]
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, DeviceShard> {
        lock(&self.shards[shard_of(hash)])
    }
}

impl DeviceContext {
    /// The device of an address of record, made for `holder` if there is none.
    pub(in crate::server) fn open(
        self: &Arc<Self>,
        aor: &str,
        holder: Holder,
    ) -> Result<Arc<Device>, Excess> {
        self.table.open(aor, holder, self)
    }

    /// Gives a registration to its device, if that has room.
    pub(in crate::server) fn push_to_device(
        self: &Arc<Self>,
        device: &Arc<Device>,
        device_request: DeviceRequest,
    ) {
        if device.queued_len() >= self.table.queue_len_max || self.table.is_crowded(device) {
            self.drop_request(&device_request);
            return device.leave_if_idle(self);
        }
        let id = device_request.id();
        // Refused when the server ends, or when 65,536 turns wait for its strand: then the client sends it again.
        if !device.push(self, device_request) {
            self.abandon_request(id);
        }
    }

    /// A registration whose device has left the table in the meantime.
    pub(in crate::server) fn register_again(
        self: &Arc<Self>,
        aor: &str,
        device_request: DeviceRequest,
    ) {
        if let DeviceRequest::Remove(removal) = &device_request {
            // What has left the table has no contacts.
            return self.conclude_removal(removal, Ok(0));
        }
        let Some((flow, _)) = device_request.way() else {
            return;
        };
        let account = self.accounts.account_of(aor);
        let holder = self.table.holders.of(flow.remote.ip(), Some(account));
        match self.open(aor, holder) {
            Ok(device) => self.push_to_device(&device, device_request),
            Err(excess) => {
                let refusal =
                    (self.responder).no_room(excess, TenantQuota::OtherShare, flow, Some(account));
                self.reject_or_drop_request(&device_request, &refusal);
            }
        }
    }

    /// Sets the time at which a device is woken.
    pub(super) fn wake_device(self: &Arc<Self>, device: &Arc<Device>, deadline: Instant) {
        let hash = self.table.hash_of(device);
        let mut shard = self.table.shard(hash);
        let is_it = |entry: &DeviceEntry| Arc::ptr_eq(&entry.device, device);
        if let Some(entry) = shard.table.find_mut(hash, is_it) {
            entry.deadline = deadline;
            self.set_alarm(shard_of(hash), &mut shard, deadline);
        }
    }

    fn set_alarm(self: &Arc<Self>, index: usize, shard: &mut DeviceShard, deadline: Instant) {
        if shard.expiry_timer.fires_by(deadline) {
            return;
        }
        let context = Arc::downgrade(self);
        let fire = move || {
            if let Some(context) = context.upgrade() {
                context.ring(index);
            }
        };
        let (timers, expiry_serializer) = (&self.table.timers, &self.table.expiry_serializer);
        let set = shard
            .expiry_timer
            .set(deadline, EXPIRY, timers, expiry_serializer, fire);
        if set.is_err() {
            self.responder.traffic.refused_table_full.increment();
        }
    }

    /// Some devices of a shard are due.
    fn ring(self: &Arc<Self>, index: usize) {
        if lock(&self.table.due).add(index) {
            self.wake_some();
        }
    }

    /// Wakes due devices of one shard, and comes again for the others, after a rest when it has worked for long enough. What
    /// comes next is set before devices are woken, so that a panic of one does not stop it; those behind that one are woken
    /// later ([`DueDevices`]).
    fn wake_some(self: &Arc<Self>) {
        let now = self.clock.now();
        let step = lock(&self.table.due).next(now);
        match step {
            DueStep::Work(index) => {
                let due = self.take_due(index, now);
                self.go_on_waking();
                let due = due.into_iter();
                DueDevices {
                    context: self,
                    due,
                    now,
                }
                .wake_all();
            }
            DueStep::Rest(rest) => self.go_on_waking_after(rest),
            DueStep::Nothing => {}
        }
    }

    /// The task is refused only when the server ends.
    fn go_on_waking(self: &Arc<Self>) {
        let go_on = Task::labelled(&"due devices", self.waker());
        let _ = self.table.expiry_serializer.execute_unbounded(go_on);
    }

    fn go_on_waking_after(self: &Arc<Self>, rest: Duration) {
        let timer = self.table.timers.timer().label(EXPIRY.label).after(rest);
        let set = timer.on(&self.table.expiry_serializer).run(self.waker());
        if set.is_err() {
            self.go_on_waking();
        }
    }

    fn waker(self: &Arc<Self>) -> impl FnOnce() + Send + 'static {
        let context = Arc::downgrade(self);
        move || {
            if let Some(context) = context.upgrade() {
                context.wake_some();
            }
        }
    }

    /// Some devices of a shard whose deadline has come. The shard has its turn again for the others, or an alarm.
    fn take_due(self: &Arc<Self>, index: usize, now: Instant) -> Vec<Arc<Device>> {
        let mut shard = lock(&self.table.shards[index]);
        shard.expiry_timer.fired(now);
        let due = shard.take_due(now);
        let next = shard.next_deadline();
        if let Some(later) = next.filter(|next| *next > now) {
            self.set_alarm(index, &mut shard, later);
        }
        drop(shard);
        if next.is_some_and(|next| next <= now) {
            lock(&self.table.due).put_back(index);
        }
        due
    }
}

/// Devices that are to be woken, one after the other. If one of them panics, the shard has those behind it again, due as
/// before: their contacts have ended, and nobody else would say so. The one that panicked is not tried again before
/// somebody asks for it, as it might panic again and again.
struct DueDevices<'a> {
    context: &'a Arc<DeviceContext>,
    due: vec::IntoIter<Arc<Device>>,
    now: Instant,
}

impl DueDevices<'_> {
    fn wake_all(mut self) {
        let context = self.context;
        for device in self.due.by_ref() {
            device.fire(context);
        }
    }
}

impl Drop for DueDevices<'_> {
    fn drop(&mut self) {
        for device in self.due.by_ref() {
            self.context.wake_device(&device, self.now);
        }
    }
}

impl DeviceShard {
    fn find(&self, hash: u64, aor: &str) -> Option<Arc<Device>> {
        let is_it = |entry: &DeviceEntry| entry.device.aor() == aor;
        let entry = self.table.find(hash, is_it)?;
        Some(entry.device.clone())
    }

    /// Devices whose deadline has come, not too many at a time.
    fn take_due(&mut self, now: Instant) -> Vec<Arc<Device>> {
        let entries = self.table.iter_mut();
        let due = entries
            .filter(|entry| entry.deadline <= now)
            .take(WOKEN_MAX);
        due.map(|entry| {
            entry.deadline = Instant::FAR_FUTURE;
            entry.device.clone()
        })
        .collect()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.table.iter().map(|entry| entry.deadline);
        deadlines
            .min()
            .filter(|deadline| *deadline < Instant::FAR_FUTURE)
    }
}

/// The hash table inside uses the highest and the lowest bits; the shard uses others.
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

/// A hash that leads to a shard of a partition, and has of the other one what that leaves room for.
fn hash_in(partition: Partition, hash: u64) -> u64 {
    let (high, low) = (hash >> 32, hash & 0xffff_ffff);
    let (shards, own) = (SHARDS as u64, PARTITION_SHARDS as u64);
    let shard = partition.index() as u64 * own + high % own;
    let turn = high / shards % ((1 << 32) / shards);
    (turn * shards + shard) << 32 | low
}

/// Many more than threads, so that two threads seldom want the same shard, and so many
/// that a scan of one shard is short. With a million devices each shard's table is
/// three quarters full.
const SHARDS: usize = PARTITION_COUNT * PARTITION_SHARDS;
/// In a cluster, each partition has shards of its own.
const PARTITION_SHARDS: usize = 5;
/// Many more than threads, so that two devices at work seldom share one.
const STRANDS: usize = 1024;
/// By default one device may have 32 requests waiting, and most strands have none.
const STRAND_OPTIONS: KindOptions = KindOptions {
    name: "strand",
    low: 4,
    high: 32,
    unlabelled: "a task without a label",
};
/// Half of the shards' timers at once.
const EXPIRY_OPTIONS: KindOptions = KindOptions {
    name: "expiry",
    low: 64,
    high: SHARDS / 2,
    unlabelled: "timer of bindings",
};
/// Half of a serializer's capacity, so that mandatory tasks always find room.
const STRAND_LEN_MAX: usize = 32_768;
/// Devices that are woken in a row, so that what waits behind them waits for less
/// than a millisecond.
const WOKEN_MAX: usize = 64;

const EXPIRY: ExpiryOptions = ExpiryOptions {
    label: "binding",
    slack: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_shards_of_its_own() {
        for partition in (0..=u8::MAX).map(Partition) {
            let mut shards = std::collections::BTreeSet::new();
            for number in 0..40_u64 {
                let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let led = hash_in(partition, hash);
                assert_eq!(led as u32, hash as u32, "strands are as they were");
                shards.insert(shard_of(led));
            }
            let first = partition.index() * PARTITION_SHARDS;
            assert!(shards.into_iter().eq(first..first + PARTITION_SHARDS));
        }
    }
}
