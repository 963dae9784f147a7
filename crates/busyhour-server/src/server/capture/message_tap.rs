//! Where copies of messages are taken: one relaxed load for each message while nobody wants
//! any.

use super::{
    hep_sender::HepSender,
    trace::{TraceListener, TraceRequest, TracedMessage},
    trace_filter::TraceFilter,
};
use crate::server::{
    CaptureConfig, Network,
    stats::{CaptureStats, counters::Counter},
};
use busyhour::{buffer::BufferPool, clock::Clock};
use busyhour_sip::{Flow, Message};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Gives copies of SIP messages to those who trace, and to the capture server.
pub(in crate::server) struct MessageTap {
    /// Whether anybody wants copies.
    is_on: AtomicBool,
    hep: Option<HepSender>,
    traces: Mutex<Vec<Arc<Traced>>>,
    traced: Counter,
    lost: Counter,
    refused: Counter,
    clock: Clock,
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The server received it.
    In,
    /// The server sends it.
    Out,
}

/// One trace.
pub(super) struct Traced {
    filter: Mutex<TraceFilter>,
    has_bodies: bool,
    listener: TraceListener,
    lost: Counter,
}

impl MessageTap {
    pub(in crate::server) fn new(
        config: &CaptureConfig,
        network: Arc<dyn Network>,
        buffers: BufferPool,
        clock: Clock,
    ) -> Self {
        let hep = config.hep.clone();
        let hep = hep.map(|hep| HepSender::new(hep, network, buffers));
        Self {
            is_on: AtomicBool::new(hep.is_some()),
            hep,
            traces: Mutex::default(),
            traced: Counter::default(),
            lost: Counter::default(),
            refused: Counter::default(),
            clock,
        }
    }

    /// A message came, or leaves.
    #[inline]
    pub(in crate::server) fn see(&self, direction: Direction, flow: Flow, bytes: &[u8]) {
        if self.is_on.load(Ordering::Relaxed) {
            self.copy(direction, flow, bytes);
        }
    }

    #[cold]
    fn copy(&self, direction: Direction, flow: Flow, bytes: &[u8]) {
        // Answers to keep-alives, and IAX2, are no SIP.
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        let at = self.clock.unix_time();
        if let Some(hep) = &self.hep {
            hep.send(direction, flow, at, &message, bytes);
        }
        // A listener is called without the lock.
        let traces = self.traces().clone();
        for trace in traces.iter().filter(|trace| trace.wants(flow, &message)) {
            let traced = TracedMessage::new(at, direction, flow, bytes, trace.has_bodies);
            let counter = match (trace.listener)(traced) {
                true => &self.traced,
                false => {
                    trace.lost.increment();
                    &self.lost
                }
            };
            counter.increment();
        }
    }

    /// Adds a trace; `None` if there are as many as may be.
    pub(super) fn open(
        &self,
        request: TraceRequest,
        listener: TraceListener,
    ) -> Option<Arc<Traced>> {
        let mut traces = self.traces();
        if traces.len() >= TRACES_MAX {
            self.refused.increment();
            return None;
        }
        let trace = Arc::new(Traced {
            filter: Mutex::new(TraceFilter::new(&request.user)),
            has_bodies: request.has_bodies,
            listener,
            lost: Counter::default(),
        });
        traces.push(trace.clone());
        self.is_on.store(true, Ordering::Relaxed);
        Some(trace)
    }

    pub(super) fn close(&self, trace: &Arc<Traced>) {
        let mut traces = self.traces();
        traces.retain(|other| !Arc::ptr_eq(other, trace));
        let is_on = !traces.is_empty() || self.hep.is_some();
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    fn traces(&self) -> MutexGuard<'_, Vec<Arc<Traced>>> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::server) fn stats(&self) -> CaptureStats {
        let hep = self.hep.as_ref().map(HepSender::stats);
        CaptureStats {
            trace_count: self.traces().len() as u64,
            traced: self.traced.get(),
            trace_lost: self.lost.get(),
            traces_refused: self.refused.get(),
            ..hep.unwrap_or_default()
        }
    }
}

impl Traced {
    fn wants(&self, flow: Flow, message: &Message<'_>) -> bool {
        self.filter().wants(flow, message)
    }

    pub(super) fn filter(&self) -> MutexGuard<'_, TraceFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }
}

/// Each costs time for each message, and an operator needs one.
pub(in crate::server) const TRACES_MAX: usize = 8;
