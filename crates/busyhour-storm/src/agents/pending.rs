//! A registration in progress, and when its request is sent again.

use std::time::Duration;

use busyhour::clock::Instant;
use busyhour::timer::QueueHandle;

/// A registration that waits for its final answer.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    /// When the registration was due; its latency counts from this time.
    pub due: Instant,
    pub cseq: u32,
    /// How long until the next retransmission.
    interval: Duration,
    /// When the current transaction is given up.
    give_up: Instant,
    pub timer: QueueHandle,
    pub expires_s: u64,
    pub authorization: Option<Box<str>>,
    /// A challenge was answered. If a second one comes, the secret is wrong.
    pub answered: bool,
}

/// The timers of a transaction over UDP (RFC 3261 §17.1.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Timer E's first value.
    pub t1: Duration,
    /// Timer E's largest value.
    pub t2: Duration,
    /// Timer F.
    pub give_up: Duration,
}

impl Timing {
    /// Over a connection nothing is sent again. Timer F is the same as over
    /// UDP.
    pub fn over_connection(t1: Duration) -> Self {
        let give_up = t1 * 64;
        Self {
            t1: give_up,
            t2: give_up,
            give_up,
        }
    }

    pub fn with_t1(t1: Duration) -> Self {
        Self {
            t1,
            t2: t1 * 8,
            give_up: t1 * 64,
        }
    }
}

/// What to do when a timer has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Expired {
    /// Send the request again; the timer runs out next at this time.
    Retransmit(Instant),
    /// Timer F has run out: give up.
    GiveUp,
}

impl PendingRequest {
    pub fn new(due: Instant, cseq: u32, expires_s: u64, timer: QueueHandle) -> Self {
        Self {
            due,
            cseq,
            interval: Duration::ZERO,
            give_up: Instant::FAR_FUTURE,
            timer,
            expires_s,
            authorization: None,
            answered: false,
        }
    }

    /// Begins a transaction; returns the time of its first retransmission.
    pub fn begin(&mut self, now: Instant, timing: &Timing) -> Instant {
        self.interval = timing.t1;
        self.give_up = now + timing.give_up;
        now + timing.t1
    }

    /// Doubles timer E up to T2. Nothing is sent once timer F has run out.
    pub fn expire(&mut self, now: Instant, timing: &Timing) -> Expired {
        if now >= self.give_up {
            return Expired::GiveUp;
        }
        self.interval = (self.interval * 2).min(timing.t2);
        Expired::Retransmit((now + self.interval).min(self.give_up))
    }

    /// Notes a provisional response: from now on the retransmissions are T2
    /// apart.
    pub fn proceed(&mut self, timing: &Timing) {
        self.interval = timing.t2;
    }
}
