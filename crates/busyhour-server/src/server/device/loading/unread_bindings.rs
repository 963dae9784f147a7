//! Rows of registrations that were there at the start, until each was read: for whoever asks for its address, or in its
//! turn.

use super::address_keys::AddressKeys;
use crate::{lock::lock, server::device::device_context::DeviceContext};
use busyhour::{
    pool::TaskPool,
    task::{Executor, Task},
};
use busyhour_registrar::BindingId;
use busyhour_store::{BindingReader, BindingRows, StoreError, StoredBinding};
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// What is not read yet, and who reads it.
pub(in crate::server) struct UnreadBindings {
    keys: AddressKeys,
    /// Whoever reads the rows of a hash holds one of these, by the hash; so nobody reads them twice, and nobody sees
    /// a device that has some of its contacts only.
    turns: Box<[Mutex<()>]>,
    /// Hashes whose rows are not read yet.
    left: AtomicU64,
    /// Rows that make no sense, each of which is counted once.
    unreadable: Mutex<BTreeSet<BindingId>>,
    has_failed: AtomicBool,
    reader: Arc<dyn BindingReader>,
    context: Weak<DeviceContext>,
}

/// Called when all are read, under no lock.
type AllRead = Box<dyn FnOnce() + Send>;

impl UnreadBindings {
    /// Finds out which rows there are; none of them is read.
    pub(in crate::server::device) fn look(
        reader: Arc<dyn BindingReader>,
        context: &Arc<DeviceContext>,
    ) -> Result<Self, StoreError> {
        let table = &context.table;
        let found = reader.keys(&|aor| table.hash(aor))?;
        let shard_of = |hash| table.shard_of_hash(hash);
        let keys = AddressKeys::new(found, table.shard_count(), shard_of);
        Ok(Self {
            turns: (0..TURNS).map(|_| Mutex::default()).collect(),
            left: AtomicU64::new(keys.address_count as u64),
            unreadable: Mutex::default(),
            has_failed: AtomicBool::new(false),
            keys,
            reader,
            context: Arc::downgrade(context),
        })
    }

    pub(in crate::server) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Reads what there is of a hash, if nobody has; `false` if the store cannot be read, whereupon the server ends.
    pub(in crate::server) fn read_first(&self, hash: u64) -> bool {
        let Some(context) = self.context.upgrade() else {
            return false;
        };
        let keys = self.keys.of(hash, context.table.shard_of_hash(hash));
        keys.is_none_or(|keys| self.read_keys(&context, keys))
    }

    /// As [`read_first`](Self::read_first), for all that is in a shard of the table.
    pub(in crate::server) fn read_shard_first(&self, shard: usize) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let of_shard = self.keys.of_shard(shard);
        let mut next = of_shard.start;
        while next < of_shard.end {
            let Some(keys) = self.keys.of(self.keys.hash(next), shard) else {
                return;
            };
            next = keys.end;
            self.read_keys(&context, keys);
        }
    }

    fn read_keys(&self, context: &Arc<DeviceContext>, keys: Range<usize>) -> bool {
        if self.keys.is_read(keys.start) {
            return true;
        }
        let _turn = self.turn(keys.start);
        if self.keys.is_read(keys.start) {
            return true;
        }
        let first = keys.start;
        match self.reader.read(&self.keys.ids(keys)) {
            Ok(rows) => {
                self.report(context, &rows);
                self.restore(context, rows.bindings, first);
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn turn(&self, first: usize) -> std::sync::MutexGuard<'_, ()> {
        lock(&self.turns[self.keys.hash(first) as usize % TURNS])
    }

    /// All rows of a hash, in its turn.
    fn restore(&self, context: &Arc<DeviceContext>, rows: Vec<StoredBinding>, first: usize) {
        context.restore_bindings(rows);
        self.keys.note_read(first);
        self.left.fetch_sub(1, Ordering::Relaxed);
        context.table.one_is_read();
    }

    /// Who has a contact that makes no sense is served with the others that it has.
    fn report(&self, context: &DeviceContext, rows: &BindingRows) {
        if rows.unreadable.is_empty() {
            return;
        }
        let mut known = lock(&self.unreadable);
        for (id, error) in &rows.unreadable {
            if !known.insert(*id) {
                continue;
            }
            context.log.counters.unreadable.increment();
            if known.len() <= REPORTED_MAX {
                tracing::error!(%error, "a registration cannot be read");
            }
        }
    }

    fn fail(&self, error: &StoreError) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "registrations cannot be read");
            self.reader.give_up(error);
        }
    }

    /// Reads all, some of them in each task of a pool, and then calls `all_read`.
    pub(in crate::server) fn read_all(self: &Arc<Self>, pool: &TaskPool, all_read: AllRead) {
        self.push_portion(pool, None, all_read);
    }

    fn push_portion(
        self: &Arc<Self>,
        pool: &TaskPool,
        after: Option<BindingId>,
        all_read: AllRead,
    ) {
        let (unread, next_pool) = (self.clone(), pool.clone());
        let read = move || {
            let Some(context) = unread.context.upgrade() else {
                return;
            };
            match unread.read_portion(&context, after) {
                Ok(None) => {
                    context.table.all_are_read(unread.left());
                    all_read();
                }
                Ok(after) => unread.push_portion(&next_pool, after, all_read),
                Err(error) => unread.fail(&error),
            }
        };
        // Refused only when the server ends.
        let _ = pool.execute_unbounded(Task::labelled(&"registrations of the store", read));
    }

    /// The last row that was read; `None` if there are no more that were there at the start.
    fn read_portion(
        &self,
        context: &Arc<DeviceContext>,
        after: Option<BindingId>,
    ) -> Result<Option<BindingId>, StoreError> {
        if after >= self.keys.last_id {
            return Ok(None);
        }
        let rows = self.reader.read_behind(after, PORTION_LEN)?;
        self.report(context, &rows);
        let last = rows.last_id;
        for row in rows.bindings {
            let hash = context.table.hash(&row.aor);
            // A row that came after the start has no key.
            let Some(keys) = self.keys.of(hash, context.table.shard_of_hash(hash)) else {
                continue;
            };
            if keys.len() > 1 {
                self.read_keys(context, keys);
                continue;
            }
            let _turn = self.turn(keys.start);
            // One that somebody has read before may be another by now.
            if !self.keys.is_read(keys.start) {
                self.restore(context, vec![row], keys.start);
            }
        }
        Ok(last)
    }
}

/// So that two that are read at one time seldom wait for each other.
const TURNS: usize = 256;
/// So many rows that make no sense are named in the log; the others are counted.
const REPORTED_MAX: usize = 100;
/// Rows of a task: about a millisecond.
const PORTION_LEN: usize = 256;
