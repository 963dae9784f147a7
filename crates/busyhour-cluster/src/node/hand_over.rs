//! How fast a node gives partitions away.

use crate::{Grant, Partition};
use busyhour::clock::Instant;
use std::{collections::BTreeMap, time::Duration};

/// What a node gives to others that go on living: a portion at a time, and a rest after each.
///
/// The old owner forgets the devices of a portion while the new one reads them, on processors that others need as well. So a
/// portion is small, and a rest lasts as long as its portion was on its way. Where a few take long, they may wait for the database:
/// then portions grow, and rests do not, for as long as a larger portion takes less for each partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HandOver {
    /// What has not been said yet to be served where it is now.
    given: BTreeMap<Partition, Given>,
    portion_len: usize,
    /// For each partition of the last portion before they grew.
    took_each: Option<Duration>,
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
    /// A portion is on its way.
    Moving {
        since: Instant,
        /// Nobody has said of some that they are served.
        is_unheard: bool,
    },
    Resting(Instant),
}

impl HandOver {
    pub(super) fn new() -> Self {
        Self {
            given: BTreeMap::new(),
            portion_len: PORTION_MIN,
            took_each: None,
            progress: Progress::Idle,
        }
    }

    /// How many partitions may be closed now.
    pub(super) fn room(&self) -> usize {
        match self.progress {
            Progress::Idle => self.portion_len,
            Progress::Moving { .. } | Progress::Resting(_) => 0,
        }
    }

    /// A portion was closed.
    pub(super) fn begin(&mut self, now: Instant) {
        self.progress = Progress::Moving {
            since: now,
            is_unheard: false,
        };
    }

    /// There is nothing to close. The next hand-over begins anew.
    pub(super) fn is_done(&mut self) {
        if self.progress == Progress::Idle {
            (self.portion_len, self.took_each) = (PORTION_MIN, None);
        }
    }

    pub(super) fn note_given(&mut self, now: Instant, partition: Partition, epoch: u64) {
        self.given.insert(partition, Given { epoch, at: now });
    }

    /// Others serve these. Whether that is news.
    pub(super) fn note_served(&mut self, served: impl IntoIterator<Item = Grant>) -> bool {
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
        let before = self.given.len();
        self.given.retain(|_, given| now - given.at < patience);
        if let Progress::Moving { is_unheard, .. } = &mut self.progress {
            *is_unheard |= self.given.len() < before;
        }
    }

    /// So many of the portion are still with this node. When all of it is served elsewhere, or stays, the rest begins.
    pub(super) fn update(&mut self, now: Instant, here: usize) {
        let Progress::Moving { since, is_unheard } = self.progress else {
            return;
        };
        if here > 0 || !self.given.is_empty() {
            return;
        }
        let took = now - since;
        match is_unheard {
            true => (self.portion_len, self.took_each) = (PORTION_UNHEARD, None),
            false => self.adapt(took),
        }
        self.progress = match took.min(REST_MAX) {
            Duration::ZERO => Progress::Idle,
            rest => Progress::Resting(now + rest),
        };
    }

    fn adapt(&mut self, took: Duration) {
        let each = took / self.portion_len as u32;
        let is_cheaper = self.took_each.is_none_or(|before| each < before * 3 / 4);
        if took < SLOW || !is_cheaper {
            self.took_each = None;
            self.portion_len = (self.portion_len / 2).max(PORTION_MIN);
        } else if self.portion_len < PORTION_MAX {
            self.took_each = Some(each);
            self.portion_len *= 2;
        }
    }

    /// When the rest ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.progress {
            Progress::Resting(until) => Some(until),
            Progress::Idle | Progress::Moving { .. } => None,
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
/// Where nobody says what it serves, each portion waits for a beat.
const PORTION_UNHEARD: usize = 8;
/// A portion that takes so long may wait for the database, and not for a processor.
const SLOW: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// How many the next portion has, after one that took so long, and when that may begin.
    fn after(hand_over: &mut HandOver, now: &mut Instant, took_ms: u64) -> usize {
        assert!(hand_over.room() > 0);
        hand_over.begin(*now);
        hand_over.note_given(*now, Partition(1), 5);
        hand_over.update(*now, 1);
        assert_eq!((hand_over.room(), hand_over.next_due()), (0, None));
        *now = *now + Duration::from_millis(took_ms);
        let served = |epoch| Grant {
            partition: Partition(1),
            epoch,
        };
        assert!(!hand_over.note_served([served(4)]), "an earlier epoch");
        assert!(hand_over.note_served([served(5)]));
        hand_over.update(*now, 0);
        let rest = Duration::from_millis(took_ms.min(100));
        let until = Some(*now + rest);
        assert_eq!((hand_over.room(), hand_over.next_due()), (0, until));
        assert!(!hand_over.end_rest(*now));
        *now = *now + rest;
        assert!(hand_over.end_rest(*now));
        hand_over.room()
    }

    #[test]
    fn portions_grow_while_a_larger_one_takes_hardly_longer() {
        let (mut hand_over, mut now) = (HandOver::new(), Instant::from_nanos(0));
        let mut next = |took_ms| after(&mut hand_over, &mut now, took_ms);
        assert_eq!([20, 60, 249].map(&mut next), [2, 2, 2]);
        assert_eq!([600, 600, 800, 800, 800].map(&mut next), [4, 8, 16, 16, 16]);
        assert_eq!([200, 100, 50, 25].map(&mut next), [8, 4, 2, 2]);
        assert_eq!(
            [300, 600].map(&mut next),
            [4, 2],
            "twice as many took twice as long"
        );
        assert_eq!(next(600), 4);
        hand_over.is_done();
        assert_eq!(hand_over.room(), 2, "the next hand-over begins anew");
    }

    #[test]
    fn what_nobody_says_to_serve_is_given_up_and_the_portion_ends() {
        let (mut hand_over, start) = (HandOver::new(), Instant::from_nanos(0));
        let beat = Duration::from_millis(600);
        hand_over.begin(start);
        hand_over.note_given(start, Partition(1), 5);
        hand_over.give_up_after(start + beat / 2, beat);
        hand_over.update(start + beat / 2, 0);
        assert_eq!(hand_over.next_due(), None);
        hand_over.give_up_after(start + beat, beat);
        hand_over.update(start + beat, 1);
        assert_eq!(hand_over.next_due(), None, "one has not been given yet");
        hand_over.update(start + beat, 0);
        let until = start + beat + REST_MAX;
        assert_eq!(hand_over.next_due(), Some(until));
        assert!(hand_over.end_rest(until));
        assert_eq!(hand_over.room(), PORTION_UNHEARD);
    }
}
