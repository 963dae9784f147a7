//! What people search among a million devices: rows in memory that lie in a row, made when somebody looks and dropped when
//! nobody does any more. README.md two folders above says why it is right.

use super::{
    changed_devices::ToRead,
    index_rows::IndexRows,
    row_content::RowContent,
    search::{DeviceReach, address_named, reach},
};
use crate::lock::lock;
use crate::server::{
    device::{Device, device_context::DeviceContext},
    stats::DeviceIndexStats,
};
use busyhour::{
    clock::Instant,
    task::{Executor, Task},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// The rows of every device that is registered, and of every account that is not, in shards as the table has them.
pub(in crate::server) struct DeviceIndex {
    /// The first lock of all. `None`: not made yet.
    shards: Box<[Mutex<Option<IndexRows>>]>,
    walk: Mutex<AccountWalk>,
    usage: Mutex<IndexUsage>,
    row_count: AtomicI64,
    bytes: AtomicI64,
}

/// How far the accounts of the store have been looked at.
#[derive(Default)]
enum AccountWalk {
    #[default]
    NotBegun,
    Behind(String),
    Done,
}

#[derive(Default)]
struct IndexUsage {
    last: Instant,
    /// Somebody keeps it, and drops it some time after `last`.
    is_kept: bool,
}

impl DeviceIndex {
    pub(in crate::server) fn new(shard_count: usize) -> Self {
        Self {
            shards: (0..shard_count).map(|_| Mutex::default()).collect(),
            walk: Mutex::default(),
            usage: Mutex::default(),
            row_count: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
        }
    }

    pub(super) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    pub(in crate::server) fn stats(&self) -> DeviceIndexStats {
        let of = |count: &AtomicI64| u64::try_from(count.load(Ordering::Relaxed)).unwrap_or(0);
        DeviceIndexStats {
            row_count: of(&self.row_count),
            row_bytes: of(&self.bytes),
        }
    }

    /// Counts what `change` has done to a shard.
    fn change(&self, shard: &mut Option<IndexRows>, change: impl FnOnce(&mut Option<IndexRows>)) {
        let before = size_of_rows(shard);
        change(shard);
        let after = size_of_rows(shard);
        (self.row_count).fetch_add(after.0 - before.0, Ordering::Relaxed);
        self.bytes.fetch_add(after.1 - before.1, Ordering::Relaxed);
    }
}

impl DeviceContext {
    /// Somebody looks: from now on it is kept for some minutes.
    pub(super) fn use_index(self: &Arc<Self>) {
        let mut usage = lock(&self.index.usage);
        usage.last = self.clock.now();
        if !usage.is_kept {
            usage.is_kept = self.keep_index_later();
        }
    }

    /// Whether every device and every account has been looked at.
    pub(super) fn is_index_whole(&self) -> bool {
        matches!(*lock(&self.index.walk), AccountWalk::Done)
    }

    /// Gives the rows of a shard as they are now, and makes them if nobody has yet.
    pub(super) fn index_rows(&self, shard: usize, read: impl FnOnce(&IndexRows)) {
        let mut rows = lock(&self.index.shards[shard]);
        self.index.change(&mut rows, |rows| match rows {
            Some(rows) => self.catch_up(shard, rows),
            None => *rows = Some(self.read_shard(shard)),
        });
        if let Some(rows) = rows.as_ref() {
            read(rows);
        }
    }

    /// Looks at some more accounts; whether those were all. Whoever needs the index whole takes the next step of the one
    /// walk that there is.
    pub(super) fn walk_accounts(&self) -> bool {
        let mut walk = lock(&self.index.walk);
        let accounts = &self.accounts.directory;
        let after = match &*walk {
            AccountWalk::NotBegun => {
                accounts.changed.turn(true);
                None
            }
            AccountWalk::Behind(name) => Some(name.as_str()),
            AccountWalk::Done => return true,
        };
        let names = accounts.names(after, ACCOUNTS_AT_ONCE);
        let is_last = names.len() < ACCOUNTS_AT_ONCE;
        names
            .iter()
            .for_each(|name| self.index_account(name, false));
        *walk = match names.into_iter().next_back() {
            Some(last) if !is_last => AccountWalk::Behind(last),
            _ => AccountWalk::Done,
        };
        is_last
    }

    /// Looks at the accounts that have changed.
    pub(super) fn follow_accounts(&self) {
        let mut walk = lock(&self.index.walk);
        if matches!(*walk, AccountWalk::NotBegun) {
            return;
        }
        match self.accounts.directory.changed.take() {
            Some(names) => names.iter().for_each(|name| self.index_account(name, true)),
            None => {
                *walk = AccountWalk::Behind(String::new());
                (0..self.index.shard_count()).for_each(|shard| self.table.forget_changes(shard));
            }
        }
    }

    fn index_account(&self, name: &str, has_changed: bool) {
        let Some(aor) = address_named(name, self.accounts.directory.domains()) else {
            return;
        };
        let shard = self.table.shard_of(&aor);
        let mut rows = lock(&self.index.shards[shard]);
        self.index.change(&mut rows, |rows| {
            // A row that is there is up to date, whatever the account was before.
            if let Some(rows) = rows.as_mut().filter(|rows| has_changed || !rows.has(&aor)) {
                self.read_again(&aor, rows, &mut RowContent::default());
            }
        });
    }

    fn read_shard(&self, shard: usize) -> IndexRows {
        let mut rows = IndexRows::new(self.table.hasher());
        self.table.note_changes(shard, true);
        self.read_all(shard, &mut rows);
        rows.shrink();
        rows
    }

    fn catch_up(&self, shard: usize, rows: &mut IndexRows) {
        let mut content = RowContent::default();
        match self.table.changed(shard) {
            ToRead::Some(devices) => {
                for device in devices {
                    self.read_again(device.aor(), rows, &mut content);
                }
            }
            ToRead::All => {
                self.read_all(shard, rows);
                for aor in rows.aors() {
                    self.read_again(&aor, rows, &mut content);
                }
            }
        }
        for aor in rows.ended(self.clock.now().as_nanos()) {
            self.read_again(&aor, rows, &mut content);
        }
    }

    fn read_all(&self, shard: usize, rows: &mut IndexRows) {
        let mut content = RowContent::default();
        for device in self.table.of_shards(shard, 1).unwrap_or_default() {
            self.read_device(&device, rows, &mut content);
        }
    }

    fn read_again(&self, aor: &str, rows: &mut IndexRows, content: &mut RowContent) {
        match self.table.find(aor) {
            Some(device) => self.read_device(&device, rows, content),
            None => self.read_account(aor, rows, content),
        }
    }

    fn read_device(&self, device: &Device, rows: &mut IndexRows, content: &mut RowContent) {
        let bindings = device.active_bindings(self.clock.now());
        if bindings.is_empty() {
            return self.read_account(device.aor(), rows, content);
        }
        content.fill(device.aor(), &bindings, reach(&bindings));
        rows.put(content);
    }

    /// It has no contact.
    fn read_account(&self, aor: &str, rows: &mut IndexRows, content: &mut RowContent) {
        let account = self.accounts.account_of(aor);
        let reach = match self.accounts.directory.is_stored_disabled(account) {
            Some(true) => DeviceReach::Disabled,
            Some(false) => DeviceReach::Offline,
            None => return rows.remove(aor),
        };
        content.fill(aor, &[], reach);
        rows.put(content);
    }

    /// Whether there was room for the timer. Without it the next one who looks tries again.
    fn keep_index_later(self: &Arc<Self>) -> bool {
        let context = Arc::downgrade(self);
        let keep = move || {
            if let Some(context) = context.upgrade() {
                context.keep_index(0);
            }
        };
        let timer = self.table.timers().timer().label("device index");
        let timer = timer.after(KEEP_EVERY).on(self.table.expiry_serializer());
        timer.run(keep).is_ok()
    }

    /// Reads what has changed, a few shards in each turn of the serializer; or drops all of it.
    fn keep_index(self: &Arc<Self>, first: usize) {
        if first == 0 && self.ends_use() {
            return self.drop_index();
        }
        let behind = (first + SHARDS_AT_ONCE).min(self.index.shard_count());
        for shard in first..behind {
            let mut rows = lock(&self.index.shards[shard]);
            self.index.change(&mut rows, |rows| {
                if let Some(rows) = rows {
                    self.catch_up(shard, rows);
                }
            });
        }
        if behind == self.index.shard_count() {
            self.follow_accounts();
            let is_kept = self.keep_index_later();
            lock(&self.index.usage).is_kept = is_kept;
            return;
        }
        let context = Arc::downgrade(self);
        let more = Task::labelled(&"device index", move || {
            if let Some(context) = context.upgrade() {
                context.keep_index(behind);
            }
        });
        // There is at most one. A serializer that takes no more is shut down already.
        let _ = self.table.expiry_serializer().execute_unbounded(more);
    }

    /// Whether nobody has looked for so long that nobody keeps it any more.
    fn ends_use(&self) -> bool {
        let mut usage = lock(&self.index.usage);
        let is_over = self.clock.now() >= usage.last + LINGER;
        usage.is_kept = !is_over;
        is_over
    }

    fn drop_index(&self) {
        let mut walk = lock(&self.index.walk);
        *walk = AccountWalk::NotBegun;
        self.accounts.directory.changed.turn(false);
        self.table.is_indexed_no_more();
        for (shard, rows) in self.index.shards.iter().enumerate() {
            let mut rows = lock(rows);
            self.table.note_changes(shard, false);
            self.index.change(&mut rows, |rows| *rows = None);
        }
    }
}

/// Rows, and bytes.
fn size_of_rows(rows: &Option<IndexRows>) -> (i64, i64) {
    let of = |rows: &IndexRows| (rows.len() as i64, rows.bytes() as i64);
    rows.as_ref().map_or((0, 0), of)
}

/// A page of accounts takes less than a millisecond.
const ACCOUNTS_AT_ONCE: usize = 1000;
/// If each has more changes than are remembered, some milliseconds.
const SHARDS_AT_ONCE: usize = 16;
/// So long changes gather; who looks reads those of the shard at once.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Nobody has looked for so long: it is dropped.
const LINGER: Duration = Duration::from_secs(300);
