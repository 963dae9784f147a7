//! Whether one address of a peer is there: OPTIONS at an interval, sent again until an
//! answer comes. Pure.

use busyhour::clock::Instant;
use std::time::Duration;

/// What is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing yet: it counts as up.
    Unknown,
    Up,
    Down,
}

/// The probing of one address.
#[derive(Debug)]
pub(super) struct AddressProbe {
    interval: Duration,
    reach: Reach,
    since: Instant,
    /// When something has to be done.
    next_at: Instant,
    asked: Option<Asked>,
    round_trip: Option<Duration>,
}

/// An OPTIONS that waits for its answer.
#[derive(Debug)]
struct Asked {
    /// In its branch; nobody can guess it.
    number: u64,
    began_at: Instant,
    /// After which time it is sent again.
    interval: Duration,
}

/// What has to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProbeStep {
    /// OPTIONS with this number, for the first time or again.
    Send { number: u64, is_first: bool },
    /// The address did not answer.
    Silent(ReachChange),
}

/// What an answer or its absence means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReachChange {
    /// Nothing new.
    None,
    /// It was down for so long.
    WentUp(Duration),
    WentDown,
}

impl AddressProbe {
    /// Probes from `first_at` on; without an interval, never.
    pub(super) fn new(interval: Duration, now: Instant, first_at: Instant) -> Self {
        Self {
            interval,
            reach: Reach::Unknown,
            since: now,
            next_at: match interval.is_zero() {
                true => Instant::FAR_FUTURE,
                false => first_at,
            },
            asked: None,
            round_trip: None,
        }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// Since when it is up or down.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// From the last OPTIONS that was answered to its answer.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Whether the OPTIONS with this number waits for its answer.
    pub(super) fn asks(&self, number: u64) -> bool {
        self.asked
            .as_ref()
            .is_some_and(|asked| asked.number == number)
    }

    /// What is due; `number` makes the number of a new OPTIONS.
    pub(super) fn poll(&mut self, now: Instant, number: impl FnOnce() -> u64) -> Option<ProbeStep> {
        if now < self.next_at {
            return None;
        }
        let Some(asked) = &mut self.asked else {
            let number = number();
            self.asked = Some(Asked {
                number,
                began_at: now,
                interval: T1,
            });
            self.next_at = now + T1;
            return Some(ProbeStep::Send {
                number,
                is_first: true,
            });
        };
        let silent_at = asked.began_at + SILENCE_MAX;
        if silent_at <= now {
            self.next_at = (asked.began_at + self.interval).max(now);
            self.asked = None;
            return Some(ProbeStep::Silent(self.turn(Reach::Down, now)));
        }
        asked.interval = (2 * asked.interval).min(T2);
        self.next_at = (now + asked.interval).min(silent_at);
        Some(ProbeStep::Send {
            number: asked.number,
            is_first: false,
        })
    }

    /// A final response came; `None` if it answers nothing that waits. Whoever answers is
    /// there, unless he says that he takes no requests (503, RFC 3261 §21.5.4).
    pub(super) fn answered(
        &mut self,
        now: Instant,
        number: u64,
        status: u16,
    ) -> Option<ReachChange> {
        let asked = self.asked.take_if(|asked| asked.number == number)?;
        self.round_trip = Some(now - asked.began_at);
        self.next_at = (asked.began_at + self.interval).max(now);
        let reach = if status == 503 {
            Reach::Down
        } else {
            Reach::Up
        };
        Some(self.turn(reach, now))
    }

    fn turn(&mut self, reach: Reach, now: Instant) -> ReachChange {
        let before = std::mem::replace(&mut self.reach, reach);
        if before == reach {
            return ReachChange::None;
        }
        let lasted = now - std::mem::replace(&mut self.since, now);
        match (before, reach) {
            (Reach::Down, _) => ReachChange::WentUp(lasted),
            (_, Reach::Down) => ReachChange::WentDown,
            _ => ReachChange::None,
        }
    }
}

/// RFC 3261 §17.1.2.2.
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// How long an OPTIONS may stay unanswered. It is sent at 0, 0.5, 1.5, 3.5 and 7.5 s.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// The times at which something is sent until it is silent.
    fn sent(probe: &mut AddressProbe, number: u64) -> (Vec<u64>, ReachChange) {
        let mut times = Vec::new();
        for ms in (0..3_600_000).step_by(100) {
            match probe.poll(at(ms), || number) {
                Some(ProbeStep::Send { number: sent, .. }) => {
                    assert_eq!(sent, number);
                    times.push(ms);
                }
                Some(ProbeStep::Silent(change)) => return (times, change),
                None => {}
            }
        }
        panic!("never silent")
    }

    #[test]
    fn silence_is_noticed_after_eight_seconds_and_once() {
        let mut probe = AddressProbe::new(Duration::from_secs(30), at(0), at(0));
        assert_eq!(probe.reach(), Reach::Unknown);
        let (times, change) = sent(&mut probe, 7);
        assert_eq!(times, [0, 500, 1_500, 3_500, 7_500]);
        assert_eq!(
            (change, probe.reach()),
            (ReachChange::WentDown, Reach::Down)
        );
        assert_eq!((probe.next_at(), probe.since()), (at(30_000), at(8_000)));
        let (times, change) = sent(&mut probe, 8);
        assert_eq!(times, [30_000, 30_500, 31_500, 33_500, 37_500]);
        assert_eq!((change, probe.since()), (ReachChange::None, at(8_000)));
    }

    #[test]
    fn an_answer_of_its_own_says_that_it_is_there() {
        let mut probe = AddressProbe::new(Duration::from_secs(30), at(0), at(0));
        probe.poll(at(0), || 7);
        assert_eq!(probe.answered(at(20), 8, 200), None, "of another probe");
        assert_eq!(probe.answered(at(20), 7, 404), Some(ReachChange::None));
        assert_eq!(probe.answered(at(30), 7, 404), None, "a second time");
        assert_eq!(probe.reach(), Reach::Up);
        assert_eq!(probe.round_trip(), Some(Duration::from_millis(20)));
        assert_eq!(probe.next_at(), at(30_000));
        probe.poll(at(30_000), || 9);
        assert_eq!(
            probe.answered(at(30_010), 9, 503),
            Some(ReachChange::WentDown)
        );
        probe.poll(at(60_000), || 10);
        let lasted = Duration::from_millis(30_000);
        assert_eq!(
            probe.answered(at(60_010), 10, 200),
            Some(ReachChange::WentUp(lasted))
        );
    }

    #[test]
    fn without_an_interval_nothing_is_sent() {
        let mut probe = AddressProbe::new(Duration::ZERO, at(0), at(0));
        assert_eq!(probe.poll(at(86_400_000), || 7), None);
    }
}
