//! Requests whose partition is on its way: nobody serves it at the moment.

use crate::Partition;
use busyhour::clock::Instant;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    time::Duration,
};

/// Requests that wait until somebody serves their partition, those of one partition in the order in which they came.
///
/// They go on in **turns**: who begins a turn of a partition takes one request after the other, and what comes meanwhile waits
/// behind them. So none overtakes another one. What went on and could not be done is [put back](Self::put_back) before all that
/// came meanwhile. A copy of a request that waits says that its sender still waits, and is not
/// kept beside it. What nobody has served within the patience after its last copy is given back.
///
/// How many there may be is left to the caller, who knows their sources.
///
/// # Examples
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_cluster::{Keeping, KeptRequests, Partition};
/// use std::time::Duration;
///
/// let (second, now) = (Duration::from_secs(1), Instant::from_nanos(0));
/// let mut kept = KeptRequests::new(2 * second);
/// let room = |text| move || Some(text);
/// assert_eq!(kept.keep(now, Partition(7), 1, room("REGISTER")), Keeping::Kept);
/// assert_eq!(kept.keep(now, Partition(7), 2, room("SUBSCRIBE")), Keeping::Kept);
/// assert_eq!(kept.keep(now + second, Partition(7), 1, room("REGISTER")), Keeping::Copy);
/// // Its copy has come a second later.
/// assert_eq!(kept.take_late(now + 2 * second), ["SUBSCRIBE"]);
/// // Somebody serves the partition now.
/// assert!(kept.begin_turn(Partition(7), |_| true));
/// let (place, request) = kept.next(Partition(7), |_| true).unwrap();
/// assert_eq!(request, "REGISTER");
/// assert_eq!(kept.keep(now + second, Partition(7), 3, room("PUBLISH")), Keeping::Kept);
/// // It could not be done.
/// let _ = kept.put_back(now + second, Partition(7), 1, place, room(request));
/// let mut next = || kept.next(Partition(7), |_| true).map(|(_, request)| request);
/// assert_eq!([next(), next(), next()], [Some("REGISTER"), Some("PUBLISH"), None]);
/// assert!(!kept.waits(Partition(7)));
/// ```
#[derive(Debug)]
pub struct KeptRequests<T> {
    patience: Duration,
    /// Those that have requests or a turn.
    queues: BTreeMap<Partition, PartitionQueue>,
    /// By their numbers, which rise.
    requests: BTreeMap<u64, KeptRequest<T>>,
    /// Their numbers, by what tells a copy.
    by_name: BTreeMap<u128, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    last_number: u64,
    last_place: u64,
}

#[derive(Debug, Default)]
struct PartitionQueue {
    /// Each with its number, in their order.
    waiting: VecDeque<(KeptPlace, u64)>,
    has_turn: bool,
}

#[derive(Debug)]
struct KeptRequest<T> {
    partition: Partition,
    name: u128,
    place: KeptPlace,
    deadline: Instant,
    request: T,
}

/// Where a request waits: those that were put back in the order in which that was first done, and behind them all others, in the
/// order in which they came.
///
/// ```
/// use busyhour_cluster::KeptPlace;
///
/// assert_eq!(KeptPlace::default(), KeptPlace::BEHIND);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptPlace(u64);

impl KeptPlace {
    /// Of one that was never put back.
    pub const BEHIND: Self = Self(u64::MAX);
}

impl Default for KeptPlace {
    fn default() -> Self {
        Self::BEHIND
    }
}

/// What became of a request that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Keeping {
    /// It waits.
    Kept,
    /// It is a copy of one that waits.
    Copy,
    /// There was no room.
    Refused,
}

impl<T> KeptRequests<T> {
    /// What one that waits takes at most beside what it owns, as long as thousands of them wait: its places in the three trees and
    /// in the queue of its partition. Measured by `tests/kept_requests_memory.rs`.
    pub const ENTRY_BYTES: usize = tree_bytes(size_of::<(u64, KeptRequest<T>)>())
        + tree_bytes(size_of::<(u128, u64)>())
        + tree_bytes(size_of::<(Instant, u64)>())
        + QUEUE_BYTES;

    /// None yet. Each waits for so long after it or its last copy has come.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            queues: BTreeMap::new(),
            requests: BTreeMap::new(),
            by_name: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_number: 0,
            last_place: 0,
        }
    }

    /// Keeps what `request` makes, unless that finds no room. Two requests with one name are copies of each other.
    pub fn keep(
        &mut self,
        now: Instant,
        partition: Partition,
        name: u128,
        request: impl FnOnce() -> Option<T>,
    ) -> Keeping {
        let place = KeptPlace::BEHIND;
        self.keep_at(now, partition, name, place, request)
    }

    /// As [`keep`](Self::keep), for one that went on, or never had to wait, and could not be done: it waits before those that came
    /// meanwhile. `place` is what [`next`](Self::next) has given with it, so that one which is put back a second time is again
    /// before those that were put back after it. A copy that has come meanwhile takes its place.
    pub fn put_back(
        &mut self,
        now: Instant,
        partition: Partition,
        name: u128,
        place: KeptPlace,
        request: impl FnOnce() -> Option<T>,
    ) -> Keeping {
        let place = self.place_or_next(place);
        let keeping = self.keep_at(now, partition, name, place, request);
        if keeping == Keeping::Copy {
            self.move_to(name, place);
        }
        keeping
    }

    fn keep_at(
        &mut self,
        now: Instant,
        partition: Partition,
        name: u128,
        place: KeptPlace,
        request: impl FnOnce() -> Option<T>,
    ) -> Keeping {
        let deadline = now + self.patience;
        if self.prolong(name, deadline) {
            return Keeping::Copy;
        }
        let Some(request) = request() else {
            return Keeping::Refused;
        };
        self.insert(KeptRequest {
            partition,
            name,
            place,
            deadline,
            request,
        });
        Keeping::Kept
    }

    fn place_or_next(&mut self, place: KeptPlace) -> KeptPlace {
        if place != KeptPlace::BEHIND {
            return place;
        }
        self.last_place += 1;
        KeptPlace(self.last_place)
    }

    fn insert(&mut self, kept: KeptRequest<T>) {
        self.last_number += 1;
        let number = self.last_number;
        self.by_name.insert(kept.name, number);
        self.deadlines.insert((kept.deadline, number));
        let queue = self.queues.entry(kept.partition).or_default();
        queue.insert(kept.place, number);
        self.requests.insert(number, kept);
    }

    /// The copy of one that is put back.
    fn move_to(&mut self, name: u128, place: KeptPlace) {
        let number = self.by_name.get(&name).copied().unwrap_or_default();
        let Some(kept) = self.requests.get_mut(&number) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(&kept.partition) {
            queue.remove(kept.place, number);
            kept.place = kept.place.min(place);
            queue.insert(kept.place, number);
        }
    }

    fn prolong(&mut self, name: u128, deadline: Instant) -> bool {
        let Some(number) = self.by_name.get(&name) else {
            return false;
        };
        if let Some(kept) = self.requests.get_mut(number) {
            let before = mem::replace(&mut kept.deadline, deadline);
            self.deadlines.remove(&(before, *number));
            self.deadlines.insert((deadline, *number));
        }
        true
    }

    /// Whether requests of a partition wait, or go on at this moment: then a request that comes now waits behind them.
    pub fn waits(&self, partition: Partition) -> bool {
        self.queues.contains_key(&partition)
    }

    /// The partitions of which something waits.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.queues.keys().copied()
    }

    /// Begins a turn if the first request of the partition may go on; `false` also if somebody has the turn. Whoever begins it
    /// takes the [`next`](Self::next) until there is none.
    pub fn begin_turn(&mut self, partition: Partition, goes_on: impl Fn(&T) -> bool) -> bool {
        let goes_on = self.first_goes_on(partition, goes_on);
        let queue = self.queues.get_mut(&partition);
        queue.is_some_and(|queue| goes_on && !mem::replace(&mut queue.has_turn, true))
    }

    /// The next request of the turn, and its place if it has to be [put back](Self::put_back). `None` ends the turn: none is left, or
    /// the first one may not go on.
    pub fn next(
        &mut self,
        partition: Partition,
        goes_on: impl Fn(&T) -> bool,
    ) -> Option<(KeptPlace, T)> {
        let goes_on = self.first_goes_on(partition, goes_on);
        let queue = self.queues.get_mut(&partition)?;
        let first = queue.waiting.front().copied().filter(|_| goes_on);
        queue.has_turn = first.is_some();
        match first {
            Some((place, number)) => Some((place, self.remove(number)?)),
            None => {
                self.tidy(partition);
                None
            }
        }
    }

    fn first_goes_on(&self, partition: Partition, goes_on: impl Fn(&T) -> bool) -> bool {
        let queue = self.queues.get(&partition);
        let first = queue.and_then(|queue| queue.waiting.front());
        let first = first.and_then(|(_, number)| self.requests.get(number));
        first.is_some_and(|first| goes_on(&first.request))
    }

    /// Those that nobody has served in time, which are forgotten.
    pub fn take_late(&mut self, now: Instant) -> Vec<T> {
        let late = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let late: Vec<u64> = late.map(|(_, number)| *number).collect();
        let late = late.into_iter();
        late.filter_map(|number| self.remove(number)).collect()
    }

    /// When the first one is [late](Self::take_late).
    pub fn next_late(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Those that wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn remove(&mut self, number: u64) -> Option<T> {
        let kept = self.requests.remove(&number)?;
        self.by_name.remove(&kept.name);
        self.deadlines.remove(&(kept.deadline, number));
        if let Some(queue) = self.queues.get_mut(&kept.partition) {
            queue.remove(kept.place, number);
        }
        self.tidy(kept.partition);
        Some(kept.request)
    }

    /// A turn that has not ended keeps its partition.
    fn tidy(&mut self, partition: Partition) {
        let queue = self.queues.get(&partition);
        if queue.is_some_and(|queue| queue.waiting.is_empty() && !queue.has_turn) {
            self.queues.remove(&partition);
        }
    }
}

impl PartitionQueue {
    fn insert(&mut self, place: KeptPlace, number: u64) {
        // Mostly it is the last one.
        let at = self.waiting.binary_search(&(place, number));
        self.waiting
            .insert(at.unwrap_or_else(|at| at), (place, number));
    }

    fn remove(&mut self, place: KeptPlace, number: u64) {
        // It is the first one, but for those that are late.
        if let Ok(at) = self.waiting.binary_search(&(place, number)) {
            self.waiting.remove(at);
        }
    }
}

/// A node of a tree has room for 11 entries, of which five are used at least; one in six of them leads to others.
const fn tree_bytes(entry_bytes: usize) -> usize {
    let node_bytes = 11 * entry_bytes + 2 * size_of::<usize>();
    let inner_bytes = node_bytes + 12 * size_of::<usize>();
    (node_bytes + inner_bytes / 5) / 5
}

/// A queue has as much room again, and while it grows, the old one is there, too.
const QUEUE_BYTES: usize = 3 * size_of::<(KeptPlace, u64)>();
