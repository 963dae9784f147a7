//! What one would write with tokio alone: tables of last values, each behind a mutex, and a
//! broadcast channel. A subscriber that is slow loses the oldest changes, is told how many, and is
//! told the last value of each sensor again.

use crate::{Hub, Reading, Subscriber, Told};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    vec,
};
use tokio::sync::broadcast::{self, error::RecvError};

pub struct Changes {
    tables: Tables,
    changes: broadcast::Sender<Reading>,
}

type Tables = Arc<[Mutex<HashMap<u64, Reading>>]>;

pub struct Waiting {
    tables: Tables,
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

    fn offer(&self, readings: impl Iterator<Item = Reading>) {
        for reading in readings {
            let table = &self.tables[(reading.sensor % TABLES) as usize];
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let last = table.insert(reading.sensor, reading);
            if last.is_none_or(|last| last.value != reading.value) {
                // Within the lock, so that the changes of a sensor keep their order. Nobody may
                // have subscribed.
                _ = self.changes.send(reading);
            }
        }
    }

    fn subscribe(&self) -> Waiting {
        let mut waiting = Waiting {
            tables: Arc::clone(&self.tables),
            state: Vec::new().into_iter(),
            changes: self.changes.subscribe(),
        };
        waiting.begin();
        waiting
    }
}

impl Waiting {
    /// Takes the last values, after it has subscribed, so that no change is missed between; some
    /// may come twice.
    fn begin(&mut self) {
        let mut state = Vec::new();
        for table in self.tables.iter() {
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            state.extend(table.values());
        }
        self.state = state.into_iter();
    }
}

impl Subscriber for Waiting {
    async fn next(&mut self) -> Option<Told> {
        if let Some(reading) = self.state.next() {
            return Some(Told::Change(reading));
        }
        match self.changes.recv().await {
            Ok(reading) => Some(Told::Change(reading)),
            Err(RecvError::Lagged(count)) => {
                let left = self.changes.len() as u64;
                self.changes = self.changes.resubscribe();
                self.begin();
                Some(Told::Lost(count + left))
            }
            Err(RecvError::Closed) => None,
        }
    }
}

const TABLES: u64 = 64;

const QUEUE_CAPACITY: usize = 65_536;
