use super::{
    bucket::{Bucket, EntryBlock, Spare},
    entry::{AllLive, Liveness, TimerEntry},
    first_timer::FirstTimer,
    places::{PLACES_MIN, WHOLE_MAX},
    ranges::{RangeKey, RangedSlots, SlotRange},
    run::{LEN_MAX, Run},
    rung::{Rung, RungNext},
    slot_list::SlotList,
    top::Top,
};
use std::{mem, ops::Range};

/// The waiting timers in order: by deadline, then by insertion.
///
/// The next timers are sorted in the run. Later ones are in the buckets of
/// rungs, the finest rung last; each rung covers the time from the end of the
/// rungs after it. The top holds everything later than the rungs. Entries with
/// one deadline are always together and in order of insertion.
#[derive(Debug)]
pub(in crate::timer) struct DeadlineOrder {
    /// The earliest live timer, unless it is not known.
    first: FirstTimer,
    /// The number of entries, dead ones included, without ranges.
    len: usize,
    /// Deadlines from here on belong to the top; 0 while there is nothing else.
    top_start_ns: u64,
    top: Top,
    /// How many entries the next split of the top takes out.
    split_len: usize,
    /// Whether a timer was added below the top since that was opened.
    was_below_top: bool,
    rungs: Vec<Rung>,
    run: Run,
    spare: Spare,
    /// The buckets of rungs that were used up.
    spare_buckets: Vec<Vec<Bucket>>,
    /// The memory for the ranges of a top that is sorted at once.
    few_ranges: Vec<SlotRange>,
    /// The memory of a list of slots that was used up.
    spare_list: SlotList,
}

impl DeadlineOrder {
    pub(in crate::timer) const fn new() -> Self {
        Self {
            first: FirstTimer::none(),
            len: 0,
            top_start_ns: 0,
            top: Top::new(),
            split_len: SPLIT_LEN_MIN,
            was_below_top: false,
            rungs: Vec::new(),
            run: Run::new(),
            spare: Spare::new(),
            spare_buckets: Vec::new(),
            few_ranges: Vec::new(),
            spare_list: SlotList::new(),
        }
    }

    /// The number of entries, dead ones included.
    #[inline]
    pub(in crate::timer) fn len(&self) -> usize {
        self.len
    }

    /// The number of ranges, which take as much memory as entries.
    #[inline]
    pub(super) fn range_count(&self) -> usize {
        self.top.range_count()
    }

    /// The slots that are listed in a rung, also of timers that have left them.
    pub(super) fn listed_count(&self) -> usize {
        self.rungs.first().map_or(0, |rung| rung.listed().len())
    }

    /// The earliest live entry.
    #[inline]
    pub(in crate::timer) fn first(&self, slots: &impl RangedSlots) -> Option<TimerEntry> {
        let first = self.first.known();
        let first = first.unwrap_or_else(|| self.look_for_first(slots));
        (!first.is_none()).then_some(first)
    }

    #[cold]
    #[inline(never)]
    fn look_for_first(&self, slots: &impl RangedSlots) -> TimerEntry {
        self.first.keep(self.top.earliest(slots))
    }

    /// Whether the earliest entry is known to be of this slot.
    #[inline]
    pub(super) fn is_first(&self, slot: u32) -> bool {
        self.first.is_in(slot)
    }

    /// Whether a timer with this deadline may wait in a range.
    #[inline]
    pub(super) fn is_late(&self, deadline_ns: u64) -> bool {
        deadline_ns >= self.top_start_ns
    }

    #[inline]
    pub(in crate::timer) fn insert(&mut self, entry: TimerEntry) {
        self.first.compare(entry);
        self.len += 1;
        if self.is_late(entry.deadline_ns) {
            self.top.push(entry, &mut self.spare);
        } else {
            self.insert_below_top(entry);
        }
    }

    /// Inserts a late timer that waits in its slot, without the entry, if the slot
    /// continues the range that grows; otherwise [`DeadlineOrder::begin_range`]
    /// must follow.
    #[inline]
    pub(super) fn grow_range(&mut self, entry: TimerEntry, key: RangeKey) -> bool {
        self.first.compare(entry);
        self.top.grow_range(key)
    }

    /// Begins a range with the slot of a timer that is in none; whether it did,
    /// since the slot with that key is not in the range that grows.
    pub(super) fn begin_range(&mut self, key: RangeKey, slot: u32) -> bool {
        let begins = !self.top.ends_with(key);
        if begins {
            self.top.begin_range(key, slot, &mut self.spare);
        }
        begins
    }

    /// Whether the earliest entry is not yet sorted; it may be unknown.
    #[inline]
    pub(super) fn is_unsorted(&self) -> bool {
        self.run.len() == 0
    }

    /// Removes the earliest entry, if it is sorted and due up to `last_ns`;
    /// [`DeadlineOrder::find_first`] must follow.
    #[inline]
    pub(in crate::timer) fn pop_until(&mut self, last_ns: u64) -> Option<TimerEntry> {
        let earliest = self.run.pop_until(last_ns)?;
        self.len -= 1;
        Some(earliest)
    }

    /// Finds the earliest entry, after the previous one was popped or has died; whether
    /// there is one.
    ///
    /// A caller that knows that no entry is dead passes the slots in
    /// [`NoneDead`](super::entry::NoneDead), which saves a look at each slot.
    #[inline]
    pub(super) fn find_first(&mut self, slots: &mut impl RangedSlots) -> bool {
        self.len -= self.run.drop_dead(slots);
        let Some(last) = self.run.last() else {
            return self.fill_run(slots);
        };
        self.first.set(last);
        true
    }

    /// Fills an empty run with the next entries, and finds the earliest in it.
    #[inline(never)]
    fn fill_run(&mut self, slots: &mut impl RangedSlots) -> bool {
        while self.refill(slots) {
            self.len -= self.run.drop_dead(slots);
            if let Some(last) = self.run.last() {
                self.first.set(last);
                return true;
            }
        }
        self.clear();
        false
    }

    /// Finds the earliest entry if the previous one has died. Among a few unsorted
    /// timers nobody looks for it before it is asked for, the first time.
    pub(super) fn replace_first(&mut self, slots: &mut impl RangedSlots) {
        let few = self.top.place_count() <= LOOK_MAX;
        let Some(first) = self.first.known() else {
            if !few {
                _ = self.first(slots);
            }
            return;
        };
        if slots.is_live(first) {
            return;
        }
        self.len -= self.run.drop_dead(slots);
        if self.is_unsorted() && self.rungs.is_empty() {
            if few && !self.first.was_looked_for() {
                // All timers are in the top, so earlier ones may go there too.
                self.top_start_ns = 0;
                return self.first.forget();
            }
            if self.top.entry_count() + slots.ranged() > SORTED_MAX {
                self.split_top(first.deadline_ns, slots);
            }
        }
        _ = self.find_first(slots);
    }

    /// Takes all timers out of the top; each has an entry then.
    fn take_top(&mut self, slots: &mut impl RangedSlots) -> Bucket {
        if let Some(entries) = self.top.take_entries() {
            return entries;
        }
        self.len -= self.top.entry_count();
        let mut entries = Bucket::new();
        let push = |entry, spare: &mut Spare| entries.push(entry, spare);
        self.top.drain(slots, &mut self.spare, push);
        self.len += entries.len();
        entries
    }

    /// Drops every dead entry. What is left is unsorted again.
    #[cold]
    pub(super) fn purge(&mut self, slots: &mut impl RangedSlots) {
        let mut all = Bucket::new();
        for entry in self.run.drain() {
            all.push(entry, &mut self.spare);
        }
        while let Some(rung) = self.rungs.pop() {
            self.move_listed(rung.listed(), slots, &mut all);
            self.move_all(rung, &mut all);
        }
        let mut first = TimerEntry::NONE;
        let mut top = self.take_top(slots);
        self.top_start_ns = 0;
        for bucket in [&mut all, &mut top] {
            while let Some(mut block) = bucket.take_block() {
                self.len -= block.retain(slots);
                first = block
                    .entries()
                    .iter()
                    .copied()
                    .fold(first, TimerEntry::earlier);
                self.top.append(block, &mut self.spare);
            }
        }
        self.first.restart(first);
        self.split_len = SPLIT_LEN_MIN;
        self.trim();
    }

    /// Removes all entries, because none is live.
    pub(super) fn clear(&mut self) {
        self.first.restart(TimerEntry::NONE);
        self.len = 0;
        self.top_start_ns = 0;
        self.run.clear();
        self.top.clear(&mut self.spare);
        self.split_len = SPLIT_LEN_MIN;
        // Mostly there are none: few timers are in the top or in the run.
        while !self.rungs.is_empty() {
            self.drop_rung();
        }
        self.spare_buckets.truncate(1);
        self.spare.trim(0);
    }

    /// Keeps as many spare blocks as the entries may soon need.
    fn trim(&mut self) {
        self.spare.trim(self.len());
    }

    /// Takes the few earliest entries out of an unsorted top. If most timers
    /// are cancelled, the others never need to be sorted.
    ///
    /// Each split takes more than the one before, so that there are few if the
    /// timers are cancelled in their order. None is due before `from_ns`.
    fn split_top(&mut self, from_ns: u64, slots: &mut impl RangedSlots) {
        if self.top.is_sparse(slots) {
            let mut entries = self.take_top(slots);
            while let Some(block) = entries.take_block() {
                self.top.append(block, &mut self.spare);
            }
        }
        let before = self.top.entry_count();
        let span_ns = self.top.newest_last_ns(slots).saturating_sub(from_ns);
        let parts = (before + slots.ranged()) / self.split_len;
        let last_ns = from_ns + span_ns / parts.max(1) as u64;
        let early = self.top.take_until(last_ns, slots, &mut self.spare);
        self.len = self.len - before + self.top.entry_count() + early.len();
        self.split_len = self.split_len.saturating_mul(SPLIT_GROWTH);
        self.top_start_ns = last_ns.saturating_add(1);
        self.open(early, LEN_MAX, slots);
        self.trim();
    }

    #[inline(never)]
    fn insert_below_top(&mut self, entry: TimerEntry) {
        self.was_below_top = true;
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
        // Listed slots stay where they are: they are many, and have no entries.
        let is_short = |rung: &Rung, len| rung.listed().len() == 0 && rung.len() <= 2 * len;
        while (self.rungs.last()).is_some_and(|rung| is_short(rung, all.len())) {
            let Some(rung) = self.rungs.pop() else { break };
            self.move_all(rung, &mut all);
        }
        self.push_rung(all, &AllLive);
    }

    /// Puts the next entries into the run, or splits their time into finer
    /// buckets; `false` if there are none.
    fn refill(&mut self, slots: &mut impl RangedSlots) -> bool {
        let Some(rung) = self.rungs.last_mut() else {
            return self.open_top(slots);
        };
        match rung.next(LEN_MAX) {
            None => {
                self.drop_rung();
            }
            Some(RungNext::Bucket(bucket)) => {
                self.open(bucket, LEN_MAX, slots);
            }
            Some(RungNext::Slots(range, bucket)) => self.open_listed(range, bucket, slots),
            Some(RungNext::Equal(block)) => {
                self.gather(block, slots);
                self.run.fill();
            }
        }
        self.trim();
        true
    }

    fn open_top(&mut self, slots: &mut impl RangedSlots) -> bool {
        if self.top.is_empty() {
            return false;
        }
        // Timers that are added to a long run make it a rung. So if some were added below the
        // last top, few timers are sorted at once.
        let many = if mem::take(&mut self.was_below_top) {
            LEN_MAX
        } else {
            WHOLE_MAX
        };
        let last_ns = match self.top.take_entries() {
            Some(entries) => self.open(entries, many, slots),
            None => self.open_ranges(many, slots),
        };
        // From now on, entries with the last deadline may go to the top, since
        // they come after those already there.
        self.top_start_ns = last_ns;
        true
    }

    /// Does the same as [`DeadlineOrder::open`] with a top that has ranges.
    fn open_ranges(&mut self, many: usize, slots: &mut impl RangedSlots) -> u64 {
        let entry_count = self.top.entry_count();
        let count = entry_count + slots.ranged();
        self.len -= entry_count;
        let has_places = (PLACES_MIN..=many).contains(&count) && self.top.has_few_ranges();
        if has_places && count == self.top.place_count() {
            self.top.take_ranges(&mut self.few_ranges, &mut self.spare);
            self.run.fill_from(count, &self.few_ranges, slots);
            self.len += self.run.len();
            return self.run.latest_ns();
        }
        if count <= many {
            let gathered = self.run.gathered();
            gathered.reserve(count);
            self.top.drain_into(gathered, slots, &mut self.spare);
            self.run.fill();
            self.len += self.run.len();
            return self.run.latest_ns();
        }
        let (first_ns, last_ns) = self.top.bounds(slots, &mut self.spare);
        let buckets = self.spare_buckets.pop().unwrap_or_default();
        let mut rung = Rung::new(first_ns, last_ns, count, buckets);
        let has_entries = entry_count > 0;
        if count > LISTED_MIN && last_ns < u64::MAX && !has_entries && !self.top.is_sparse(slots) {
            let mut ranges = Vec::with_capacity(self.top.range_count());
            self.top.take_ranges(&mut ranges, &mut self.spare);
            let visit_all = |visit: &mut dyn FnMut(&[u64], u32)| {
                let ranges = ranges.iter();
                ranges.for_each(|range| visit(slots.deadlines_ns(*range), range.first));
            };
            rung.list_slots(mem::take(&mut self.spare_list), visit_all);
            self.rungs.push(rung);
            // A slot with a later deadline is in no list.
            return last_ns + 1;
        }
        let push = |entry, spare: &mut Spare| rung.push(entry, spare);
        self.top.drain(slots, &mut self.spare, push);
        self.len += rung.len();
        self.rungs.push(rung);
        last_ns
    }

    /// Does the same as [`DeadlineOrder::open`] with the listed slots of a bucket,
    /// and with the entries that were added to it.
    fn open_listed(
        &mut self,
        range: Range<usize>,
        mut later: Bucket,
        slots: &mut impl RangedSlots,
    ) {
        let Some(rung) = self.rungs.last() else {
            return;
        };
        let (listed, last_ns) = (rung.listed().slots(range), rung.listed().last_ns());
        let entries = listed
            .iter()
            .filter_map(|slot| slots.leave_slot(*slot, last_ns));
        if listed.len() + later.len() <= LEN_MAX {
            let gathered = self.run.gathered();
            let before = gathered.len();
            gathered.extend(entries);
            self.len += gathered.len() - before;
            while let Some(block) = later.take_block() {
                self.gather(block, slots);
            }
            return self.run.fill();
        }
        let mut all = Bucket::new();
        entries.for_each(|entry| all.push(entry, &mut self.spare));
        self.len += all.len();
        while let Some(block) = later.take_block() {
            all.append(block, &mut self.spare);
        }
        self.open(all, LEN_MAX, slots);
    }

    /// Gives entries to the listed timers that are left.
    fn move_listed(&mut self, listed: &SlotList, slots: &mut impl RangedSlots, all: &mut Bucket) {
        let before = all.len();
        for slot in listed.rest() {
            if let Some(entry) = slots.leave_slot(*slot, listed.last_ns()) {
                all.push(entry, &mut self.spare);
            }
        }
        self.len += all.len() - before;
    }

    /// Sorts a bucket, or splits it into finer ones if it has more than `many` entries;
    /// returns the latest deadline in it.
    fn open(&mut self, mut bucket: Bucket, many: usize, live: &impl Liveness) -> u64 {
        if bucket.len() > many {
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
        self.run.gathered().extend_from_slice(block.entries());
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

    /// The buckets of a rung; the memory of its list is kept for the next one.
    fn take_apart(&mut self, rung: Rung) -> Vec<Bucket> {
        let (listed, buckets) = rung.into_parts();
        if listed.has_memory() {
            self.spare_list = listed.into_memory();
        }
        buckets
    }

    /// Moves what is left of a rung behind the entries of `all`.
    fn move_all(&mut self, rung: Rung, all: &mut Bucket) {
        let mut buckets = self.take_apart(rung);
        for bucket in &mut buckets {
            while let Some(block) = bucket.take_block() {
                all.append(block, &mut self.spare);
            }
        }
        self.keep_buckets(buckets);
    }

    fn drop_rung(&mut self) {
        let Some(rung) = self.rungs.pop() else {
            return;
        };
        let mut buckets = self.take_apart(rung);
        for bucket in &mut buckets {
            while let Some(block) = bucket.take_block() {
                self.spare.put(block);
            }
        }
        self.keep_buckets(buckets);
    }

    fn keep_buckets(&mut self, buckets: Vec<Bucket>) {
        if self.spare_buckets.len() < SPARE_BUCKETS_MAX {
            self.spare_buckets.push(buckets);
        }
    }
}

/// An unsorted top of more timers than this is not sorted as a whole when the
/// earliest is cancelled.
const SORTED_MAX: usize = 32;
/// While more unsorted timers than this are there, a cancel of the earliest finds the next one.
const LOOK_MAX: usize = 16_384;
/// How many timers the first split takes out of an unsorted top, and by how much
/// that grows.
const SPLIT_LEN_MIN: usize = 16;
const SPLIT_GROWTH: usize = 4;
/// Of more timers than this the slots are listed by bucket, with four bytes each;
/// fewer get their entries at once, which stay in the caches.
const LISTED_MIN: usize = 4096;
/// A run longer than this makes room by becoming a rung.
const RUN_LEN_MAX: usize = 2 * LEN_MAX;
const SPARE_BUCKETS_MAX: usize = 4;
