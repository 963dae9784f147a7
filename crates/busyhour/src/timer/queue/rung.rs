use super::{
    bucket::{Bucket, EntryBlock, Spare},
    entry::TimerEntry,
    slot_list::SlotList,
};
use std::{mem, ops::Range};

/// A span of time split into buckets of equal width, a power of two, except for
/// the last one, which takes everything later.
#[derive(Debug)]
pub(in crate::timer) struct Rung {
    start_ns: u64,
    /// A bucket is `1 << shift` nanoseconds wide.
    shift: u32,
    /// The first bucket that has not been used up.
    current: usize,
    len: usize,
    buckets: Vec<Bucket>,
    /// Timers without entries, older than those in the buckets.
    listed: SlotList,
}

/// The next entries of a rung.
#[derive(Debug)]
pub(in crate::timer) enum RungNext {
    /// All of a bucket.
    Bucket(Bucket),
    /// The slots of a bucket, which are removed from the end of the list on, and
    /// the entries that come after them.
    Slots(Range<usize>, Bucket),
    /// A part of a large bucket whose entries have one deadline, in order of
    /// insertion. The bucket stays and accepts more entries.
    Equal(Box<EntryBlock>),
}

impl Rung {
    /// A rung for about `len` entries with deadlines from `first_ns` to
    /// `last_ns`, made of the buckets of a used rung.
    pub(in crate::timer) fn new(
        first_ns: u64,
        last_ns: u64,
        len: usize,
        mut buckets: Vec<Bucket>,
    ) -> Self {
        let wanted = (len / BUCKET_LEN).next_power_of_two();
        let wanted = wanted.clamp(BUCKETS_MIN, BUCKETS_MAX);
        let span_ns = last_ns - first_ns;
        let span_bits = u64::BITS - span_ns.leading_zeros();
        let shift = span_bits.saturating_sub(wanted.ilog2());
        // One for each width that the span touches, and the one after them.
        let count = (span_ns >> shift) as usize + 2;
        buckets.resize_with(count, Bucket::new);
        Self {
            start_ns: first_ns,
            shift,
            current: 0,
            len: 0,
            buckets,
            listed: SlotList::default(),
        }
    }

    /// Takes timers that have no entries yet into an empty rung.
    ///
    /// `for_each` visits their deadlines and slots, always in the same order.
    pub(super) fn list_slots(
        &mut self,
        memory: SlotList,
        for_each: impl Fn(&mut dyn FnMut(&[u64], u32)),
    ) {
        let index = |deadline_ns: u64| self.index(deadline_ns);
        self.listed = memory.filled(self.buckets.len(), index, for_each);
    }

    /// The slots that are left, also of timers that have left them.
    pub(super) fn listed(&self) -> &SlotList {
        &self.listed
    }

    /// The entries that are left, dead ones included.
    pub(in crate::timer) fn len(&self) -> usize {
        self.len
    }

    /// Whether a deadline belongs here rather than to an earlier place.
    #[inline]
    pub(in crate::timer) fn takes(&self, deadline_ns: u64) -> bool {
        deadline_ns >= self.start_ns && self.index(deadline_ns) >= self.current
    }

    #[inline]
    pub(in crate::timer) fn push(&mut self, entry: TimerEntry, spare: &mut Spare) {
        let index = self.index(entry.deadline_ns);
        self.buckets[index].push(entry, spare);
        self.len += 1;
    }

    /// Removes the next entries: a bucket, or, if it has one deadline and more
    /// than `many` entries, only a block of it.
    pub(in crate::timer) fn next(&mut self, many: usize) -> Option<RungNext> {
        let has_some =
            |place: &usize| !self.buckets[*place].is_empty() || !self.listed.of(*place).is_empty();
        self.current = (self.current..self.buckets.len()).find(has_some)?;
        let slots = self.listed.take(self.current);
        if !slots.is_empty() {
            let entries = mem::take(&mut self.buckets[self.current]);
            self.current += 1;
            self.len -= entries.len();
            return Some(RungNext::Slots(slots, entries));
        }
        let is_last = self.current + 1 == self.buckets.len();
        let bucket = &mut self.buckets[self.current];
        if self.shift == 0 && !is_last && bucket.len() > many {
            let block = bucket.take_block()?;
            self.len -= block.entries().len();
            return Some(RungNext::Equal(block));
        }
        self.current += 1;
        self.len -= bucket.len();
        Some(RungNext::Bucket(mem::take(bucket)))
    }

    /// What is left of it: slots, and the entries bucket by bucket.
    pub(super) fn into_parts(self) -> (SlotList, Vec<Bucket>) {
        (self.listed, self.buckets)
    }

    #[inline]
    fn index(&self, deadline_ns: u64) -> usize {
        let index = (deadline_ns - self.start_ns) >> self.shift;
        index.min(self.buckets.len() as u64 - 1) as usize
    }
}

/// How many entries a bucket should get.
const BUCKET_LEN: usize = 32;
const BUCKETS_MIN: usize = 4;
/// More buckets would be written at once than the caches hold.
const BUCKETS_MAX: usize = 1024;
