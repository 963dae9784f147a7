//! A log with the database behind it: a thread writes the leases that have changed once a second, or when half of
//! the room for groups in the store's journal is used, as the store does.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
    lease_table::LeaseTable,
    newest::Newest,
    refresh::{LOG_BYTES, Refresh, record_len},
};
use std::{
    collections::BTreeMap,
    mem,
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A log that is written by one thread.
pub trait Log: Sized {
    /// For groups of the length that `setup` gives.
    fn open(folder: &Path, setup: Setup) -> Outcome<Self>;

    /// Opens what a crash has left, and says what is found there.
    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)>;

    /// Returns when all of the group is durable.
    fn append(&mut self, group: &[Refresh]) -> Outcome<()>;

    /// How many refreshes are found when the log is opened again.
    fn seen(folder: &Path, setup: Setup) -> Outcome<u64>;
}

pub struct Followed<L> {
    log: L,
    follower: Option<Follower>,
    /// Once the follower has ended. It is closed with the log, when the processor time has been read: so are the tables of the others.
    _table: Option<LeaseTable>,
}

struct Follower {
    shared: Arc<Shared>,
    thread: JoinHandle<LeaseTable>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    is_due: Condvar,
}

#[derive(Default)]
struct State {
    /// Rows that the database lacks, in the order of the table.
    rows: BTreeMap<u64, Refresh>,
    /// In the rows.
    bytes: usize,
    is_closed: bool,
}

impl<L: Log> DurableLog for Followed<L> {
    fn open(folder: &Path, setup: Setup) -> Outcome<Self> {
        let table = LeaseTable::make(folder, setup.bindings)?;
        Ok(Self {
            log: L::open(folder, setup)?,
            follower: setup.is_followed.then(|| Follower::start(table)),
            _table: None,
        })
    }

    /// The table takes what it lacks of the log before anything else is written there, as at a start of the store.
    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)> {
        let mut table = LeaseTable::open(folder)?;
        let (log, logged) = L::recover(folder, setup)?;
        let mut newest = table.newest()?;
        newest.extend(logged.iter());
        table.renew(newest.iter())?;
        let recovered = Self {
            log,
            follower: setup.is_followed.then(|| Follower::start(table)),
            _table: None,
        };
        Ok((recovered, newest))
    }

    fn commit(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.log.append(group)?;
        if let Some(follower) = &self.follower {
            follower.shared.add(group);
        }
        Ok(())
    }

    fn settle(&mut self) -> Outcome<()> {
        let Some(follower) = self.follower.take() else {
            return Ok(());
        };
        follower.shared.state().is_closed = true;
        follower.shared.is_due.notify_one();
        let ended = follower.thread.join();
        self._table = Some(ended.map_err(|_| "the thread that follows has panicked")?);
        Ok(())
    }

    /// What is in the log alone; what is in the database alone must be the same.
    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let seen = L::seen(folder, setup)?;
        if setup.is_followed && LeaseTable::open(folder)?.newest()?.refreshes() != seen {
            return Err("the database has not followed".into());
        }
        Ok(seen)
    }
}

impl Follower {
    fn start(table: LeaseTable) -> Self {
        let shared = Arc::new(Shared::default());
        let follows = shared.clone();
        let thread = thread::spawn(move || follows.follow(table));
        Self { shared, thread }
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, group: &[Refresh]) {
        let mut state = self.state();
        state.rows.extend(group.iter().map(|one| (one.id, *one)));
        state.bytes += record_len(group.len());
        if state.bytes > LOG_BYTES / 2 {
            self.is_due.notify_one();
        }
    }

    fn follow(&self, mut table: LeaseTable) -> LeaseTable {
        loop {
            let state = self.state();
            let waited = self.is_due.wait_timeout_while(state, PERIOD, |state| {
                state.bytes <= LOG_BYTES / 2 && !state.is_closed
            });
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let (rows, is_closed) = (mem::take(&mut state.rows), state.is_closed);
            state.bytes = 0;
            drop(state);
            if let Err(error) = table.renew(rows.into_values()) {
                panic!("the database cannot be written: {error}");
            }
            if is_closed {
                return table;
            }
        }
    }
}

const PERIOD: Duration = Duration::from_secs(1);
