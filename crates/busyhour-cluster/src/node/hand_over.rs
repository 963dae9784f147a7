//! How fast a node gives partitions away.

use crate::{Grant, Partition};
use busyhour::clock::Instant;
use std::{collections::BTreeMap, time::Duration};

/// What a node gives to others that go on living: a portion at a time, and a rest after each.
///
/// The old owner forgets the devices of a portion while the new one reads them, on processors that others need as well. So a
/// portion is small, and a rest lasts as long as its portion was on its way. Where a few take long, they wait for the database:
/// then portions grow, and rests do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HandOver {
    /// What has not been said yet to be served where it is now.
    given: BTreeMap<Partition, Given>,
    portion_len: usize,
    progress: Progress,
}

/// A partition that another member has not said yet that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Given {
    /// Its epoch there.
    epoch: u64,
    at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Progress {
    Idle,
    /// A portion is on its way since then.
    Moving(Instant),
    Resting(Instant),
}

impl HandOver {
    pub(super) fn new() -> Self {
        Self {
            given: BTreeMap::new(),
            portion_len: PORTION_MIN,
            progress: Progress::Idle,
        }
    }

    /// How many partitions may be closed now.
    pub(super) fn room(&self) -> usize {
        match self.progress {
            Progress::Idle => self.portion_len,
            Progress::Moving(_) | Progress::Resting(_) => 0,
        }
    }

    /// A portion was closed.
    pub(super) fn begin(&mut self, now: Instant) {
        self.progress = Progress::Moving(now);
    }

    pub(super) fn gave(&mut self, now: Instant, partition: Partition, epoch: u64) {
        self.given.insert(partition, Given { epoch, at: now });
    }

    /// Others serve these. Whether that is news.
    pub(super) fn are_served(&mut self, served: impl IntoIterator<Item = Grant>) -> bool {
        let before = self.given.len();
        for grant in served {
            let given = self.given.get(&grant.partition);
            if given.is_some_and(|given| given.epoch <= grant.epoch) {
                self.given.remove(&grant.partition);
            }
        }
        self.given.len() < before
    }

    /// Whoever has not said for so long that it serves them is of an earlier build, or was not heard.
    pub(super) fn give_up_after(&mut self, now: Instant, patience: Duration) {
        self.given.retain(|_, given| now - given.at < patience);
    }

    /// So many of the portion are still with this node. When all of it is served elsewhere, or stays, the rest begins.
    pub(super) fn look(&mut self, now: Instant, here: usize) {
        let Progress::Moving(since) = self.progress else {
            return;
        };
        if here > 0 || !self.given.is_empty() {
            return;
        }
        let took = now - since;
        if took >= SLOW {
            self.portion_len = (2 * self.portion_len).min(PORTION_MAX);
        } else if took < SLOW / 2 {
            self.portion_len = (self.portion_len / 2).max(PORTION_MIN);
        }
        self.progress = match took.min(REST_MAX) {
            Duration::ZERO => Progress::Idle,
            rest => Progress::Resting(now + rest),
        };
    }

    /// When the rest ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.progress {
            Progress::Resting(until) => Some(until),
            Progress::Idle | Progress::Moving(_) => None,
        }
    }

    /// Ends the rest if that is due; whether it was.
    pub(super) fn end_rest(&mut self, now: Instant) -> bool {
        let is_over = self.next_due().is_some_and(|due| due <= now);
        if is_over {
            self.progress = Progress::Idle;
        }
        is_over
    }
}

/// Partitions of a portion: some hundreds of devices where there are 100,000.
const PORTION_MIN: usize = 2;
const PORTION_MAX: usize = 16;
/// A portion that takes so long waits for the database, and not for a processor.
const SLOW: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// How many the next portion has, after one that took so long, and when that may begin.
    fn after(hand_over: &mut HandOver, now: &mut Instant, took_ms: u64) -> usize {
        assert!(hand_over.room() > 0);
        hand_over.begin(*now);
        hand_over.gave(*now, Partition(1), 5);
        hand_over.look(*now, 1);
        assert_eq!((hand_over.room(), hand_over.next_due()), (0, None));
        *now = *now + Duration::from_millis(took_ms);
        let served = |epoch| Grant {
            partition: Partition(1),
            epoch,
        };
        assert!(!hand_over.are_served([served(4)]), "an earlier epoch");
        assert!(hand_over.are_served([served(5)]));
        hand_over.look(*now, 0);
        let rest = Duration::from_millis(took_ms.min(100));
        assert_eq!(
            (hand_over.room(), hand_over.next_due()),
            (0, Some(*now + rest))
        );
        assert!(!hand_over.end_rest(*now));
        *now = *now + rest;
        assert!(hand_over.end_rest(*now));
        hand_over.room()
    }

    #[test]
    fn portions_grow_while_the_database_is_slow_and_rests_are_bounded() {
        let (mut hand_over, mut now) = (HandOver::new(), Instant::from_nanos(0));
        let mut next = |took_ms| after(&mut hand_over, &mut now, took_ms);
        assert_eq!([20, 60, 124].map(&mut next), [2, 2, 2]);
        assert_eq!([250, 900, 900, 900].map(&mut next), [4, 8, 16, 16]);
        assert_eq!([130, 249].map(&mut next), [16, 16], "neither slow nor fast");
        assert_eq!([120, 60, 60, 60].map(&mut next), [8, 4, 2, 2]);
    }

    #[test]
    fn what_nobody_says_to_serve_is_given_up_and_the_portion_ends() {
        let (mut hand_over, start) = (HandOver::new(), Instant::from_nanos(0));
        let beat = Duration::from_millis(600);
        hand_over.begin(start);
        hand_over.gave(start, Partition(1), 5);
        hand_over.give_up_after(start + beat / 2, beat);
        hand_over.look(start + beat / 2, 0);
        assert_eq!(hand_over.next_due(), None);
        hand_over.give_up_after(start + beat, beat);
        hand_over.look(start + beat, 1);
        assert_eq!(hand_over.next_due(), None, "one has not been given yet");
        hand_over.look(start + beat, 0);
        assert_eq!(hand_over.next_due(), Some(start + beat + REST_MAX));
    }
}
