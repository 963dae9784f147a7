use super::lane::LanePlace;
use crate::server::{HttpAnswer, HttpFailure, HttpListener};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The counters of requests.
#[derive(Default)]
pub(super) struct RequestCounters {
    pub(super) requests: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) connect_failures: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) refused_full: AtomicU64,
}

/// A request that is to be answered: its listener is called once, at the latest when this is
/// dropped.
pub(super) struct PendingRequest {
    listener: Option<HttpListener>,
    counters: Arc<RequestCounters>,
    /// Given back before the listener runs, so that it may send the next request.
    place: Option<LanePlace>,
}

impl PendingRequest {
    pub(super) fn new(
        listener: HttpListener,
        place: LanePlace,
        counters: Arc<RequestCounters>,
    ) -> Self {
        count(&counters.requests);
        Self {
            listener: Some(listener),
            counters,
            place: Some(place),
        }
    }

    pub(super) fn place(&self) -> Option<&LanePlace> {
        self.place.as_ref()
    }

    pub(super) fn end(mut self, outcome: Result<HttpAnswer, HttpFailure>) {
        self.call(outcome);
    }

    fn call(&mut self, outcome: Result<HttpAnswer, HttpFailure>) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        count(self.counters.of(&outcome));
        self.place = None;
        if catch_unwind(AssertUnwindSafe(|| listener(outcome))).is_err() {
            tracing::error!("a listener of an HTTP request has panicked");
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.call(Err(HttpFailure::Stopped));
    }
}

impl RequestCounters {
    fn of(&self, outcome: &Result<HttpAnswer, HttpFailure>) -> &AtomicU64 {
        match outcome {
            Ok(_) => &self.answered,
            Err(HttpFailure::Connect(_)) => &self.connect_failures,
            Err(HttpFailure::Late) => &self.late,
            Err(_) => &self.broken,
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
