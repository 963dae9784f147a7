use std::ops::Range;

/// Slots of timers without entries, by the bucket that their deadlines belong to,
/// and in a bucket in order of insertion.
///
/// A slot stays in the list when its timer leaves it. Another timer that comes
/// into it waits elsewhere, since it is due after [`SlotList::last_ns`] or has an
/// entry.
#[derive(Debug, Default)]
pub(in crate::timer) struct SlotList {
    slots: Vec<u32>,
    /// Where the slots of each bucket end.
    ends: Vec<u32>,
    /// Where those that are left begin.
    begin: usize,
    last_ns: u64,
}

impl SlotList {
    /// A list of no slots.
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            ends: Vec::new(),
            begin: 0,
            last_ns: 0,
        }
    }

    pub(super) fn has_memory(&self) -> bool {
        self.slots.capacity() > 0
    }

    /// The list of these slots for so many buckets, in the memory of a used list.
    pub(super) fn filled(
        mut self,
        bucket_count: usize,
        bucket: impl Fn(u64) -> usize,
        for_each: impl Fn(&mut dyn FnMut(&[u64], u32)),
    ) -> Self {
        let mut last_ns = 0;
        self.ends.clear();
        self.ends.resize(bucket_count, 0);
        for_each(&mut |deadlines, _| {
            for &at in deadlines {
                self.ends[bucket(at)] += 1;
                last_ns = last_ns.max(at);
            }
        });
        let mut end = 0;
        for count in &mut self.ends {
            // The begin of each bucket, which becomes its end below.
            (*count, end) = (end, end + *count);
        }
        self.slots.clear();
        self.slots.resize(end as usize, 0);
        for_each(&mut |deadlines, first| {
            for (&at, slot) in deadlines.iter().zip(first..) {
                let place = &mut self.ends[bucket(at)];
                self.slots[*place as usize] = slot;
                *place += 1;
            }
        });
        Self {
            begin: 0,
            last_ns,
            ..self
        }
    }

    /// No timer of the list is due later.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The number of slots that are left.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.begin
    }

    /// Where the slots of a bucket are that are left.
    #[inline]
    pub(super) fn of(&self, bucket: usize) -> Range<usize> {
        let end = self.ends.get(bucket).map_or(0, |end| *end as usize);
        self.begin.min(end)..end
    }

    /// The same, and removes them. The buckets must be taken in order.
    pub(super) fn take(&mut self, bucket: usize) -> Range<usize> {
        let slots = self.of(bucket);
        self.begin = self.begin.max(slots.end);
        slots
    }

    pub(super) fn slots(&self, range: Range<usize>) -> &[u32] {
        &self.slots[range]
    }

    /// All that are left, in the order of buckets.
    pub(super) fn rest(&self) -> &[u32] {
        &self.slots[self.begin..]
    }

    /// The memory for the next list, unless it is large.
    pub(super) fn into_memory(self) -> Self {
        match self.slots.capacity() > KEPT_MAX {
            true => Self::default(),
            false => Self {
                begin: self.slots.len(),
                ..self
            },
        }
    }
}

/// The memory of a list with room for more slots is not kept.
const KEPT_MAX: usize = 4096;
