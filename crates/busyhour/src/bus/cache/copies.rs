//! Copies of the last changes' events in the order of their versions, so that a reader of a shard
//! in which much changes reads memory in a row, and not a slot and an event anywhere for each change.

use super::incoming::EventCopy;
use std::{collections::VecDeque, mem, sync::Arc};

/// The copies, noted while somebody lags. Only the holder of the shard's lock uses it. It has copies
/// of events that are small and need no drop, and no others.
pub(super) struct RecentCopies<E> {
    /// Chunks that do not change any more, oldest first, with no gap between them.
    sealed: VecDeque<Arc<CopyChunk<E>>>,
    /// What has changed since.
    open: CopyChunk<E>,
    /// How many copies the sealed chunks have.
    sealed_len: usize,
    outdated: OutdatedChanges,
}

/// The changes from one version on.
struct CopyChunk<E> {
    /// The version of the first one.
    first: u64,
    events: Vec<E>,
}

/// By version modulo their number: whether a later change of the same key has followed.
#[derive(Clone, Copy)]
struct OutdatedChanges([u64; COPIES_MAX / 64]);

/// What a reader has not read yet.
pub(in crate::bus) struct CopiedChanges<E> {
    chunks: Vec<Arc<CopyChunk<E>>>,
    /// Until which version it has read.
    since: u64,
    /// Until which version this is everything.
    pub(in crate::bus) until: u64,
    outdated: OutdatedChanges,
}

impl<E> RecentCopies<E> {
    pub(super) const fn new() -> Self {
        Self {
            sealed: VecDeque::new(),
            open: CopyChunk::from(1),
            sealed_len: 0,
            outdated: OutdatedChanges([0; COPIES_MAX / 64]),
        }
    }

    /// Notes the change of `version`, which comes after that of version `before` of the same key; 0
    /// for a new key. A change without a copy, or a gap before it, makes what is older useless.
    #[inline(always)]
    pub(super) fn note(&mut self, (version, before): (u64, u64), copy: Option<E>) {
        if !EventCopy::<E>::IS_WORTH_IT {
            return;
        }
        if version != self.open.end() || copy.is_none() {
            self.begin_anew(version);
        }
        let Some(copy) = copy else { return };
        self.outdated.set(version, false);
        if before >= self.first() {
            self.outdated.set(before, true);
        }
        self.open.events.push(copy);
        if self.open.events.len() >= CHUNK_LEN {
            self.seal();
        }
    }

    #[cold]
    fn begin_anew(&mut self, version: u64) {
        self.sealed.clear();
        self.sealed_len = 0;
        self.open.events.clear();
        self.open.first = version;
    }

    /// The version of the oldest copy.
    #[inline(always)]
    fn first(&self) -> u64 {
        self.open.first - self.sealed_len as u64
    }

    /// Lets readers have what has changed until now. The memory of the oldest chunk is used again,
    /// if no reader has it.
    fn seal(&mut self) {
        let mut next = CopyChunk::from(self.open.end());
        while self.sealed_len + self.open.events.len() > COPIES_MAX - CHUNK_LEN {
            let Some(oldest) = self.sealed.pop_front() else {
                break;
            };
            self.sealed_len -= oldest.events.len();
            if let Ok(oldest) = Arc::try_unwrap(oldest) {
                next.events = oldest.events;
                next.events.clear();
            }
        }
        let sealed = mem::replace(&mut self.open, next);
        self.sealed_len += sealed.events.len();
        self.sealed.push_back(Arc::new(sealed));
    }

    /// Every change after version `since`. `None` if there are few of them, or if not each of them
    /// until version `newest`, the last one, has a copy.
    pub(super) fn since(&mut self, since: u64, newest: u64) -> Option<CopiedChanges<E>> {
        let has_last = self.open.end() == newest + 1;
        if !has_last || newest - since < FEW || self.first() > since + 1 {
            return None;
        }
        if !self.open.events.is_empty() {
            self.seal();
        }
        // Sealing may have dropped the oldest.
        if self.first() > since + 1 {
            return None;
        }
        // From the newest on: mostly few are wanted, and the others need not be looked at.
        let newest_first = self.sealed.iter().rev();
        let wanted = newest_first.take_while(|chunk| chunk.end() > since + 1);
        let first = self.sealed.len() - wanted.count();
        let chunks = self.sealed.range(first..).map(Arc::clone).collect();
        let (until, outdated) = (newest, self.outdated);
        Some(CopiedChanges {
            chunks,
            since,
            until,
            outdated,
        })
    }
}

impl<E> CopyChunk<E> {
    const fn from(first: u64) -> Self {
        let events = Vec::new();
        Self { first, events }
    }

    /// The version after the last one.
    #[inline(always)]
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

impl<E> CopiedChanges<E> {
    /// The last change of each key, in order.
    #[inline(always)]
    pub(in crate::bus) fn last_ones(&self) -> impl Iterator<Item = &E> {
        let chunks = self.chunks.iter();
        let changes = chunks.flat_map(|chunk| (chunk.first..).zip(&chunk.events));
        let unread = changes.filter(|(version, _)| {
            *version > self.since && *version <= self.until && !self.outdated.has(*version)
        });
        unread.map(|(_, event)| event)
    }

    /// How many that are.
    pub(in crate::bus) fn last_count(&self) -> u64 {
        self.until - self.since - self.outdated.count(self.since + 1, self.until)
    }
}

impl OutdatedChanges {
    #[inline(always)]
    fn has(&self, version: u64) -> bool {
        self.0[version as usize % COPIES_MAX / 64] & 1 << (version % 64) != 0
    }

    /// How many of the versions from `first` to `last` are.
    fn count(&self, first: u64, last: u64) -> u64 {
        let (mut version, mut count) = (first, 0);
        while version <= last {
            let bits = (64 - version % 64).min(last - version + 1);
            let mask = u64::MAX >> (64 - bits) << (version % 64);
            count += (self.0[version as usize % COPIES_MAX / 64] & mask).count_ones();
            version += bits;
        }
        u64::from(count)
    }

    #[inline(always)]
    fn set(&mut self, version: u64, is_outdated: bool) {
        let word = &mut self.0[version as usize % COPIES_MAX / 64];
        let bit = 1 << (version % 64);
        *word = if is_outdated {
            *word | bit
        } else {
            *word & !bit
        };
    }
}

/// The most changes that have copies in one shard.
const COPIES_MAX: usize = 1024;
/// A model is too short to fill longer ones.
const CHUNK_LEN: usize = if cfg!(any(loom, shuttle)) { 2 } else { 64 };
/// So few changes are read from the slots: a chunk for them would cost more.
const FEW: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Step {
        /// A key changes; with a copy or without.
        Change(u64, bool),
        /// A change is not noted.
        Skip,
        /// Somebody reads what has changed since so many versions ago.
        Read(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            400 => (0..40_u64).prop_map(|key| Step::Change(key, true)),
            1 => (0..40_u64).prop_map(|key| Step::Change(key, false)),
            1 => Just(Step::Skip),
            40 => (0..2_000_u64).prop_map(Step::Read),
        ]
    }

    proptest! {
        #[test]
        fn a_reader_gets_the_last_change_of_each_key_or_is_told_that_not_all_are_there(
            steps in vec(step(), 1..4_000),
        ) {
            let mut copies = RecentCopies::new();
            let (mut version, mut gap) = (0, 0);
            // By key, its last change.
            let mut last = HashMap::<u64, u64>::new();
            for step in steps {
                match step {
                    Step::Change(key, is_copied) => {
                        version += 1;
                        let before = last.insert(key, version).unwrap_or(0);
                        copies.note((version, before), is_copied.then_some((key, version)));
                        if !is_copied {
                            gap = version;
                        }
                    }
                    Step::Skip => {
                        version += 1;
                        gap = version;
                    }
                    Step::Read(back) => {
                        let since = version.saturating_sub(back);
                        let Some(read) = copies.since(since, version) else {
                            let is_few = version - since < FEW;
                            let is_long = version - since > (COPIES_MAX - 2 * CHUNK_LEN) as u64;
                            prop_assert!(is_few || is_long || gap > since);
                            continue;
                        };
                        let mut expected: Vec<_> = last.iter().map(|(key, it)| (*key, *it)).collect();
                        expected.retain(|(_, version)| *version > since);
                        expected.sort_unstable_by_key(|(_, version)| *version);
                        prop_assert_eq!(read.last_count(), expected.len() as u64);
                        prop_assert!(read.last_ones().eq(&expected), "since {}", since);
                    }
                }
            }
            prop_assert!(copies.sealed_len + copies.open.events.len() <= COPIES_MAX);
        }
    }
}
