//! The requests that are being answered: how many, which one for the longest time.

use crate::server::QueueView;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Requests from their complete head until the head of their answer. Each connection has
/// one at most.
#[derive(Default)]
pub(in crate::web) struct InProgress(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    /// What is asked for and since when, in the order of arrival.
    begun: BTreeMap<u64, (String, Instant)>,
    /// The number of the last one.
    count: u64,
    high_water: usize,
}

/// One of them, until this is dropped.
pub(in crate::web) struct Answering<'a> {
    requests: &'a InProgress,
    number: u64,
}

impl InProgress {
    /// A request for `path` is answered from now on.
    pub(in crate::web) fn begin(&self, path: &str) -> Answering<'_> {
        let mut requests = self.requests();
        requests.count += 1;
        let number = requests.count;
        let path = path.chars().take(PATH_CHARS_MAX).collect();
        requests.begun.insert(number, (path, Instant::now()));
        requests.high_water = requests.high_water.max(requests.begun.len());
        Answering {
            requests: self,
            number,
        }
    }

    /// As an operator sees it, under this name.
    pub(in crate::web) fn queue(&self, name: &str) -> QueueView {
        let requests = self.requests();
        let first = requests.begun.values().next();
        let age = first.map(|(_, since)| since.elapsed());
        QueueView {
            kind: HTTP,
            name: name.into(),
            queued_len: requests.begun.len() as u64,
            queued_high_water: Some(requests.high_water as u64),
            running: first.map(|(path, _)| path.clone()),
            running_for_ns: age.map(crate::server::nanos),
            processed: Some(requests.count - requests.begun.len() as u64),
            ..QueueView::default()
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.requests.requests().begun.remove(&self.number);
    }
}

pub(in crate::web) const HTTP: &str = "http";
/// Enough to recognise a path; clients choose it.
const PATH_CHARS_MAX: usize = 80;
