use super::{
    key::{Entry, Key},
    place::{Place, Places},
};
use std::{cmp::Reverse, mem};

/// The timers that are next: a sorted run, and a small unsorted pile of those
/// that were added since into the run's range.
#[derive(Debug)]
pub(super) struct Near {
    /// The earliest last. A timer removed from the middle leaves a gap; the
    /// last entry is never one.
    run: Vec<Entry>,
    gap_count: usize,
    pile: Vec<Entry>,
    /// The index of the earliest in the pile.
    pile_first: usize,
    /// Keys up to this belong here rather than into [`Far`](super::far::Far).
    horizon: Key,
    merged: Vec<Entry>,
}

impl Near {
    pub(super) const fn new() -> Self {
        Self {
            run: Vec::new(),
            gap_count: 0,
            pile: Vec::new(),
            pile_first: 0,
            horizon: Key::MAX,
            merged: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.pile.is_empty()
    }

    /// Whether a new key belongs here.
    #[inline]
    pub(super) fn takes(&self, key: Key) -> bool {
        key <= self.horizon && !self.is_empty()
    }

    /// Whether the pile must be [merged](Near::merge) before the next insert.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pile.len() >= PILE_MAX
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry, places: &mut impl Places) {
        let index = self.pile.len();
        self.pile.push(entry);
        if index == 0 || entry.key < self.pile[self.pile_first].key {
            self.pile_first = index;
        }
        places.put(entry.slot, Place::Pile(index as u32));
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Entry> {
        match self.pile_is_first() {
            true => self.pile.get(self.pile_first).copied(),
            false => self.run.last().copied(),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self, places: &mut impl Places) -> Option<Entry> {
        if self.pile_is_first() {
            let first = self.pile[self.pile_first];
            self.remove_from_pile(self.pile_first, places);
            return Some(first);
        }
        let first = self.run.pop();
        self.drop_gaps();
        first
    }

    pub(super) fn run_entry(&self, index: u32) -> Entry {
        self.run[index as usize]
    }

    pub(super) fn pile_entry(&self, index: u32) -> Entry {
        self.pile[index as usize]
    }

    #[inline]
    pub(super) fn remove_from_run(&mut self, index: u32) {
        self.run[index as usize].slot = GAP;
        self.gap_count += 1;
        self.drop_gaps();
    }

    #[inline]
    pub(super) fn remove_from_pile(&mut self, index: usize, places: &mut impl Places) {
        self.pile.swap_remove(index);
        if let Some(moved) = self.pile.get(index) {
            places.put(moved.slot, Place::Pile(index as u32));
        }
        let indices = 0..self.pile.len();
        let first = indices.min_by_key(|&index| self.pile[index].key);
        self.pile_first = first.unwrap_or(0);
    }

    /// The empty run, to be filled and then [finished](Near::finish_run).
    pub(super) fn begin_run(&mut self) -> &mut Vec<Entry> {
        &mut self.run
    }

    /// Sorts a new run; all keys up to `horizon` belong here from now on.
    pub(super) fn finish_run(&mut self, horizon: Key, places: &mut impl Places) {
        self.horizon = horizon;
        sort(&mut self.run);
        self.place_run(places);
    }

    /// Merges the pile into the run. [`Near::place_run`] must follow.
    pub(super) fn merge(&mut self) {
        sort(&mut self.pile);
        let mut pile = self.pile.drain(..).peekable();
        for entry in self.run.drain(..).filter(|entry| entry.slot != GAP) {
            while let Some(later) = pile.next_if(|other| other.key > entry.key) {
                self.merged.push(later);
            }
            self.merged.push(entry);
        }
        self.merged.extend(pile);
        mem::swap(&mut self.run, &mut self.merged);
        self.gap_count = 0;
        self.pile_first = 0;
    }

    /// Gives the latest entries away if the run is too long to merge into, and
    /// draws the horizon in. [`Near::place_run`] must follow.
    pub(super) fn spill(&mut self) -> impl Iterator<Item = Entry> {
        let spilled = match self.run.len() {
            len if len > RUN_LEN_MAX => len - RUN_LEN_KEPT,
            _ => 0,
        };
        if spilled > 0 {
            self.horizon = self.run[spilled].key;
        }
        self.run.drain(..spilled)
    }

    /// Notes where each entry of the run is.
    pub(super) fn place_run(&self, places: &mut impl Places) {
        for (index, entry) in self.run.iter().enumerate() {
            places.put(entry.slot, Place::Run(index as u32));
        }
    }

    #[inline]
    fn pile_is_first(&self) -> bool {
        match (self.pile.get(self.pile_first), self.run.last()) {
            (Some(pile), Some(run)) => pile.key < run.key,
            (pile, _) => pile.is_some(),
        }
    }

    #[inline]
    fn drop_gaps(&mut self) {
        if self.gap_count == 0 {
            return;
        }
        while self.run.pop_if(|entry| entry.slot == GAP).is_some() {
            self.gap_count -= 1;
        }
    }
}

/// Sorts the latest first.
fn sort(entries: &mut [Entry]) {
    entries.sort_unstable_by_key(|entry| Reverse(entry.key));
}

/// The slot of an entry that was removed.
const GAP: u32 = u32::MAX;
/// So few that finding the earliest of them takes a few nanoseconds.
const PILE_MAX: usize = 32;
/// A run that merging has made longer is cut to `RUN_LEN_KEPT`.
const RUN_LEN_MAX: usize = 256;
const RUN_LEN_KEPT: usize = 64;
