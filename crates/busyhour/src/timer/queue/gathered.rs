use super::{entry::TimerEntry, run::LEN_MAX};

/// Entries on their way into the run, in order of insertion.
#[derive(Debug)]
pub(super) struct Gathered {
    entries: Vec<TimerEntry>,
    /// The keys by which they are sorted, see [`Gathered::sort_by_keys`].
    keys: Vec<u64>,
}

/// The earliest and the latest deadline of some entries.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    first_ns: u64,
    last_ns: u64,
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
        let bounds = self.bounds();
        if self.entries.len() < SCATTERED_MIN || !self.scatter_into(bounds, sorted) {
            self.sort_by_keys(bounds, sorted);
        }
        self.entries.clear();
        if self.entries.capacity() > KEPT_MAX {
            *self = Self::new();
        }
    }

    fn bounds(&self) -> Bounds {
        let deadlines = self.entries.iter().map(|entry| entry.deadline_ns);
        let widen = |(first, last): (u64, u64), at: u64| (first.min(at), last.max(at));
        let (first_ns, last_ns) = deadlines.fold((u64::MAX, 0), widen);
        Bounds { first_ns, last_ns }
    }

    /// Puts each entry near its place by its deadline alone, and then to its place. With
    /// deadlines that are spread evenly that takes about as many steps as there are entries.
    /// `false` if too many are close together.
    fn scatter_into(&self, bounds: Bounds, sorted: &mut Vec<TimerEntry>) -> bool {
        let Bounds { first_ns, last_ns } = bounds;
        let parts = self.entries.len().next_power_of_two().min(WHOLE_MAX);
        let span_bits = u64::BITS - (last_ns - first_ns).leading_zeros();
        let shift = span_bits.saturating_sub(parts.ilog2());
        let part =
            |entry: &TimerEntry| ((last_ns - entry.deadline_ns) >> shift) as usize % WHOLE_MAX;
        // How many entries a part has, then where its next entry goes.
        let mut places = [0u16; WHOLE_MAX];
        let counted = self.entries.iter();
        counted.for_each(|entry| places[part(entry)] += 1);
        let (mut begin, mut most) = (0, 0);
        for place in &mut places[..parts] {
            most = most.max(*place);
            (*place, begin) = (begin, begin + *place);
        }
        if most > NEAR_MAX {
            return false;
        }
        sorted.resize(self.entries.len(), TimerEntry::NONE);
        for entry in self.entries.iter().rev() {
            let place = &mut places[part(entry)];
            sorted[usize::from(*place)] = *entry;
            *place += 1;
        }
        sort_nearly_sorted(sorted);
        true
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

/// Sorts entries that are near their places, the latest first; equal ones stay in their order.
fn sort_nearly_sorted(entries: &mut [TimerEntry]) {
    for index in 1..entries.len() {
        let entry = entries[index];
        let mut at = index;
        while at > 0 && entries[at - 1].deadline_ns < entry.deadline_ns {
            entries[at] = entries[at - 1];
            at -= 1;
        }
        entries[at] = entry;
    }
}

/// As many entries can be sorted at once.
pub(super) const WHOLE_MAX: usize = 1024;
/// Fewer are sorted sooner by their keys.
const SCATTERED_MIN: usize = 40;
/// If a part has more entries, they are sorted by their keys: each may be moved past all others
/// of its part.
const NEAR_MAX: u16 = 8;
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

    #[test]
    fn evenly_spread_entries_are_not_sorted_by_keys() {
        let mut gathered = Gathered::new();
        let spread = (0..WHOLE_MAX as u64).map(|n| TimerEntry::new(n * 7 % 1024, n as u32, 0));
        gathered.entries().extend(spread);
        let mut sorted = Vec::new();
        assert!(gathered.scatter_into(gathered.bounds(), &mut sorted));
        assert!(sorted.is_sorted_by(|later, earlier| later.deadline_ns > earlier.deadline_ns));
        gathered.entries().push(TimerEntry::new(u64::MAX, 0, 0));
        assert!(!gathered.scatter_into(gathered.bounds(), &mut sorted));
    }
}
