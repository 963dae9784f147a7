//! When a message is sent again: timers A, E and G.

use busyhour::clock::Instant;
use std::time::Duration;

/// The next retransmission, and how long the wait before it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retransmission {
    due: Instant,
    interval: Duration,
}

impl Retransmission {
    /// Never: the transport is reliable, or an answer came.
    pub const NEVER: Self = Self {
        due: Instant::FAR_FUTURE,
        interval: Duration::ZERO,
    };

    /// The first one after `interval`, or never.
    pub fn start(now: Instant, interval: Duration, is_reliable: bool) -> Self {
        match is_reliable {
            true => Self::NEVER,
            false => Self {
                due: now + interval,
                interval,
            },
        }
    }

    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether one is due now; then the next wait is twice as long, at most `longest`.
    pub fn take(&mut self, now: Instant, longest: Duration) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.interval = (self.interval * 2).min(longest);
            self.due = now + self.interval;
        }
        is_due
    }
}
