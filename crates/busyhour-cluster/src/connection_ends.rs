//! Which ends of connections were told, so that a node learns that it has missed some.

use crate::NodeNumber;
use busyhour::clock::Instant;
use std::{collections::BTreeMap, time::Duration};

/// Numbers of ends of connections: what this node has told all others, and what it has heard of each.
///
/// A connection is at one node, and another one may have a device that is reached over it. What tells of its end may be
/// lost. So a node numbers the ends that it tells, and says the last number again: each second for ten seconds after an
/// end and after there was no way to the others, and every five seconds otherwise. A node that hears a number which does
/// not follow the last one it has heard has missed an end. It asks which of the connections stand that it knows at the
/// other node, and goes on from that number. The next life of a node begins to count anew, which looks the same.
///
/// What a node tells has to leave in the order of its numbers.
///
/// # Examples
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_cluster::{ConnectionEnds, NodeNumber};
///
/// let (now, one) = (Instant::from_nanos(60_000_000_000), NodeNumber(1));
/// let (mut teller, mut hearer) = (ConnectionEnds::default(), ConnectionEnds::default());
/// let first = teller.next(now);
/// assert!(!hearer.heard_end(one, first));
/// teller.next(now); // It is lost.
/// let last = teller.due(now, true).expect("it is time to say it");
/// assert!(hearer.heard_last(one, last), "there was a second one");
/// assert!(!hearer.heard_last(one, last), "it was found out");
/// ```
#[derive(Debug, Default)]
pub struct ConnectionEnds {
    last: u64,
    /// Until then the others may not have heard it.
    is_news_until: Instant,
    said_at: Instant,
    was_connected: bool,
    /// The last number of each node; without one, 0.
    heard: BTreeMap<NodeNumber, u64>,
}

impl ConnectionEnds {
    /// The number of an end that is told now.
    pub fn next(&mut self, now: Instant) -> u64 {
        self.last += 1;
        self.is_news_until = now + NEWS;
        self.last
    }

    /// The last number, if it is time to say it: only while there is a way to the others.
    pub fn due(&mut self, now: Instant, is_connected: bool) -> Option<u64> {
        if is_connected && !self.was_connected {
            self.is_news_until = now + NEWS;
        }
        self.was_connected = is_connected;
        let pause = match now < self.is_news_until {
            true => PAUSE_AFTER_NEWS,
            false => PAUSE,
        };
        if !is_connected || now < self.said_at + pause {
            return None;
        }
        self.said_at = now;
        Some(self.last)
    }

    /// A node has told an end with this number; whether some before it were missed.
    pub fn heard_end(&mut self, node: NodeNumber, number: u64) -> bool {
        let before = self.heard.insert(node, number).unwrap_or_default();
        before.checked_add(1) != Some(number)
    }

    /// A node says that this is its last number; whether some were missed.
    pub fn heard_last(&mut self, node: NodeNumber, number: u64) -> bool {
        let before = self.heard.insert(node, number).unwrap_or_default();
        before != number
    }

    /// The node is gone, or has another life: its next number is its first one.
    pub fn begins_anew(&mut self, node: NodeNumber) {
        self.heard.remove(&node);
    }
}

const NEWS: Duration = Duration::from_secs(10);
const PAUSE_AFTER_NEWS: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// The seconds in which the last number is said.
    fn said(ends: &mut ConnectionEnds, seconds: std::ops::Range<u64>, connected: bool) -> Vec<u64> {
        let is_said = |second: &u64| ends.due(at(*second), connected).is_some();
        seconds.filter(is_said).collect()
    }

    #[test]
    fn the_last_number_is_said_more_often_after_news() {
        let mut ends = ConnectionEnds::default();
        assert_eq!(said(&mut ends, 100..103, true), [100, 101, 102]);
        assert_eq!(said(&mut ends, 110..125, true), [110, 115, 120]);
        assert_eq!(ends.next(at(130)), 1);
        assert_eq!(said(&mut ends, 130..133, true), [130, 131, 132]);
        assert_eq!(said(&mut ends, 140..150, false), [0; 0]);
        assert_eq!(said(&mut ends, 150..152, true), [150, 151]);
        assert_eq!(ends.due(at(152), true), Some(1));
    }

    #[test]
    fn what_does_not_follow_shows_that_something_was_missed() {
        let mut ends = ConnectionEnds::default();
        let (two, three) = (NodeNumber(2), NodeNumber(3));
        assert!(!ends.heard_last(two, 0));
        assert!(!ends.heard_end(two, 1));
        assert!(!ends.heard_end(two, 2));
        assert!(!ends.heard_last(two, 2));
        assert!(ends.heard_end(two, 4), "the third one");
        assert!(!ends.heard_last(two, 4));
        assert!(ends.heard_last(two, 5), "the fifth one");
        assert!(!ends.heard_end(two, 6));
        assert!(ends.heard_last(two, 0), "it is another life");
        ends.heard_end(three, 1);
        ends.begins_anew(three);
        assert!(!ends.heard_end(three, 1));
    }
}
