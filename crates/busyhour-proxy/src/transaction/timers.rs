//! The times that all other times of a transaction follow from.

use std::time::Duration;

/// T1, T2 and T4 (RFC 3261 §17, table 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionTimers {
    /// An estimate of the round trip.
    pub t1: Duration,
    /// The longest wait between two retransmissions, except for INVITE.
    pub t2: Duration,
    /// How long a message may stay in the network.
    pub t4: Duration,
}

impl Default for TransactionTimers {
    /// 0.5, 4 and 5 s.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
        }
    }
}

impl TransactionTimers {
    /// 64 × T1: timers B, F, H, J, L and M.
    pub(crate) fn lifetime(&self) -> Duration {
        self.t1 * 64
    }

    /// Timer D: at least 32 s.
    pub(crate) fn refusals_repeat(&self) -> Duration {
        self.lifetime().max(Duration::from_secs(32))
    }

    /// How long timer E of a client takes to reach T2; then a request other than INVITE
    /// gets a 100 (RFC 4320 §4.1).
    pub(crate) fn until_trying(&self) -> Duration {
        let (mut sum, mut interval) = (Duration::ZERO, self.t1);
        while interval < self.t2 && !interval.is_zero() {
            sum += interval;
            interval *= 2;
        }
        sum
    }
}
