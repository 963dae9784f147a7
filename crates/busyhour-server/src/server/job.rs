//! What devices and watchers take in their turn.

use super::{core::Core, transactions::Key};
use crate::{
    iax2::{CallId, Verdict},
    registrar::{Flow, Iax2Registration},
};
use busyhour::{buffer::Buffer, clock::Instant};
use std::sync::Arc;

/// A SIP request on its way to its device or watcher.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) datagram: Buffer,
    pub(super) flow: Flow,
    pub(super) transaction: Key,
    pub(super) arrived_at: Instant,
}

/// A registration by IAX2 on its way to its device.
#[derive(Debug)]
pub(super) struct Iax2Arrival {
    pub(super) registration: Iax2Registration,
    pub(super) call: CallId,
    pub(super) arrived_at: Instant,
}

/// A registration by either protocol, or a PUBLISH.
#[derive(Debug)]
pub(super) enum Job {
    Sip(Arrival),
    Publish(Arrival),
    Iax2(Box<Iax2Arrival>),
}

/// Names a job after it has gone.
#[derive(Debug, Clone, Copy)]
pub(super) enum JobId {
    Sip(Key),
    Iax2(CallId),
}

impl Job {
    pub(super) fn id(&self) -> JobId {
        match self {
            Self::Sip(arrival) | Self::Publish(arrival) => JobId::Sip(arrival.transaction),
            Self::Iax2(arrival) => JobId::Iax2(arrival.call),
        }
    }

    pub(super) fn arrived_at(&self) -> Instant {
        match self {
            Self::Sip(arrival) | Self::Publish(arrival) => arrival.arrived_at,
            Self::Iax2(arrival) => arrival.arrived_at,
        }
    }
}

impl Core {
    /// Gives a job up for want of room. A SIP client will try again; a call of
    /// IAX2 is told to.
    pub(super) fn drop_job(self: &Arc<Self>, job: JobId) {
        self.counters().traffic.dropped_device_queue.increment();
        self.abandon_job(job);
    }

    /// Gives a job up.
    pub(super) fn abandon_job(self: &Arc<Self>, job: JobId) {
        match job {
            JobId::Sip(transaction) => self.abandon(transaction),
            JobId::Iax2(call) => self.conclude_iax2(&call, &Verdict::Failed),
        }
    }
}
