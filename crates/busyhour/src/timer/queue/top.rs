use super::{
    bucket::{Bucket, EntryBlock, Spare},
    entry::TimerEntry,
    ranges::{RangeKey, RangedSlots, SlotRange},
};
use std::mem;

/// The late timers, in order of insertion: entries, and ranges of slots.
#[derive(Debug)]
pub(super) struct Top {
    /// Entries, and ranges in the form of entries.
    bucket: Bucket,
    /// How many of those are ranges.
    range_count: usize,
    /// The slots of these ranges.
    range_slots: usize,
    /// The range that grows, after all of the bucket: its first slot, the key of
    /// that, and the key of the slot that would continue it.
    growing: u32,
    growing_begin: RangeKey,
    growing_end: RangeKey,
}

impl Top {
    pub(super) const fn new() -> Self {
        Self {
            bucket: Bucket::new(),
            range_count: 0,
            range_slots: 0,
            growing: 0,
            growing_begin: RangeKey::NONE,
            growing_end: RangeKey::NONE,
        }
    }

    /// The entries, dead ones included.
    pub(super) fn entry_count(&self) -> usize {
        self.bucket.len() - self.range_count
    }

    /// The ranges, those without a timer included.
    #[inline]
    pub(super) fn range_count(&self) -> usize {
        self.range_count + usize::from(self.grows())
    }

    #[inline]
    pub(super) fn push(&mut self, entry: TimerEntry, spare: &mut Spare) {
        if self.grows() {
            self.close_range(spare);
        }
        self.bucket.push(entry, spare);
    }

    /// Adds a timer without an entry, if its slot continues the range that grows.
    #[inline]
    pub(super) fn grow_range(&mut self, key: RangeKey) -> bool {
        let continues = key == self.growing_end;
        if continues {
            self.growing_end = key.next();
        }
        continues
    }

    /// Whether the slot with this key is the last of the range that grows.
    pub(super) fn ends_with(&self, key: RangeKey) -> bool {
        key.next() == self.growing_end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bucket.is_empty() && !self.grows()
    }

    /// Adds a block of entries.
    pub(super) fn append(&mut self, block: Box<EntryBlock>, spare: &mut Spare) {
        debug_assert!(!self.grows());
        self.bucket.append(block, spare);
    }

    /// Whether so many slots of the ranges are empty that a look at all of them
    /// is too long for the timers in them.
    pub(super) fn is_sparse(&self, slots: &impl RangedSlots) -> bool {
        self.range_slots > SPARSE_RATIO * slots.ranged() + SPARSE_MIN
    }

    /// Takes all live timers out, in order of insertion; each has an entry then.
    pub(super) fn drain(
        &mut self,
        slots: &mut impl RangedSlots,
        spare: &mut Spare,
        mut give: impl FnMut(TimerEntry, &mut Spare),
    ) {
        self.drain_items(spare, |item, spare| match SlotRange::of_entry(item) {
            Some(range) => slots.leave_range(range, u64::MAX, |entry| give(entry, spare)),
            None if slots.is_live(item) => give(item, spare),
            None => {}
        });
    }

    /// The same, into `entries`.
    pub(super) fn drain_into(
        &mut self,
        entries: &mut Vec<TimerEntry>,
        slots: &mut impl RangedSlots,
        spare: &mut Spare,
    ) {
        self.drain_items(spare, |item, _| match SlotRange::of_entry(item) {
            Some(range) => slots.leave_whole_range(range, entries),
            None if slots.is_live(item) => entries.push(item),
            None => {}
        });
    }

    /// Takes all out, entries and ranges in the form of entries.
    fn drain_items(&mut self, spare: &mut Spare, mut give: impl FnMut(TimerEntry, &mut Spare)) {
        let growing = self.grows().then(|| self.growing().to_entry());
        self.growing_end = RangeKey::NONE;
        let mut items = mem::take(&mut self.bucket);
        (self.range_count, self.range_slots) = (0, 0);
        while let Some(block) = items.take_block() {
            block.entries().iter().for_each(|item| give(*item, spare));
            spare.put(block);
        }
        growing.into_iter().for_each(|range| give(range, spare));
    }

    /// Moves all ranges into `ranges`, in order of insertion; there must be nothing else.
    pub(super) fn take_ranges(&mut self, ranges: &mut Vec<SlotRange>, spare: &mut Spare) {
        debug_assert_eq!(self.entry_count(), 0);
        ranges.clear();
        self.drain_items(spare, |item, _| ranges.extend(SlotRange::of_entry(item)));
    }

    /// Whether there are only ranges, and few of them.
    pub(super) fn has_few_ranges(&self) -> bool {
        self.entry_count() == 0 && self.range_count() <= RANGES_MAX
    }

    /// Takes all out, if there are only entries.
    pub(super) fn take_entries(&mut self) -> Option<Bucket> {
        (self.range_count() == 0).then(|| mem::take(&mut self.bucket))
    }

    /// A deadline before which none is, and one after which none is.
    pub(super) fn bounds(&mut self, slots: &impl RangedSlots, spare: &mut Spare) -> (u64, u64) {
        self.close_range(spare);
        let mut bounds = (u64::MAX, 0);
        let widen = |(first, last): (u64, u64), at: &u64| (first.min(*at), last.max(*at));
        self.bucket.for_each(|item| {
            let deadlines = match SlotRange::of_entry(item) {
                Some(range) => slots.deadlines_ns(range),
                None => &[item.deadline_ns],
            };
            bounds = deadlines.iter().fold(bounds, widen);
        });
        bounds
    }

    /// Takes the live timers up to `last_ns` out, which are expected to be few.
    pub(super) fn take_until(
        &mut self,
        last_ns: u64,
        slots: &mut impl RangedSlots,
        spare: &mut Spare,
    ) -> Bucket {
        self.close_range(spare);
        let (mut early, mut all) = (Bucket::new(), mem::take(&mut self.bucket));
        while let Some(mut block) = all.take_block() {
            block.retain_entries(|item| match SlotRange::of_entry(item) {
                Some(range) => {
                    slots.leave_range(range, last_ns, |entry| early.push(entry, spare));
                    true
                }
                None if item.deadline_ns > last_ns => true,
                None => {
                    if slots.is_live(item) {
                        early.push(item, spare);
                    }
                    false
                }
            });
            self.bucket.append(block, spare);
        }
        early
    }

    /// The earliest timer, [`TimerEntry::NONE`] if there is none.
    pub(super) fn earliest(&self, slots: &impl RangedSlots) -> TimerEntry {
        let mut first = TimerEntry::NONE;
        self.bucket.for_each(|item| {
            let found = match SlotRange::of_entry(item) {
                Some(range) => slots.earliest(range),
                None => item,
            };
            // Mostly it is later, and then its slot, which may be far away, is not read.
            if first.earlier(found) != first && slots.is_live(found) {
                first = found;
            }
        });
        match self.grows() {
            true => first.earlier(slots.earliest(self.growing())),
            false => first,
        }
    }

    /// How many timers it has, and empty slots of ranges.
    pub(super) fn place_count(&self) -> usize {
        let growing = if self.grows() { self.growing().len } else { 0 };
        self.entry_count() + self.range_slots + growing
    }

    /// The latest deadline among the timers added last; 0 if there is none.
    pub(super) fn newest_last_ns(&self, slots: &impl RangedSlots) -> u64 {
        let in_ranges = [self.bucket.newest(), &[self.growing().to_entry()]];
        let newest = in_ranges.into_iter().flatten().map(|item| {
            let Some(range) = SlotRange::of_entry(*item) else {
                return item.deadline_ns;
            };
            let deadlines = slots.deadlines_ns(range);
            let some = deadlines.iter().rev().take(SAMPLE_LEN);
            some.copied().max().unwrap_or(0)
        });
        newest.max().unwrap_or(0)
    }

    /// Removes all, because no timer is left.
    pub(super) fn clear(&mut self, spare: &mut Spare) {
        while let Some(block) = self.bucket.take_block() {
            spare.put(block);
        }
        self.growing_end = RangeKey::NONE;
        (self.range_count, self.range_slots) = (0, 0);
    }

    #[inline]
    fn grows(&self) -> bool {
        self.growing_end != RangeKey::NONE
    }

    /// The range that grows, if there is one.
    fn growing(&self) -> SlotRange {
        SlotRange::new(self.growing, self.growing_begin, self.growing_end)
    }

    /// Adds a timer without an entry, which begins a new range.
    pub(super) fn begin_range(&mut self, key: RangeKey, slot: u32, spare: &mut Spare) {
        if self.grows() {
            self.close_range(spare);
        }
        self.growing = slot;
        self.growing_begin = key;
        self.growing_end = key.next();
    }

    /// Puts the range that grows behind the others.
    #[inline(never)]
    fn close_range(&mut self, spare: &mut Spare) {
        if !self.grows() {
            return;
        }
        let range = self.growing();
        self.bucket.push(range.to_entry(), spare);
        self.range_count += 1;
        self.range_slots += range.len;
        self.growing_end = RangeKey::NONE;
    }
}

/// With more slots than this for each timer in a range, and a few more, ranges
/// are sparse.
const SPARSE_RATIO: usize = 8;
const SPARSE_MIN: usize = 1024;
/// So many ranges are few.
const RANGES_MAX: usize = 16;
/// How many of the newest timers are looked at.
const SAMPLE_LEN: usize = 32;
