//! Consecutive records mostly hold the same metrics and instances, in the
//! same order: what was looked up for one record serves the next.

use crate::render::plan::{Plan, Wanted};

/// The column of every value of the last record.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    sets: Vec<SetShape>,
    slots: Vec<Slot>,
}

/// One value's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) instance: i32,
    pub(crate) column: u32,
}

#[derive(Debug, Clone, Copy)]
struct SetShape {
    metric: u32,
    len: usize,
    first: usize,
    is_wanted: bool,
}

impl Slot {
    /// The column of a value that is not wanted.
    pub(crate) const UNWANTED: u32 = u32::MAX;
}

impl Shape {
    /// The slots for the set at `index` of the record, or `None` if its metric
    /// is not wanted. The instances in them are only what the last record had.
    #[inline]
    pub(crate) fn set(
        &mut self,
        plan: &Plan,
        index: usize,
        metric: u32,
        len: usize,
    ) -> Option<&mut [Slot]> {
        let fits = |set: &&SetShape| set.metric == metric && set.len == len;
        let set = match self.sets.get(index).filter(fits) {
            Some(set) => *set,
            None => self.replace(plan, index, metric, len),
        };
        match set.is_wanted {
            true => self.slots.get_mut(set.first..set.first + set.len),
            false => None,
        }
    }

    /// Sets after a changed one are looked up again: they lie elsewhere now.
    #[cold]
    fn replace(&mut self, plan: &Plan, index: usize, metric: u32, len: usize) -> SetShape {
        let first = self
            .sets
            .get(index)
            .map_or(self.slots.len(), |set| set.first);
        self.sets.truncate(index);
        self.slots.truncate(first);
        let is_wanted = plan.wanted(metric).is_some();
        if is_wanted {
            self.slots.resize(first + len, Slot::unknown());
        }
        let set = SetShape {
            metric,
            len,
            first,
            is_wanted,
        };
        self.sets.push(set);
        set
    }
}

impl Slot {
    /// An instance that no record names, so that the first one is looked up.
    fn unknown() -> Self {
        Self {
            instance: i32::MIN,
            column: Self::UNWANTED,
        }
    }

    /// The slot for `instance` of `metric`.
    #[cold]
    pub(crate) fn find(plan: &Plan, metric: u32, instance: i32) -> Self {
        let column = plan
            .wanted(metric)
            .and_then(|wanted: &Wanted| wanted.column(instance));
        Self {
            instance,
            column: column.unwrap_or(Self::UNWANTED),
        }
    }
}
