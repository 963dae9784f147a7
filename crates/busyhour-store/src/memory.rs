//! A store that keeps nothing after its process ends; the operator has to choose it.

use super::{
    Account, AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Change, Completion,
    Contents, EndListener, Refused, Store, StoreError, StoreStats, outside_changes::AccountWatch,
};
use busyhour_registrar::EndedBinding;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Accepts every change at once, and drops it unless it is about accounts or the last
/// 10,000 calls: those are kept until the process ends.
///
/// An acknowledgement then promises nothing beyond the life of the process.
///
/// ```
/// use busyhour_store::{MemoryStore, Store};
///
/// let store = MemoryStore::new();
/// store.commit(Vec::new(), Box::new(|fate| assert!(fate.is_ok()))).unwrap();
/// assert!(store.is_immediate() && store.stats().transactions == 1);
/// ```
#[derive(Default)]
pub struct MemoryStore {
    accounts: Mutex<BTreeMap<(String, String), Account>>,
    feed: AccountWatch,
    call_records: Mutex<VecDeque<CallRecordRow>>,
    committed: AtomicU64,
    transactions: AtomicU64,
    refused: AtomicU64,
    closed: AtomicBool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lock is held while the listener is called, so that changes arrive in their
    /// order.
    fn keep_accounts(&self, changes: &[Change]) {
        if !changes.iter().any(Change::is_of_account) {
            return;
        }
        let mut accounts = lock(&self.accounts);
        for change in changes {
            match change {
                Change::PutAccount(account) => {
                    let key = (account.username.clone(), account.realm.clone());
                    accounts.insert(key, Account::clone(account));
                }
                Change::RemoveAccount { username, realm } => {
                    accounts.remove(&(username.clone(), realm.clone()));
                }
                Change::Binding(_)
                | Change::PutSoftState(_)
                | Change::RemoveSoftState(_)
                | Change::PutSetting { .. }
                | Change::RemoveSetting { .. }
                | Change::PutCallRecord(_) => {}
            }
        }
        self.feed.changed(changes.iter(), 0, 0);
    }

    fn keep_call_records(&self, changes: Vec<Change>) {
        for change in changes {
            let Change::PutCallRecord(row) = change else {
                continue;
            };
            let mut rows = lock(&self.call_records);
            if rows.len() >= CALL_RECORDS_MAX {
                rows.pop_front();
            }
            rows.push_back(*row);
        }
    }
}

impl Store for MemoryStore {
    fn load(&self) -> Result<Contents, StoreError> {
        Ok(Contents {
            accounts: lock(&self.accounts).values().cloned().collect(),
            ..Contents::default()
        })
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        if self.closed.load(Ordering::Acquire) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Closed);
        }
        self.keep_accounts(&changes);
        self.committed
            .fetch_add(changes.len() as u64, Ordering::Relaxed);
        self.keep_call_records(changes);
        self.transactions.fetch_add(1, Ordering::Relaxed);
        done(Ok(()));
        Ok(())
    }

    fn is_immediate(&self) -> bool {
        true
    }

    /// No row was kept.
    fn purge(&self, _ended: &[EndedBinding]) {}

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        Ok(query.select(lock(&self.call_records).iter().rev()))
    }

    fn remove_old_call_records(&self, limits: CallRecordLimits) {
        let mut rows = lock(&self.call_records);
        let ended_before = limits.ended_before.as_nanos();
        while rows.front().is_some_and(|first| {
            first.ended_at_ns < ended_before || rows.len() as u64 > limits.count_max
        }) {
            rows.pop_front();
        }
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.feed.start(revision, listener);
    }

    /// It never ends.
    fn watch_end(&self, _listener: EndListener) {}

    fn stats(&self) -> StoreStats {
        StoreStats {
            committed: self.committed.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            ..StoreStats::default()
        }
    }

    fn close(&self, _deadline: Duration) -> bool {
        self.closed.store(true, Ordering::Release);
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// They take about 10 MB.
const CALL_RECORDS_MAX: usize = 10_000;
