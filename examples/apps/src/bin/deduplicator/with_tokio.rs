//! What one would write with tokio alone: tables of last values, each behind a mutex, and a
//! broadcast channel. A subscriber that is slow loses the oldest changes, also the last one of
//! a sensor.

use crate::{Hub, Reading, Subscriber, Told};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Mutex, MutexGuard, PoisonError},
    vec,
};
use tokio::sync::broadcast::{self, error::RecvError};

pub struct Changes {
    tables: Vec<Mutex<HashMap<u64, Reading>>>,
    changes: broadcast::Sender<Reading>,
}

pub struct Waiting {
    state: vec::IntoIter<Reading>,
    changes: broadcast::Receiver<Reading>,
}

impl Hub for Changes {
    type Subscriber = Waiting;

    fn open() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            tables: (0..TABLES).map(|_| Mutex::default()).collect(),
            changes: broadcast::Sender::new(QUEUE_CAPACITY),
        })
    }

    fn offer(&self, reading: Reading) {
        let mut table = self.table((reading.sensor % TABLES) as usize);
        let last = table.insert(reading.sensor, reading);
        if last.is_none_or(|last| last.value != reading.value) {
            // Within the lock, so that the changes of a sensor keep their order. Nobody may
            // have subscribed.
            _ = self.changes.send(reading);
        }
    }

    fn subscribe(&self) -> Waiting {
        // First, so that no change is missed between; some may come twice.
        let changes = self.changes.subscribe();
        let mut state = Vec::new();
        for index in 0..self.tables.len() {
            state.extend(self.table(index).values());
        }
        let state = state.into_iter();
        Waiting { state, changes }
    }
}

impl Changes {
    fn table(&self, index: usize) -> MutexGuard<'_, HashMap<u64, Reading>> {
        let table = self.tables[index].lock();
        table.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Waiting {
    async fn next(&mut self) -> Option<Told> {
        if let Some(reading) = self.state.next() {
            return Some(Told::Change(reading));
        }
        match self.changes.recv().await {
            Ok(reading) => Some(Told::Change(reading)),
            Err(RecvError::Lagged(count)) => Some(Told::Lost(count)),
            Err(RecvError::Closed) => None,
        }
    }
}

const TABLES: u64 = 64;

const QUEUE_CAPACITY: usize = 65_536;
