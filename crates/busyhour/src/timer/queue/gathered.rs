use super::{
    entry::TimerEntry,
    places::{Bounds, PLACES_MIN, Places, WHOLE_MAX, sort_nearly_sorted},
    ranges::{RangedSlots, SlotRange},
    run::LEN_MAX,
};

/// Entries on their way into the run, in order of insertion.
#[derive(Debug)]
pub(super) struct Gathered {
    entries: Vec<TimerEntry>,
    /// The keys by which they are sorted, see [`Gathered::sort_by_keys`].
    keys: Vec<u64>,
}

impl Gathered {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// For those who add entries; [`Gathered::sort_into`] takes up to [`WHOLE_MAX`].
    pub(super) fn entries(&mut self) -> &mut Vec<TimerEntry> {
        &mut self.entries
    }

    /// Moves the entries into `sorted`, which must be empty: by deadline, then by
    /// insertion, the earliest last.
    pub(super) fn sort_into(&mut self, sorted: &mut Vec<TimerEntry>) {
        let bounds = Bounds::of(self.entries.iter().map(|entry| entry.deadline_ns));
        if self.entries.len() < PLACES_MIN || !self.scatter_into(bounds, sorted) {
            self.sort_by_keys(bounds, sorted);
        }
        self.entries.clear();
        if self.entries.capacity() > KEPT_MAX {
            *self = Self::new();
        }
    }

    /// Sorts in about as many steps as there are entries, if the deadlines are spread evenly;
    /// `false` if too many are close together.
    fn scatter_into(&self, bounds: Bounds, sorted: &mut Vec<TimerEntry>) -> bool {
        let entries = &self.entries[..];
        let mut places = Places::new(entries.len(), bounds);
        let has_room = places.make_room(entries.iter().map(|entry| entry.deadline_ns));
        if has_room {
            Places::prepare(entries.len(), sorted);
            for entry in entries {
                places.put(*entry, sorted);
            }
            sort_nearly_sorted(sorted);
        }
        has_room
    }

    /// Moves the timers of these ranges into `sorted`, which must be empty, like
    /// [`Gathered::sort_into`]. Each slot has a timer, and
    /// all together have `count`, [`PLACES_MIN`] to [`WHOLE_MAX`].
    pub(super) fn sort_ranges_into(
        &mut self,
        sorted: &mut Vec<TimerEntry>,
        count: usize,
        ranges: &[SlotRange],
        slots: &mut impl RangedSlots,
    ) {
        let slices = || ranges.iter().map(|range| slots.deadlines_ns(*range));
        let deadlines = || slices().flatten().copied();
        let mut places = Places::new(count, Bounds::of(deadlines()));
        if !places.make_room(deadlines()) {
            for range in ranges {
                slots.leave_whole_range(*range, &mut self.entries);
            }
            return self.sort_into(sorted);
        }
        Places::prepare(count, sorted);
        for range in ranges {
            slots.leave_for_places(*range, &mut places, sorted);
        }
        sort_nearly_sorted(sorted);
    }

    /// Sorts by keys: the entries' indices in the low bits, and the deadlines' distances from
    /// the first in the others.
    ///
    /// That leaves 54 bits for a distance, half a year; a wider span is sorted by looking the
    /// deadlines up.
    fn sort_by_keys(&mut self, bounds: Bounds, sorted: &mut Vec<TimerEntry>) {
        let (first_ns, entries) = (bounds.first_ns, &self.entries[..]);
        self.keys.clear();
        if bounds.last_ns.saturating_sub(first_ns) < u64::MAX / WHOLE_MAX as u64 {
            let key = |(index, entry): (usize, &TimerEntry)| {
                (entry.deadline_ns - first_ns) * WHOLE_MAX as u64 + index as u64
            };
            self.keys.extend(entries.iter().enumerate().map(key));
            self.keys.sort_unstable();
        } else {
            self.keys.extend(0..entries.len() as u64);
            let key = |&index: &u64| (entries[index as usize].deadline_ns, index);
            self.keys.sort_unstable_by_key(key);
        }
        let earliest_last = self.keys.iter().rev();
        sorted.extend(earliest_last.map(|&key| entries[key as usize % WHOLE_MAX]));
    }
}

/// Memory for more entries is returned.
const KEPT_MAX: usize = 2 * LEN_MAX;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Deadlines that are spread evenly, close together, equal, or far apart.
    fn deadlines() -> impl Strategy<Value = Vec<u64>> {
        let one = prop_oneof![
            Just((0..60_000_000_000u64).boxed()),
            Just((0..700u64).boxed()),
            Just(prop_oneof![0..50u64, Just(1 << 40)].boxed()),
            Just((0..3u64).boxed()),
            Just(any::<u64>().boxed()),
        ];
        one.prop_flat_map(|one| prop::collection::vec(one, 0..=WHOLE_MAX))
    }

    proptest! {
        #[test]
        fn entries_are_sorted_by_deadline_then_by_insertion(deadlines in deadlines()) {
            let entry = |(slot, at): (u32, &u64)| TimerEntry::new(*at, slot, 0);
            let mut expected: Vec<TimerEntry> = (0..).zip(&deadlines).map(entry).collect();
            let (mut gathered, mut sorted) = (Gathered::new(), Vec::new());
            gathered.entries().extend(&expected);
            gathered.sort_into(&mut sorted);
            expected.sort_by_key(|entry| entry.deadline_ns);
            expected.reverse();
            prop_assert_eq!(&sorted, &expected);
            prop_assert!(gathered.entries().is_empty());
        }
    }

    fn bounds(gathered: &Gathered) -> Bounds {
        Bounds::of(gathered.entries.iter().map(|entry| entry.deadline_ns))
    }

    #[test]
    fn evenly_spread_entries_are_not_sorted_by_keys() {
        let mut gathered = Gathered::new();
        let spread = (0..WHOLE_MAX as u64).map(|n| TimerEntry::new(n * 7 % 1024, n as u32, 0));
        gathered.entries().extend(spread);
        let mut sorted = Vec::new();
        assert!(gathered.scatter_into(bounds(&gathered), &mut sorted));
        assert!(sorted.is_sorted_by(|later, earlier| later.deadline_ns > earlier.deadline_ns));
        gathered.entries().push(TimerEntry::new(u64::MAX, 0, 0));
        assert!(!gathered.scatter_into(bounds(&gathered), &mut sorted));
    }
}
