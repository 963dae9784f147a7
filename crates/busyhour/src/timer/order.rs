use super::{
    far::Far,
    key::{Entry, Key},
    near::Near,
    place::{Place, Places},
};

/// The waiting timers in the order of their keys.
#[derive(Debug)]
pub(super) struct Order {
    near: Near,
    far: Far,
    /// The earliest entry. While `near` is empty it is in `far`, not yet sorted.
    first: Option<Entry>,
    len: usize,
}

impl Order {
    pub(super) const fn new() -> Self {
        Self {
            near: Near::new(),
            far: Far::new(),
            first: None,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Entry> {
        self.first
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry, places: &mut impl Places) {
        if self.near.takes(entry.key) {
            self.insert_near(entry, places);
        } else {
            self.far.insert(entry, places);
        }
        self.len += 1;
        if self.first.is_none_or(|first| entry.key < first.key) {
            self.first = Some(entry);
        }
    }

    /// Removes the timer in `slot`, which is at `place`.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32, place: Place, places: &mut impl Places) {
        match place {
            Place::Far(position) => self.far.remove(position, places),
            Place::Run(index) => self.near.remove_from_run(index),
            Place::Pile(index) => self.near.remove_from_pile(index as usize, places),
            Place::Held => return,
        }
        self.len -= 1;
        if self.first.is_some_and(|first| first.slot == slot) {
            self.find_first(places);
        }
    }

    /// Takes the earliest entry out.
    #[inline]
    pub(super) fn pop(&mut self, places: &mut impl Places) -> Option<Entry> {
        if self.near.is_empty() {
            self.refill(places);
        }
        let first = self.near.pop(places)?;
        self.len -= 1;
        self.find_first(places);
        Some(first)
    }

    /// The key of the timer at `place`; `None` if it is held.
    pub(super) fn key(&self, place: Place) -> Option<Key> {
        match place {
            Place::Far(position) => Some(self.far.entry(position).key),
            Place::Run(index) => Some(self.near.run_entry(index).key),
            Place::Pile(index) => Some(self.near.pile_entry(index).key),
            Place::Held => None,
        }
    }

    #[inline]
    fn find_first(&mut self, places: &mut impl Places) {
        if self.near.is_empty() {
            self.refill(places);
        }
        self.first = self.near.first();
    }

    fn insert_near(&mut self, entry: Entry, places: &mut impl Places) {
        if self.near.is_full() {
            self.near.merge();
            for spilled in self.near.spill() {
                self.far.insert(spilled, places);
            }
            self.near.place_run(places);
        }
        match self.near.takes(entry.key) {
            true => self.near.insert(entry, places),
            // The horizon has just been drawn in.
            false => self.far.insert(entry, places),
        }
    }

    /// Makes a run of the first leaf, and of those after it while it is short.
    fn refill(&mut self, places: &mut impl Places) {
        let run = self.near.begin_run();
        let mut horizon = None;
        while let Some(len) = self.far.first_len() {
            let enough = run.len() >= RUN_LEN_MIN || run.len() + len > RUN_LEN_MAX;
            if enough && !run.is_empty() {
                break;
            }
            horizon = self.far.take_first(RUN_LEN_MAX, run, places);
        }
        if let Some(horizon) = horizon {
            self.near.finish_run(horizon, places);
        }
    }
}

/// The longest leaf that is sorted rather than split.
const RUN_LEN_MAX: usize = 512;
/// Leaves are joined until a run is as long as this.
const RUN_LEN_MIN: usize = 32;
