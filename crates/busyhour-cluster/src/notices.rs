//! What other nodes have to be told sooner or later, and cannot always be told now.

use crate::NodeNumber;
use busyhour::clock::Instant;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Messages that are sent again until the node that they are for has answered, or is gone.
///
/// A node may get one of them twice, and in any order, so what it says must stay true: that a
/// dialog has ended, for instance.
///
/// # Examples
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_cluster::{NodeNumber, Notices};
/// use std::time::Duration;
///
/// let (second, mut now) = (Duration::from_secs(1), Instant::from_nanos(0));
/// let mut notices = Notices::new(NodeNumber(1), second);
/// notices.view_is(now, [(NodeNumber(1), true), (NodeNumber(2), true)]);
/// notices.add(now, (*b"it is over").into());
/// let sent = notices.due(now);
/// assert_eq!((sent[0].to, &*sent[0].text), (NodeNumber(2), &b"it is over"[..]));
/// // Nobody has answered for a second.
/// assert!(notices.due(now).is_empty());
/// now = now + second;
/// assert_eq!(notices.due(now)[0].number, sent[0].number);
/// notices.answered(sent[0].number);
/// assert!(notices.due(now + second).is_empty());
/// ```
#[derive(Debug)]
pub struct Notices {
    own: NodeNumber,
    /// The other nodes that have ever been, by the last view.
    others: BTreeSet<NodeNumber>,
    /// How long an answer is awaited.
    patience: Duration,
    waiting: BTreeMap<u64, WaitingNotice>,
    last_number: u64,
    given_up: u64,
}

#[derive(Debug)]
struct WaitingNotice {
    to: NodeNumber,
    text: Arc<[u8]>,
    since: Instant,
    due: Instant,
}

/// A message to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whom it is for.
    pub to: NodeNumber,
    /// Which one it is, for [`Notices::answered`].
    pub number: u64,
    /// What it says.
    pub text: Arc<[u8]>,
}

impl Notices {
    /// So many wait at most; beyond that the oldest are given up.
    pub const COUNT_MAX: usize = 4096;

    /// None yet. Each is sent again when it was not answered for so long.
    pub fn new(own: NodeNumber, patience: Duration) -> Self {
        Self {
            own,
            others: BTreeSet::new(),
            patience,
            waiting: BTreeMap::new(),
            last_number: 0,
            given_up: 0,
        }
    }

    /// All other nodes have to be told this, also those that do not live by the last view: it may
    /// be older than their lives.
    pub fn add(&mut self, now: Instant, text: Arc<[u8]>) {
        for to in self.others.iter().copied() {
            if self.waiting.len() == Self::COUNT_MAX {
                self.waiting.pop_first();
                self.given_up += 1;
            }
            self.last_number += 1;
            let notice = WaitingNotice {
                to,
                text: text.clone(),
                since: now,
                due: now,
            };
            self.waiting.insert(self.last_number, notice);
        }
    }

    /// What has to be sent now, the oldest first.
    pub fn due(&mut self, now: Instant) -> Vec<Notice> {
        let mut due = Vec::new();
        for (number, notice) in &mut self.waiting {
            if notice.due <= now {
                notice.due = now + self.patience;
                due.push(Notice {
                    to: notice.to,
                    number: *number,
                    text: notice.text.clone(),
                });
            }
        }
        due
    }

    /// The node has it.
    pub fn answered(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The nodes, each with whether it lives, as the database had them at `read_at` or later.
    /// Who does not live need not be told what was said before that.
    pub fn view_is(
        &mut self,
        read_at: Instant,
        nodes: impl IntoIterator<Item = (NodeNumber, bool)>,
    ) {
        let mut live = BTreeSet::new();
        self.others.clear();
        for (node, is_live) in nodes.into_iter().filter(|(node, _)| *node != self.own) {
            self.others.insert(node);
            if is_live {
                live.insert(node);
            }
        }
        let is_kept = |notice: &WaitingNotice| live.contains(&notice.to) || notice.since >= read_at;
        self.waiting.retain(|_, notice| is_kept(notice));
    }

    /// Those that wait for an answer.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many were given up, since there were too many.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn one() -> Notices {
        Notices::new(NodeNumber(1), SECOND)
    }

    #[test]
    fn nobody_who_is_gone_is_told_anything() {
        let (mut now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true), (NodeNumber(3), true)]);
        notices.add(now, (*b"over").into());
        now = now + SECOND;
        notices.view_is(now, [(NodeNumber(2), false), (NodeNumber(3), true)]);
        let due = notices.due(now);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].to, NodeNumber(3));
    }

    /// It is dead by a view from before, and may have begun its next life since then.
    #[test]
    fn who_may_live_again_is_told() {
        let (mut now, mut notices) = (Instant::from_nanos(0), one());
        let view = [(NodeNumber(1), true), (NodeNumber(2), false)];
        notices.view_is(now, view);
        notices.add(now, (*b"over").into());
        notices.view_is(now, view);
        assert_eq!(notices.due(now)[0].to, NodeNumber(2));
        now = now + SECOND;
        notices.view_is(now, view);
        assert!(notices.is_empty());
    }

    #[test]
    fn the_oldest_are_given_up_when_there_are_too_many() {
        let (now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true)]);
        for number in 0..=Notices::COUNT_MAX {
            let text = number.to_be_bytes().as_slice().into();
            notices.add(now, text);
        }
        assert_eq!((notices.len(), notices.given_up()), (Notices::COUNT_MAX, 1));
        assert_eq!(*notices.due(now)[0].text, 1_usize.to_be_bytes());
    }
}
