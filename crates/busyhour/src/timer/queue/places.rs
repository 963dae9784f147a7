use super::entry::TimerEntry;

/// Where entries go in a sorted run, by their deadlines alone.
///
/// The time between the first and the last deadline is cut into about as many parts as there are
/// entries. Each part has as many places as entries, the part of the latest first.
pub(super) struct Places {
    last_ns: u64,
    /// A part is `1 << shift` nanoseconds long.
    shift: u32,
    parts: usize,
    /// One more than the last free place of each part.
    ends: [u16; WHOLE_MAX],
}

impl Places {
    /// For `count` entries with deadlines in these bounds, up to [`WHOLE_MAX`].
    #[inline]
    pub(super) fn new(count: usize, bounds: Bounds) -> Self {
        let parts = count.next_power_of_two().min(WHOLE_MAX);
        let span_ns = bounds.last_ns.saturating_sub(bounds.first_ns);
        let span_bits = u64::BITS - span_ns.leading_zeros();
        Self {
            last_ns: bounds.last_ns,
            shift: span_bits.saturating_sub(parts.ilog2()),
            parts,
            ends: [0; WHOLE_MAX],
        }
    }

    /// Makes room for all entries with these deadlines; `false` if too many are close together.
    #[inline]
    pub(super) fn make_room(&mut self, deadlines: impl Iterator<Item = u64>) -> bool {
        deadlines.for_each(|deadline_ns| self.ends[self.part(deadline_ns)] += 1);
        // The bits of all counts: below the power of two if each is.
        let (mut end, mut bits) = (0, 0);
        for count in &mut self.ends[..self.parts] {
            bits |= *count;
            end += *count;
            *count = end;
        }
        bits < NEAR_LIMIT
    }

    /// As many entries as there is room for, to be replaced by [`Places::put`].
    pub(super) fn prepare(count: usize, sorted: &mut Vec<TimerEntry>) {
        debug_assert!(sorted.is_empty());
        sorted.resize(count, TimerEntry::new(0, 0, 0));
    }

    /// Puts the next entry, in order of insertion, near its place.
    #[inline]
    pub(super) fn put(&mut self, entry: TimerEntry, sorted: &mut [TimerEntry]) {
        let end = &mut self.ends[self.part(entry.deadline_ns)];
        *end -= 1;
        sorted[usize::from(*end)] = entry;
    }

    #[inline]
    fn part(&self, deadline_ns: u64) -> usize {
        ((self.last_ns - deadline_ns) >> self.shift) as usize % WHOLE_MAX
    }
}

/// The earliest and the latest deadline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

impl Bounds {
    #[inline]
    pub(super) fn of(deadlines: impl Iterator<Item = u64>) -> Self {
        let widen = |(first, last): (u64, u64), at: u64| (first.min(at), last.max(at));
        let (first_ns, last_ns) = deadlines.fold((u64::MAX, 0), widen);
        Self { first_ns, last_ns }
    }
}

/// Sorts entries that are near their places, the latest first; equal ones stay in their order.
pub(super) fn sort_nearly_sorted(entries: &mut [TimerEntry]) {
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
/// Fewer entries are sorted sooner otherwise.
pub(super) const PLACES_MIN: usize = 40;
/// A part has fewer entries, since each may be moved past all others of its part; a power of two.
const NEAR_LIMIT: u16 = 16;
