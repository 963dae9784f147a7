//! What time it is for the server.

use super::steady::Steady;
use busyhour::clock::{Clock, Instant, UnixTime};
use busyhour_registrar::Now;

/// The runtime's clock, and the steady calendar by which leases end.
pub(super) struct ServerClock {
    clock: Clock,
    pub(super) steady: Steady,
}

impl ServerClock {
    pub(super) fn new(clock: Clock, steady: Steady) -> Self {
        Self { clock, steady }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn unix_time(&self) -> UnixTime {
        self.clock.unix_time()
    }

    /// The time by all three calendars.
    pub(super) fn moment(&self) -> Now {
        Now {
            now: self.clock.now(),
            unix: self.clock.unix_time(),
            steady: self.steady.at(self.clock.since_boot()),
        }
    }
}
