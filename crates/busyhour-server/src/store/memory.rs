//! A store that keeps nothing beyond its process, for those who choose so.

use super::{Change, Completion, Contents, Refused, Store, StoreError, StoreStats};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// Accepts every change at once and forgets it.
///
/// An acknowledgement then promises nothing beyond the life of the process.
///
/// ```
/// use busyhour_server::store::{MemoryStore, Store};
///
/// let store = MemoryStore::new();
/// store.commit(Vec::new(), Box::new(|fate| assert!(fate.is_ok()))).unwrap();
/// assert_eq!(store.stats().transactions, 1);
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
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
}

impl Store for MemoryStore {
    fn load(&self) -> Result<Contents, StoreError> {
        Ok(Contents::default())
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        if self.closed.load(Ordering::Acquire) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Closed);
        }
        self.committed
            .fetch_add(changes.len() as u64, Ordering::Relaxed);
        self.transactions.fetch_add(1, Ordering::Relaxed);
        done(Ok(()));
        Ok(())
    }

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
