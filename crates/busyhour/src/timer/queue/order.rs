use super::{
    bucket::{Bucket, EntryBlock, Spare},
    entry::{AllLive, Liveness, TimerEntry},
    run::{LEN_MAX, Run},
    rung::{Rung, RungNext},
};
use std::mem;

/// The waiting timers in order: by deadline, then by insertion.
///
/// The next timers are sorted in the run. Later ones are in the buckets of
/// rungs, the finest rung last; each rung covers the time from the end of the
/// rungs after it. The top holds everything later than the rungs. Entries with
/// one deadline are always together and in order of insertion.
#[derive(Debug)]
pub(in crate::timer) struct DeadlineOrder {
    /// The earliest live entry, or [`TimerEntry::NONE`].
    first: TimerEntry,
    /// The number of entries, dead ones included.
    len: usize,
    /// Deadlines from here on belong to the top; 0 while there is nothing else.
    top_start_ns: u64,
    top: Bucket,
    rungs: Vec<Rung>,
    run: Run,
    spare: Spare,
    /// The buckets of rungs that were used up.
    spare_buckets: Vec<Vec<Bucket>>,
}

impl DeadlineOrder {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            first: TimerEntry::NONE,
            len: 0,
            top_start_ns: 0,
            top: Bucket::new(),
            rungs: Vec::new(),
            run: Run::new(),
            spare: Spare::new(),
            spare_buckets: Vec::new(),
        }
    }

    /// The number of entries, dead ones included.
    #[inline]
    pub(in crate::timer) fn len(&self) -> usize {
        self.len
    }

    /// The earliest live entry.
    #[inline]
    pub(in crate::timer) fn first(&self) -> Option<TimerEntry> {
        (!self.first.is_none()).then_some(self.first)
    }

    /// Whether the earliest entry is of this slot.
    #[inline]
    pub(super) fn is_first(&self, slot: u32) -> bool {
        self.first.slot() == slot
    }

    #[inline]
    pub(in crate::timer) fn insert(&mut self, entry: TimerEntry) {
        let is_only = entry.deadline_ns == u64::MAX && self.first.is_none();
        if entry.deadline_ns < self.first.deadline_ns || is_only {
            self.first = entry;
        }
        self.len += 1;
        if entry.deadline_ns >= self.top_start_ns {
            self.top.push(entry, &mut self.spare);
        } else {
            self.insert_below_top(entry);
        }
    }

    /// Whether the earliest entry is known but not yet sorted.
    #[inline]
    pub(super) fn is_unsorted(&self) -> bool {
        self.run.len() == 0
    }

    /// Removes the earliest entry, if it is sorted;
    /// [`DeadlineOrder::find_first`] must follow.
    #[inline]
    pub(in crate::timer) fn pop(&mut self) -> Option<TimerEntry> {
        let earliest = self.run.pop()?;
        self.len -= 1;
        Some(earliest)
    }

    /// Finds the earliest entry, after the previous one was popped or has died.
    ///
    /// A caller that knows that no entry is dead passes [`AllLive`], which
    /// saves a look at each slot.
    #[inline]
    pub(super) fn find_first(&mut self, live: &impl Liveness) {
        self.len -= self.run.drop_dead(live);
        match self.run.last() {
            Some(last) => self.first = last,
            None => self.fill_run(live),
        }
    }

    /// Fills an empty run with the next entries, and finds the earliest in it.
    #[inline(never)]
    fn fill_run(&mut self, live: &impl Liveness) {
        while self.refill(live) {
            self.len -= self.run.drop_dead(live);
            if let Some(last) = self.run.last() {
                self.first = last;
                return;
            }
        }
        self.clear();
    }

    /// Finds the earliest entry if the previous one has died.
    pub(super) fn replace_first(&mut self, live: &impl Liveness) {
        if live.is_live(self.first) {
            return;
        }
        self.len -= self.run.drop_dead(live);
        let is_all_unsorted = self.is_unsorted() && self.rungs.is_empty();
        if is_all_unsorted && self.top.len() > LEN_MAX {
            self.split_top(live);
        }
        self.find_first(live);
    }

    /// Drops every dead entry. What is left is unsorted again.
    #[cold]
    pub(super) fn purge(&mut self, live: &impl Liveness) {
        let mut all = Bucket::new();
        for entry in self.run.drain() {
            all.push(entry, &mut self.spare);
        }
        while let Some(rung) = self.rungs.pop() {
            self.move_all(rung, &mut all);
        }
        let mut first = TimerEntry::NONE;
        let mut top = mem::take(&mut self.top);
        self.top_start_ns = 0;
        for bucket in [&mut all, &mut top] {
            while let Some(mut block) = bucket.take_block() {
                self.len -= block.retain(live);
                first = block
                    .entries()
                    .iter()
                    .copied()
                    .fold(first, TimerEntry::earlier);
                self.top.append(block, &mut self.spare);
            }
        }
        self.first = first;
        self.trim();
    }

    /// Removes all entries, because none is live.
    pub(super) fn clear(&mut self) {
        (self.first, self.len) = (TimerEntry::NONE, 0);
        self.top_start_ns = 0;
        self.run.clear();
        while let Some(block) = self.top.take_block() {
            self.spare.put(block);
        }
        while self.drop_rung() {}
        self.spare_buckets.truncate(1);
        self.spare.trim(0);
    }

    /// Keeps as many spare blocks as the entries may soon need.
    fn trim(&mut self) {
        self.spare.trim(self.len());
    }

    /// Takes the few earliest entries out of an unsorted top. If most timers
    /// are cancelled, the others never need to be sorted.
    fn split_top(&mut self, live: &impl Liveness) {
        let from_ns = self.first.deadline_ns;
        let span_ns = self.top.newest_last_ns().saturating_sub(from_ns);
        let last_ns = from_ns + span_ns / (self.top.len() / SPLIT_LEN).max(1) as u64;
        let (mut early, mut all) = (Bucket::new(), mem::take(&mut self.top));
        let before = all.len();
        while let Some(mut block) = all.take_block() {
            block.retain_after(last_ns, live, |entry| early.push(entry, &mut self.spare));
            self.top.append(block, &mut self.spare);
        }
        self.len -= before - self.top.len() - early.len();
        self.top_start_ns = last_ns.saturating_add(1);
        self.open(early, live);
        self.trim();
    }

    #[inline(never)]
    fn insert_below_top(&mut self, entry: TimerEntry) {
        if self.run.len() >= RUN_LEN_MAX {
            self.spill();
        }
        let takes = |rung: &&mut Rung| rung.takes(entry.deadline_ns);
        match self.rungs.iter_mut().find(takes) {
            Some(rung) => rung.push(entry, &mut self.spare),
            None => self.run.insert(entry),
        }
    }

    /// Makes a rung of a run that has become too long for insertions, and of
    /// the following rungs that are not much longer. So each later rung has
    /// several times the entries of the one before, and there are few.
    #[cold]
    fn spill(&mut self) {
        let mut all = Bucket::new();
        for entry in self.run.drain() {
            all.push(entry, &mut self.spare);
        }
        while (self.rungs.last()).is_some_and(|rung| rung.len() <= 2 * all.len()) {
            let Some(rung) = self.rungs.pop() else { break };
            self.move_all(rung, &mut all);
        }
        self.push_rung(all, &AllLive);
    }

    /// Puts the next entries into the run, or splits their time into finer
    /// buckets; `false` if there are none.
    fn refill(&mut self, live: &impl Liveness) -> bool {
        let Some(rung) = self.rungs.last_mut() else {
            return self.open_top(live);
        };
        match rung.next(LEN_MAX) {
            None => {
                self.drop_rung();
            }
            Some(RungNext::Bucket(bucket)) => {
                self.open(bucket, live);
            }
            Some(RungNext::Equal(block)) => {
                self.gather(block, live);
                self.run.fill();
            }
        }
        self.trim();
        true
    }

    fn open_top(&mut self, live: &impl Liveness) -> bool {
        let top = mem::take(&mut self.top);
        if top.is_empty() {
            return false;
        }
        let last_ns = self.open(top, live);
        // From now on, entries with the last deadline may go to the top, since
        // they come after those already there.
        self.top_start_ns = last_ns;
        true
    }

    /// Sorts a bucket, or splits it into finer ones if it is large; returns the
    /// latest deadline in it.
    fn open(&mut self, mut bucket: Bucket, live: &impl Liveness) -> u64 {
        if bucket.len() > LEN_MAX {
            return self.push_rung(bucket, live);
        }
        while let Some(block) = bucket.take_block() {
            self.gather(block, live);
        }
        self.run.fill();
        self.run.latest_ns()
    }

    fn gather(&mut self, mut block: Box<EntryBlock>, live: &impl Liveness) {
        self.len -= block.retain(live);
        self.run.gather(block.entries());
        self.spare.put(block);
    }

    /// Splits the time of the bucket's entries into finer buckets; returns the
    /// latest deadline in it.
    fn push_rung(&mut self, mut bucket: Bucket, live: &impl Liveness) -> u64 {
        let Some((first_ns, last_ns)) = bucket.bounds() else {
            return 0;
        };
        let buckets = self.spare_buckets.pop().unwrap_or_default();
        let mut rung = Rung::new(first_ns, last_ns, bucket.len(), buckets);
        while let Some(mut block) = bucket.take_block() {
            self.len -= block.retain(live);
            let entries = block.entries().iter();
            entries.for_each(|entry| rung.push(*entry, &mut self.spare));
            self.spare.put(block);
        }
        self.rungs.push(rung);
        last_ns
    }

    /// Moves what is left of a rung behind the entries of `all`.
    fn move_all(&mut self, rung: Rung, all: &mut Bucket) {
        let mut buckets = rung.into_buckets();
        for bucket in &mut buckets {
            while let Some(block) = bucket.take_block() {
                all.append(block, &mut self.spare);
            }
        }
        self.keep_buckets(buckets);
    }

    fn drop_rung(&mut self) -> bool {
        let Some(rung) = self.rungs.pop() else {
            return false;
        };
        let mut buckets = rung.into_buckets();
        for bucket in &mut buckets {
            while let Some(block) = bucket.take_block() {
                self.spare.put(block);
            }
        }
        self.keep_buckets(buckets);
        true
    }

    fn keep_buckets(&mut self, buckets: Vec<Bucket>) {
        if self.spare_buckets.len() < SPARE_BUCKETS_MAX {
            self.spare_buckets.push(buckets);
        }
    }
}

/// How many entries are taken out of an unsorted top.
const SPLIT_LEN: usize = 48;
/// A run longer than this makes room by becoming a rung.
const RUN_LEN_MAX: usize = 2 * LEN_MAX;
const SPARE_BUCKETS_MAX: usize = 4;
