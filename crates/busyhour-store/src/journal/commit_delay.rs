//! How long a group of changes waits for others before it is written.
//!
//! A write costs the processor, the disk and whatever is between them about the same for one change as for a hundred. When thousands
//! come a second, one after the other, most groups would be a change or two, and the machine would be busy with writes: on
//! a virtual machine that shares processors with its own disk, a part of it stands still then. So while many come, a group begins
//! [`APART`] after the one before. Whoever waits for it waits that much longer at most, and all wait less for the processor.
//!
//! Where each caller waits for the answer before it sends the next request, the delay only makes them slower: no more arrive meanwhile.
//! How many arrive is therefore compared. Groups are apart only while at least 85 % as many requests come as did when they were not
//! ([`SAME`]), and the comparison is made again every [`COMPARE_PERIOD`]. If fewer come, groups begin at once again, and the next
//! attempt, which takes 25 to 250 ms, is made after a time that doubles. So such callers are held up by 15 % at most, and mostly not at all.
//!
//! This is pure: it is given the time and how many requests a group has, and says how long to wait.

use std::time::{Duration, Instant};

/// Decides how long the next group waits.
pub(crate) struct CommitDelay {
    mode: Mode,
    /// When the last group was taken.
    taken_at: Instant,
    /// What is counted began then.
    window_begin: Instant,
    /// The requests of the groups since.
    requests: u32,
    /// No attempt before.
    try_at: Instant,
    /// How long the next attempt has to wait if this one makes callers slower.
    backoff: Duration,
}

#[derive(Clone, Copy)]
enum Mode {
    /// A group is written as soon as the writer is free. Holds the rate of requests while groups were apart, if they just were, to be compared.
    AtOnce { rate_apart: Option<f64> },
    /// A group begins [`APART`] after the one before.
    Apart { rate_at_once: f64, until: Instant },
}

impl CommitDelay {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            mode: Mode::AtOnce { rate_apart: None },
            taken_at: now,
            window_begin: now,
            requests: 0,
            try_at: now,
            backoff: BACKOFF_MIN,
        }
    }

    /// How long to wait before the next group is taken.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        match self.mode {
            Mode::AtOnce { .. } => Duration::ZERO,
            Mode::Apart { .. } => (self.taken_at + APART).saturating_duration_since(now),
        }
    }

    /// How far apart groups begin at the moment.
    pub(crate) fn apart(&self) -> Duration {
        match self.mode {
            Mode::AtOnce { .. } => Duration::ZERO,
            Mode::Apart { .. } => APART,
        }
    }

    /// Notes that a group was taken.
    pub(crate) fn take(&mut self, now: Instant, requests: usize) {
        self.taken_at = now;
        self.requests = self
            .requests
            .saturating_add(requests.try_into().unwrap_or(u32::MAX));
        let counted = now.saturating_duration_since(self.window_begin);
        if counted < GLANCE {
            return;
        }
        if counted > SILENCE {
            // Nobody came for a while, which tells nothing of the delay.
            self.mode = Mode::AtOnce { rate_apart: None };
            (self.window_begin, self.requests) = (now, 0);
            return;
        }
        let rate = f64::from(self.requests) / counted.as_secs_f64();
        if counted >= WINDOW || self.is_much_slower(rate) {
            self.mode = self.next(now, rate);
            (self.window_begin, self.requests) = (now, 0);
        }
    }

    /// Whether the delay holds callers up so much that it takes no whole window to see it.
    fn is_much_slower(&self, rate: f64) -> bool {
        matches!(self.mode, Mode::Apart { rate_at_once, .. } if rate < rate_at_once * SLOW)
    }

    fn next(&mut self, now: Instant, rate: f64) -> Mode {
        match self.mode {
            Mode::Apart {
                rate_at_once,
                until,
            } if rate >= rate_at_once * SAME && now < until => self.mode,
            Mode::Apart { .. } => Mode::AtOnce {
                rate_apart: Some(rate),
            },
            Mode::AtOnce { rate_apart } => {
                if let Some(rate_apart) = rate_apart {
                    self.compare(now, rate, rate_apart);
                }
                match rate >= RATE_MIN && now >= self.try_at {
                    true => Mode::Apart {
                        rate_at_once: rate,
                        until: now + COMPARE_PERIOD,
                    },
                    false => Mode::AtOnce { rate_apart: None },
                }
            }
        }
    }

    fn compare(&mut self, now: Instant, rate_at_once: f64, rate_apart: f64) {
        if rate_apart < rate_at_once * SAME {
            self.try_at = now + self.backoff;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        } else {
            self.backoff = BACKOFF_MIN;
        }
    }
}

/// How far apart groups begin when many come. At 4,000 requests a second a group has four, and costs the machine a third of what
/// four would.
const APART: Duration = Duration::from_millis(1);
/// Requests a second from which on a group that waits finds others.
const RATE_MIN: f64 = 1_500.0;
/// How long requests are counted for a rate.
const WINDOW: Duration = Duration::from_millis(250);
/// After so long without a group counting begins anew.
const SILENCE: Duration = Duration::from_millis(500);
/// The least time for one.
const GLANCE: Duration = Duration::from_millis(25);
/// The part of a rate that counts as the same: how many come in a window differs by chance.
const SAME: f64 = 0.85;
/// The part of it that shows at a glance that callers are held up.
const SLOW: f64 = 0.6;
/// How often the two are compared.
const COMPARE_PERIOD: Duration = Duration::from_secs(10);
const BACKOFF_MIN: Duration = Duration::from_secs(4);
const BACKOFF_MAX: Duration = Duration::from_secs(64);

#[cfg(test)]
mod tests {
    use super::{APART, CommitDelay};
    use std::time::{Duration, Instant};

    /// How long a write takes.
    const WRITE: Duration = Duration::from_micros(200);

    struct Writer {
        delay: CommitDelay,
        now: Instant,
        groups: u64,
        requests: u64,
    }

    impl Writer {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                delay: CommitDelay::new(now),
                now,
                groups: 0,
                requests: 0,
            }
        }

        fn take(&mut self, requests: usize) {
            self.delay.take(self.now, requests);
            self.now += WRITE;
            self.groups += 1;
            self.requests += requests as u64;
        }

        /// Requests that come `gap` apart whatever happens to the ones before.
        fn run_open(&mut self, gap: Duration, period: Duration) {
            let end = self.now + period;
            let mut next = self.now;
            while self.now < end {
                self.now += self.delay.left(self.now);
                self.now = self.now.max(next);
                let mut arrived = 0;
                while next <= self.now {
                    next += gap;
                    arrived += 1;
                }
                self.take(arrived);
            }
        }

        /// Callers of whom each sends its next request 10 µs after the answer to the one before.
        fn run_closed(&mut self, callers: usize, period: Duration) {
            let end = self.now + period;
            let mut ready_at = vec![self.now; callers];
            while self.now < end {
                self.now += self.delay.left(self.now);
                self.now = self.now.max(*ready_at.iter().min().unwrap());
                let begin = self.now;
                let arrived: Vec<_> = (0..callers).filter(|i| ready_at[*i] <= begin).collect();
                self.take(arrived.len());
                for (turn, caller) in arrived.into_iter().enumerate() {
                    ready_at[caller] = self.now + Duration::from_micros(10 * (turn as u64 + 1));
                }
            }
        }

        fn rate(&self, begin: Instant) -> f64 {
            self.requests as f64 / (self.now - begin).as_secs_f64()
        }
    }

    #[test]
    fn many_requests_go_in_groups_that_begin_apart() {
        let mut writer = Writer::new();
        writer.run_open(Duration::from_micros(250), Duration::from_secs(1));
        (writer.groups, writer.requests) = (0, 0);
        writer.run_open(Duration::from_micros(250), Duration::from_secs(60));
        let group = writer.requests as f64 / writer.groups as f64;
        assert!(group > 3.5, "{group}");
        assert_eq!(writer.delay.apart(), APART);
    }

    #[test]
    fn few_requests_go_at_once() {
        let mut writer = Writer::new();
        writer.run_open(Duration::from_millis(1), Duration::from_secs(20));
        assert_eq!(writer.groups, writer.requests);
        assert_eq!(writer.delay.left(writer.now), Duration::ZERO);
    }

    #[test]
    fn a_load_that_ends_ends_the_delay() {
        let mut writer = Writer::new();
        writer.run_open(Duration::from_micros(100), Duration::from_secs(5));
        assert_eq!(writer.delay.apart(), APART);
        writer.run_open(Duration::from_millis(5), Duration::from_secs(1));
        assert_eq!(writer.delay.apart(), Duration::ZERO);
        // And it is there at once when the load is.
        writer.run_open(Duration::from_micros(100), Duration::from_secs(1));
        assert_eq!(writer.delay.apart(), APART);
    }

    #[test]
    fn silence_between_bursts_is_not_taken_for_callers_that_are_held_up() {
        let mut writer = Writer::new();
        for _ in 0..8 {
            writer.run_open(Duration::from_micros(250), Duration::from_secs(2));
            assert_eq!(writer.delay.apart(), APART);
            writer.now += Duration::from_secs(60);
        }
    }

    #[test]
    fn callers_that_wait_for_their_answers_are_hardly_held_up() {
        for callers in [1, 8, 64] {
            let mut writer = Writer::new();
            let begin = writer.now;
            writer.run_closed(callers, Duration::from_secs(40));
            let with_delay = writer.rate(begin);

            // As if nothing were ever delayed.
            let mut at_once = Writer::new();
            at_once.delay.try_at = at_once.now + Duration::from_secs(1_000);
            let begin = at_once.now;
            at_once.run_closed(callers, Duration::from_secs(40));
            let without = at_once.rate(begin);
            assert!(
                with_delay > 0.97 * without,
                "{callers}: {with_delay} and {without}"
            );
        }
    }
}
