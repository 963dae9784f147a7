//! How long leases last.

use std::time::Duration;

/// The lengths of time that all nodes of a cluster must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long a lease lasts after it was renewed, by the database's clock.
    pub lease: Duration,
    /// How often it is renewed.
    pub beat: Duration,
    /// How much earlier than the lease ends, by its own clock, a node stops answering from
    /// memory.
    pub margin: Duration,
}

impl Timing {
    /// Beats and margin that fit a lease: a fifth and a tenth of it.
    pub fn of_lease(lease: Duration) -> Self {
        Self {
            lease,
            beat: lease / 5,
            margin: lease / 10,
        }
    }
}

impl Default for Timing {
    /// A lease of three seconds, so that a dead node's partitions are served again within five.
    fn default() -> Self {
        Self::of_lease(Duration::from_secs(3))
    }
}
