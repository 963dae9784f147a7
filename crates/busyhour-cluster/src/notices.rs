//! What other nodes have to be told sooner or later, and cannot always be told now.

use crate::NodeNumber;
use busyhour::clock::Instant;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

/// Messages that are sent again until the node that they are for has answered, or is gone.
///
/// A node may get one of them twice, and in any order, so what it says must stay true, as that a
/// dialog has ended, or be [withdrawn](Self::withdraw).
///
/// When there is no room, the source with the most of them loses its oldest: one that takes part in many calls, or says so, must
/// not keep others from being told.
///
/// # Examples
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_cluster::{NodeNumber, Notices};
/// use std::time::Duration;
///
/// let (second, mut now) = (Duration::from_secs(1), Instant::from_nanos(0));
/// let source = "192.0.2.7".parse().expect("an address");
/// let mut notices = Notices::new(NodeNumber(1), second, 10);
/// notices.view_is(now, [(NodeNumber(1), true), (NodeNumber(2), true)]);
/// let about = "the dialog of a, b and c".into();
/// notices.add(now, source, &about, (*b"it is over").into());
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
    /// The numbers of those that wait, by who caused them.
    by_source: BTreeMap<IpAddr, BTreeSet<u64>>,
    /// And by what they are about.
    by_subject: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// How many a source may have when there is no room.
    share: usize,
    last_number: u64,
    given_up: u64,
    over_share: u64,
}

#[derive(Debug)]
struct WaitingNotice {
    to: NodeNumber,
    source: IpAddr,
    about: Arc<str>,
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
    /// So many wait at most; beyond that the source with the most loses its oldest.
    pub const COUNT_MAX: usize = 4096;

    /// None yet. Each is sent again when it was not answered for so long. A source has so many percent of the places as its share:
    /// what it loses of more than that is counted apart.
    pub fn new(own: NodeNumber, patience: Duration, source_percent: usize) -> Self {
        Self {
            own,
            others: BTreeSet::new(),
            patience,
            waiting: BTreeMap::new(),
            by_source: BTreeMap::new(),
            by_subject: BTreeMap::new(),
            share: Self::COUNT_MAX * source_percent / 100,
            last_number: 0,
            given_up: 0,
            over_share: 0,
        }
    }

    /// All other nodes have to be told this, also those that do not live by the last view: it may
    /// be older than their lives. The source is who caused it. It takes the place of what was to be
    /// said before about the same thing.
    pub fn add(&mut self, now: Instant, source: IpAddr, about: &Arc<str>, text: Arc<[u8]>) {
        self.withdraw(about);
        for to in self.others.clone() {
            self.insert(to, now, source, (about.clone(), text.clone()));
        }
    }

    /// As [`add`](Self::add), for one node.
    pub fn add_for(
        &mut self,
        to: NodeNumber,
        now: Instant,
        source: IpAddr,
        about: &Arc<str>,
        text: Arc<[u8]>,
    ) {
        let before = self.of(about, |notice| notice.to == to);
        before.into_iter().for_each(|number| self.forget(number));
        self.insert(to, now, source, (about.clone(), text));
    }

    /// What was to be said about this is not true any more.
    pub fn withdraw(&mut self, about: &str) {
        let all = self.of(about, |_| true);
        all.into_iter().for_each(|number| self.forget(number));
    }

    fn of(&self, about: &str, is_wanted: impl Fn(&WaitingNotice) -> bool) -> Vec<u64> {
        let numbers = self.by_subject.get(about).into_iter().flatten();
        let is_wanted = |number: &&u64| self.waiting.get(number).is_some_and(&is_wanted);
        numbers.filter(is_wanted).copied().collect()
    }

    fn insert(
        &mut self,
        to: NodeNumber,
        now: Instant,
        source: IpAddr,
        (about, text): (Arc<str>, Arc<[u8]>),
    ) {
        if self.waiting.len() == Self::COUNT_MAX {
            self.make_room();
        }
        self.last_number += 1;
        let of_source = self.by_source.entry(source).or_default();
        of_source.insert(self.last_number);
        let of_subject = self.by_subject.entry(about.clone()).or_default();
        of_subject.insert(self.last_number);
        let notice = WaitingNotice {
            to,
            source,
            about,
            text,
            since: now,
            due: now,
        };
        self.waiting.insert(self.last_number, notice);
    }

    /// The source with the most loses its oldest; of several, the one whose oldest has waited longest.
    fn make_room(&mut self) {
        let has_more = |of_it: &&BTreeSet<u64>| (of_it.len(), Reverse(of_it.first().copied()));
        let greediest = self.by_source.values().max_by_key(has_more);
        let Some((oldest, taken)) = greediest.and_then(|it| Some((*it.first()?, it.len()))) else {
            return;
        };
        self.forget(oldest);
        self.given_up += 1;
        self.over_share += u64::from(taken > self.share);
    }

    fn forget(&mut self, number: u64) {
        let Some(notice) = self.waiting.remove(&number) else {
            return;
        };
        if let Some(of_it) = self.by_source.get_mut(&notice.source) {
            of_it.remove(&number);
            if of_it.is_empty() {
                self.by_source.remove(&notice.source);
            }
        }
        if let Some(of_it) = self.by_subject.get_mut(&notice.about) {
            of_it.remove(&number);
            if of_it.is_empty() {
                self.by_subject.remove(&notice.about);
            }
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
        self.forget(number);
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
        let gone = self.waiting.iter().filter(|(_, notice)| !is_kept(notice));
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        gone.into_iter().for_each(|number| self.forget(number));
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

    /// How many of those were of a source that had more than its share.
    pub fn over_share(&self) -> u64 {
        self.over_share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const SECOND: Duration = Duration::from_secs(1);

    fn one() -> Notices {
        Notices::new(NodeNumber(1), SECOND, 10)
    }

    fn source(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn about(number: usize) -> Arc<str> {
        number.to_string().into()
    }

    #[test]
    fn nobody_who_is_gone_is_told_anything() {
        let (mut now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true), (NodeNumber(3), true)]);
        notices.add(now, source(1), &about(1), (*b"over").into());
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
        notices.add(now, source(1), &about(1), (*b"over").into());
        notices.view_is(now, view);
        assert_eq!(notices.due(now)[0].to, NodeNumber(2));
        now = now + SECOND;
        notices.view_is(now, view);
        assert!(notices.is_empty());
    }

    #[test]
    fn when_there_is_no_room_the_source_with_the_most_loses_its_oldest() {
        let (now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true)]);
        let add = |notices: &mut Notices, last: u8, number: usize| {
            let text = number.to_be_bytes();
            notices.add(now, source(last), &about(number), text.as_slice().into());
        };
        (0..10).for_each(|number| add(&mut notices, 1, number));
        (0..Notices::COUNT_MAX).for_each(|number| add(&mut notices, 2, 100 + number));
        assert_eq!(notices.len(), Notices::COUNT_MAX);
        assert_eq!((notices.given_up(), notices.over_share()), (10, 10));
        let due = notices.due(now);
        let texts = due.iter().map(|notice| &*notice.text);
        let kept = (0..10).chain(110..100 + Notices::COUNT_MAX);
        assert!(texts.eq(kept.map(usize::to_be_bytes)));
        due.iter()
            .for_each(|notice| notices.answered(notice.number));
        assert!(notices.is_empty() && notices.by_source.is_empty());
        assert!(notices.by_subject.is_empty());
    }

    /// Then nobody has had too many.
    #[test]
    fn who_has_no_more_than_its_share_has_not_displaced_others() {
        let (now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true)]);
        for number in 0..=Notices::COUNT_MAX {
            notices.add(
                now,
                source((number % 100) as u8),
                &about(number),
                Arc::default(),
            );
        }
        assert_eq!((notices.given_up(), notices.over_share()), (1, 0));
    }

    #[test]
    fn of_sources_with_equally_many_the_one_that_began_first_loses_its_own() {
        let (now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true)]);
        for number in 0..=Notices::COUNT_MAX as u32 {
            let text = number.to_be_bytes();
            let source = Ipv4Addr::from(text).into();
            notices.add(now, source, &about(number as usize), text.as_slice().into());
        }
        let due = notices.due(now);
        let texts = due.iter().map(|notice| &*notice.text);
        assert!(texts.eq((1..=Notices::COUNT_MAX as u32).map(u32::to_be_bytes)));
    }

    #[test]
    fn of_one_thing_the_last_word_is_told_and_none_that_was_withdrawn() {
        let (now, mut notices) = (Instant::from_nanos(0), one());
        notices.view_is(now, [(NodeNumber(2), true), (NodeNumber(3), true)]);
        let text = |text: &str| Arc::from(text.as_bytes());
        notices.add(now, source(1), &about(1), text("adopted"));
        notices.add(now, source(2), &about(1), text("over"));
        notices.add(now, source(1), &about(2), text("adopted"));
        notices.add_for(NodeNumber(3), now, source(1), &about(2), text("kept"));
        notices.add(now, source(1), &about(3), text("adopted"));
        notices.withdraw(&about(3));
        let due = notices.due(now);
        let told = due.iter().map(|it| (it.to.0, &*it.text));
        let expected: [(u16, &[u8]); 4] =
            [(2, b"over"), (3, b"over"), (2, b"adopted"), (3, b"kept")];
        assert!(told.eq(expected), "{due:?}");
    }
}
