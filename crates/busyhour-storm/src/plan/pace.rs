//! When the next registration is due.

use std::time::Duration;

use busyhour::clock::Instant;

/// How a phase offers its registrations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Evenly spaced by the clock, even if the server does not keep up.
    Open {
        /// Registrations a second.
        per_second: f64,
    },
    /// A fixed number of registrations in progress; each answer lets the next
    /// one begin.
    Closed {
        /// Registrations in progress at a time.
        slots: usize,
    },
}

/// The registrations of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    pub pace: Pace,
    /// The time from the begin of the phase until the first registration is
    /// due.
    pub after: Duration,
    /// The largest number of registrations.
    pub count: u64,
    /// The longest time during which registrations begin.
    pub duration: Duration,
    /// The index of the first device.
    pub first: u32,
    /// The number of devices. After the last one, the first is next.
    pub devices: u32,
}

impl Phase {
    /// The share of one thread: its part of the devices, which the threads
    /// take in turn, and its part of the pace.
    pub fn share(self, thread: u32, threads: u32) -> Self {
        let part = |whole: u64| {
            whole / u64::from(threads) + u64::from(u64::from(thread) < whole % u64::from(threads))
        };
        let devices = part(u64::from(self.devices)) as u32;
        let (pace, after) = match self.pace {
            Pace::Open { per_second } => {
                let after = offset(u64::from(thread), per_second);
                (
                    Pace::Open {
                        per_second: per_second / f64::from(threads),
                    },
                    after,
                )
            }
            Pace::Closed { slots } => (
                Pace::Closed {
                    slots: part(slots as u64) as usize,
                },
                Duration::ZERO,
            ),
        };
        Self {
            pace,
            after,
            count: part(self.count),
            devices,
            ..self
        }
    }

    /// How many registrations the phase will make, if that is known.
    pub fn expected(&self) -> u64 {
        match self.pace {
            Pace::Open { per_second } => self
                .count
                .min((per_second * self.duration.as_secs_f64()) as u64),
            Pace::Closed { .. } => self.count,
        }
    }
}

/// A phase in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    phase: Phase,
    begin: Instant,
    started: u64,
}

impl Schedule {
    pub fn new(phase: Phase, begin: Instant) -> Self {
        Self {
            phase,
            begin,
            started: 0,
        }
    }

    /// The device whose turn it is at `now`, and when it was due.
    pub fn next(&mut self, now: Instant, in_flight: usize) -> Option<(u32, Instant)> {
        let due = self.next_due(now, in_flight).filter(|due| *due <= now)?;
        let turn = self.started % u64::from(self.phase.devices.max(1));
        self.started += 1;
        Some((self.phase.first.wrapping_add(turn as u32), due))
    }

    /// When the next registration is due; `None` if all have begun, or while
    /// a closed loop has no free slot.
    pub fn next_due(&self, now: Instant, in_flight: usize) -> Option<Instant> {
        if self.started >= self.phase.count || self.is_over(now) {
            return None;
        }
        match self.phase.pace {
            Pace::Open { per_second } => {
                Some(self.begin + self.phase.after + offset(self.started, per_second))
            }
            Pace::Closed { slots } => (in_flight < slots).then_some(now),
        }
    }

    /// Whether no registration will begin any more.
    pub fn is_over(&self, now: Instant) -> bool {
        self.started >= self.phase.count || now - self.begin >= self.phase.duration
    }
}

fn offset(turn: u64, per_second: f64) -> Duration {
    Duration::from_nanos((turn as f64 * 1e9 / per_second) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn phase(pace: Pace) -> Phase {
        Phase {
            pace,
            after: Duration::ZERO,
            count: 5,
            duration: Duration::from_secs(60),
            first: 10,
            devices: 3,
        }
    }

    #[test]
    fn an_open_pace_is_even_and_catches_up_with_the_due_times() {
        let mut schedule = Schedule::new(phase(Pace::Open { per_second: 1000.0 }), at(0));
        assert_eq!(schedule.next(at(0), 0), Some((10, at(0))));
        assert_eq!(schedule.next(at(999), 0), None);
        assert_eq!(schedule.next_due(at(999), 0), Some(at(1000)));
        let late: Vec<_> = std::iter::from_fn(|| schedule.next(at(9_000), 99)).collect();
        assert_eq!(
            late,
            [
                (11, at(1000)),
                (12, at(2000)),
                (10, at(3000)),
                (11, at(4000))
            ]
        );
        assert!(schedule.is_over(at(9_000)));
    }

    #[test]
    fn a_closed_pace_follows_the_answers() {
        let mut schedule = Schedule::new(phase(Pace::Closed { slots: 2 }), at(0));
        assert_eq!(schedule.next(at(0), 0), Some((10, at(0))));
        assert_eq!(schedule.next(at(0), 1), Some((11, at(0))));
        assert_eq!(schedule.next(at(5), 2), None);
        assert_eq!(schedule.next(at(7), 1), Some((12, at(7))));
    }

    #[test]
    fn threads_share_a_phase_without_rest() {
        let whole = Phase {
            count: 10,
            devices: 7,
            ..phase(Pace::Open { per_second: 1000.0 })
        };
        let shares = [0, 1, 2].map(|thread| whole.share(thread, 3));
        assert_eq!(shares.map(|share| share.count), [4, 3, 3]);
        assert_eq!(shares.map(|share| share.devices), [3, 2, 2]);
        assert_eq!(shares.map(|share| share.after.as_micros()), [0, 1000, 2000]);
        let slots = Phase {
            pace: Pace::Closed { slots: 4 },
            ..whole
        };
        assert_eq!(slots.share(0, 3).pace, Pace::Closed { slots: 2 });
        assert_eq!(slots.share(2, 3).pace, Pace::Closed { slots: 1 });
    }

    #[test]
    fn time_ends_a_phase_too() {
        let mut schedule = Schedule::new(phase(Pace::Closed { slots: 9 }), at(0));
        assert_eq!(schedule.next(at(60_000_000), 0), None);
    }
}
