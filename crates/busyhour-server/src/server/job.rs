//! What devices and watchers take in their turn.

use super::{core::Core, transactions::Key};
use crate::{
    iax2::{CallId, Verdict},
    proto::sip::Message,
    registrar::{Flow, Iax2Registration, Refusal},
};
use busyhour::{buffer::Buffer, clock::Instant};
use std::sync::Arc;

/// A SIP request on its way to its device or watcher.
#[derive(Debug, Clone)]
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

    /// Which way it came.
    pub(super) fn flow(&self) -> Flow {
        match self {
            Self::Sip(arrival) | Self::Publish(arrival) => arrival.flow,
            Self::Iax2(arrival) => arrival.registration.flow,
        }
    }

    /// What it speaks, as the log has it.
    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Sip(_) | Self::Publish(_) => "sip",
            Self::Iax2(_) => "iax2",
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
    /// Gives a job up that finds its device's queue full.
    pub(super) fn drop_job(self: &Arc<Self>, job: &Job) {
        self.counters().traffic.dropped_device_queue.increment();
        self.put_off_job(job, &self.overloaded());
    }

    /// Gives a request up that finds its watcher's queue full.
    pub(super) fn drop_arrival(&self, arrival: &Arrival) {
        self.counters().traffic.dropped_device_queue.increment();
        self.put_off(arrival, &self.overloaded());
    }

    /// Gives a job up for want of room. A call of IAX2 is told to try again.
    pub(super) fn put_off_job(self: &Arc<Self>, job: &Job, refusal: &Refusal) {
        match job {
            Job::Sip(arrival) | Job::Publish(arrival) => self.put_off(arrival, refusal),
            Job::Iax2(_) => self.abandon_job(job.id()),
        }
    }

    /// Refuses a job whose account has gone since it was admitted.
    pub(super) fn refuse_job(self: &Arc<Self>, job: &Job) {
        let refusal = Refusal::Forbidden("No Such Account Any More");
        let (Job::Sip(arrival) | Job::Publish(arrival)) = job else {
            self.counters().registrar.forbidden.increment();
            if let JobId::Iax2(call) = job.id() {
                self.conclude_iax2(&call, &Verdict::Forbidden);
            }
            return;
        };
        // It was parsed when it arrived, so it parses again.
        let Ok(message) = Message::parse(&arrival.datagram) else {
            return;
        };
        match job {
            Job::Publish(_) => self.refuse_publication(&message, arrival, &refusal),
            _ => {
                let (flow, transaction) = (arrival.flow, arrival.transaction);
                self.refuse_registration(&message, flow, transaction, &refusal);
            }
        }
    }

    /// Answers a job that the store did not take, or has no room for.
    pub(super) fn give_up_job(self: &Arc<Self>, job: &Job) {
        match job {
            Job::Sip(arrival) | Job::Publish(arrival) => self.fail_arrival(arrival),
            Job::Iax2(_) => self.abandon_job(job.id()),
        }
    }

    /// Answers a request that the store did not take.
    pub(super) fn fail_arrival(&self, arrival: &Arrival) {
        if let Ok(message) = Message::parse(&arrival.datagram) {
            let refusal = self.overloaded();
            self.fail(&message, arrival.flow, arrival.transaction, &refusal);
        }
    }

    /// Gives a request up for want of room. Over datagrams silence is best: it
    /// costs nothing, and the client sends the request again. Over a connection
    /// nobody does (RFC 3261 §17.1.2.2), so there the client is told when to.
    fn put_off(&self, arrival: &Arrival, refusal: &Refusal) {
        match Message::parse(&arrival.datagram) {
            Ok(message) if arrival.flow.transport.is_reliable() => {
                self.refuse(&message, arrival.flow, arrival.transaction, refusal);
            }
            _ => self.abandon(arrival.transaction),
        }
    }

    /// Gives a job up.
    pub(super) fn abandon_job(self: &Arc<Self>, job: JobId) {
        match job {
            JobId::Sip(transaction) => self.abandon(transaction),
            JobId::Iax2(call) => self.conclude_iax2(&call, &Verdict::Failed),
        }
    }
}
