use super::epoch::Epochs;
use crate::{bus::panics::Panics, sync::modelled_zeroed_thread_local};
use std::{cell::Cell, collections::VecDeque, mem};

/// What was replaced in a table and may still have readers.
///
/// Values wait in the order in which they were replaced. Each portion of them is stamped with the
/// epoch, and is over when that epoch is. How many wait is bounded only by how long readers read; a
/// reader clones one event.
///
/// Values that are over are returned one by one, one for each new value, so that the next event
/// gets memory that was in use a short time ago. If more are over than a table keeps, the rest is
/// returned whole. So if nobody reads, at most 256 values wait.
#[repr(C)]
pub(in crate::bus) struct Garbage<E, A> {
    /// Oldest first.
    values: VecDeque<E>,
    /// The number of the oldest value: how many were returned before it.
    first: u64,
    /// Values below this number are over.
    over: u64,
    /// Values below this number have a stamp.
    stamped: u64,
    /// How many values were retired since the beginning.
    retired: u64,
    /// Arrays without a stamp.
    arrays: Vec<A>,
    /// The portions that are not over, oldest first.
    portions: VecDeque<RetiredPortion>,
    /// Arrays with their stamps, oldest first.
    stamped_arrays: VecDeque<(u64, A)>,
}

/// Garbage that no reader can use any more.
pub(in crate::bus) struct Overdue<E, A>(Option<Box<Bag<E, A>>>);

/// Values with one stamp.
struct RetiredPortion {
    stamp: u64,
    /// The number of the first value after them.
    end: u64,
}

/// Dropped only when no reader can use its values.
struct Bag<E, A> {
    values: VecDeque<E>,
    #[expect(dead_code, reason = "they are only dropped")]
    arrays: Vec<A>,
}

impl<E, A> Garbage<E, A> {
    /// Values in a portion: enough to make the cost of a stamp small, and few, since what waits
    /// goes through the processor's cache again and again. A model is too short for such a portion.
    const PORTION_LEN: u64 = if cfg!(loom) { 1 } else { 8 };

    /// After how many values a table or a thread advances the epoch, and how many values that are
    /// over a table keeps for its next events. Advancing looks at each thread that reads.
    const ADVANCE_LEN: u64 = if cfg!(loom) { 1 } else { 120 };

    /// How many portions may wait without that the epoch is advanced for them: the newest one.
    const WAITING_MAX: usize = if cfg!(loom) { 0 } else { 1 };

    pub(in crate::bus) fn new() -> Self {
        Self {
            values: VecDeque::new(),
            first: 0,
            over: 0,
            stamped: 0,
            retired: 0,
            portions: VecDeque::new(),
            arrays: Vec::new(),
            stamped_arrays: VecDeque::new(),
        }
    }

    /// The number of values that wait to be dropped.
    pub(in crate::bus) fn len(&self) -> usize {
        self.values.len()
    }

    #[inline(always)]
    pub(super) fn retire_value(&mut self, value: E) {
        self.retired += 1;
        self.values.push_back(value);
    }

    pub(super) fn retire_array(&mut self, array: A) {
        self.arrays.push(array);
    }

    /// Returns a value that no reader can use any more. If dropping it
    /// `runs_code` of the user, returns `None` while this thread is inside such
    /// a drop: see [`Dropping`].
    #[inline(always)]
    pub(in crate::bus) fn pop(&mut self, runs_code: bool) -> Option<E> {
        if self.first >= self.over || runs_code && Dropping::is_going_on() {
            return None;
        }
        self.first += 1;
        self.values.pop_front()
    }

    /// What [`Self::pop`] will return next, if it is known.
    #[inline(always)]
    pub(in crate::bus) fn next(&self) -> Option<&E> {
        let is_over = self.first < self.over;
        is_over.then(|| self.values.front()).flatten()
    }

    /// Returns what no reader can use any more, if it is too much for
    /// [`Self::pop`].
    #[inline(always)]
    pub(in crate::bus) fn sweep(
        &mut self,
        epochs: impl FnOnce() -> &'static Epochs,
    ) -> Overdue<E, A> {
        match self.arrays.is_empty() {
            true => self.sweep_values(epochs),
            false => self.seal(epochs()),
        }
    }

    /// Like [`Self::sweep`], if no array was replaced since.
    #[inline(always)]
    pub(in crate::bus) fn sweep_values(
        &mut self,
        epochs: impl FnOnce() -> &'static Epochs,
    ) -> Overdue<E, A> {
        debug_assert!(self.arrays.is_empty(), "an array would wait for values");
        match self.retired - self.stamped >= Self::PORTION_LEN {
            true => self.seal(epochs()),
            false => Overdue::NOTHING,
        }
    }

    /// Returns everything that no reader can use any more, also from a portion
    /// that is not full.
    pub(in crate::bus) fn sweep_all(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        let has_arrays = !self.arrays.is_empty() || !self.stamped_arrays.is_empty();
        if self.values.is_empty() && !has_arrays || Dropping::is_going_on() {
            return Overdue::NOTHING;
        }
        self.stamp(epochs);
        self.advance(0, epochs);
        self.take_over(0, epochs)
    }

    /// Stamps the open portion. Returns whole values only if more are over than a
    /// table keeps.
    #[cold]
    #[inline(never)]
    fn seal(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        let len = self.retired - self.stamped;
        self.stamp(epochs);
        let is_much = self.retired - self.over >= Self::ADVANCE_LEN;
        let may_wait = match is_much || !self.stamped_arrays.is_empty() {
            true => 0,
            false if Self::is_time_for_thread(len) => Self::WAITING_MAX,
            false => usize::MAX,
        };
        self.advance(may_wait, epochs);
        let is_late = self.over - self.first > Self::ADVANCE_LEN;
        match (is_late || !self.stamped_arrays.is_empty()) && !Dropping::is_going_on() {
            true => self.take_over(Self::ADVANCE_LEN, epochs),
            false => Overdue::NOTHING,
        }
    }

    /// Gives the newest values and arrays the stamp of now.
    fn stamp(&mut self, epochs: &Epochs) {
        let (stamp, end) = (epochs.stamp(), self.retired);
        if self.stamped < end {
            self.portions.push_back(RetiredPortion { stamp, end });
            self.stamped = end;
        }
        let arrays = self.arrays.drain(..);
        self.stamped_arrays
            .extend(arrays.map(|array| (stamp, array)));
    }

    /// Notes which portions are over. If more than `may_wait` are not, advances the epoch for them.
    fn advance(&mut self, may_wait: usize, epochs: &Epochs) {
        self.note_over(epochs);
        let has_arrays = !self.stamped_arrays.is_empty();
        if self.portions.len() > may_wait || has_arrays && may_wait == 0 {
            // Twice: if there is no reader, that ends the epoch of each stamp.
            epochs.try_advance();
            epochs.try_advance();
            let _thread_is_ending = RETIRED.try_with(|retired| retired.set(0));
            self.note_over(epochs);
        }
    }

    fn note_over(&mut self, epochs: &Epochs) {
        while let Some(portion) = self.portions.front().filter(|it| epochs.is_over(it.stamp)) {
            self.over = portion.end;
            self.portions.pop_front();
        }
    }

    /// Whether this thread has retired so much since it last advanced the epoch that it should do it
    /// again, and not leave it to others.
    fn is_time_for_thread(len: u64) -> bool {
        let add = |retired: &Cell<u64>| {
            retired.set(retired.get() + len);
            retired.get() >= Self::ADVANCE_LEN
        };
        // A thread that is ending has lost its thread-local storage.
        RETIRED.try_with(add).unwrap_or(true)
    }

    /// Takes what is over, without the newest `kept` values.
    fn take_over(&mut self, kept: u64, epochs: &Epochs) -> Overdue<E, A> {
        let count = (self.over - self.first).saturating_sub(kept);
        let values = match count {
            0 => VecDeque::new(),
            _ => {
                // Only what stays is moved: there may be many others, and a lock is held.
                let rest = self.values.split_off(count as usize);
                mem::replace(&mut self.values, rest)
            }
        };
        self.first += count;
        let stamps = self.stamped_arrays.iter().map(|(stamp, _)| *stamp);
        let over = stamps.take_while(|stamp| epochs.is_over(*stamp)).count();
        let arrays = self.stamped_arrays.drain(..over);
        let arrays: Vec<A> = arrays.map(|(_, array)| array).collect();
        match values.is_empty() && arrays.is_empty() {
            true => Overdue::NOTHING,
            false => Overdue(Some(Box::new(Bag { values, arrays }))),
        }
    }
}

impl<E, A> Overdue<E, A> {
    pub(in crate::bus) const NOTHING: Self = Self(None);

    /// Drops it. No lock may be held.
    #[inline(always)]
    pub(in crate::bus) fn drop_all(self) {
        match self.0 {
            None => mem::forget(self),
            Some(_) => drop(self),
        }
    }
}

impl<E, A> Drop for Garbage<E, A> {
    fn drop(&mut self) {
        let _dropping = Dropping::begin();
        let mut panics = Panics::default();
        for value in self.values.drain(..) {
            panics.drop(value);
        }
    }
}

impl<E, A> Drop for Bag<E, A> {
    fn drop(&mut self) {
        let _dropping = Dropping::begin();
        let mut panics = Panics::default();
        for value in self.values.drain(..) {
            panics.drop(value);
        }
    }
}

/// While this lives, its thread is dropping replaced values. If a value's own
/// `Drop` publishes, that publish keeps what it replaces and gets nothing to
/// drop; otherwise the stack would grow with the amount of garbage.
pub(in crate::bus) struct Dropping {
    /// Whether this is nested in another one.
    was_going_on: bool,
}

impl Dropping {
    #[inline(always)]
    pub(in crate::bus) fn begin() -> Self {
        let was_going_on = GOING_ON.try_with(|it| it.replace(true));
        // A thread that is ending has lost its thread-local storage.
        let was_going_on = was_going_on.unwrap_or(false);
        Self { was_going_on }
    }

    #[inline(always)]
    fn is_going_on() -> bool {
        GOING_ON.try_with(Cell::get).unwrap_or(false)
    }
}

impl Drop for Dropping {
    #[inline(always)]
    fn drop(&mut self) {
        let _thread_is_ending = GOING_ON.try_with(|it| it.set(self.was_going_on));
    }
}

modelled_zeroed_thread_local! {
    static GOING_ON: Cell<bool>;
}

modelled_zeroed_thread_local! {
    /// How many values this thread has retired since it last advanced the epoch.
    static RETIRED: Cell<u64>;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A table that grew while a thread read leaves its old array in a bag
    /// without an event.
    #[test]
    fn an_array_that_a_thread_has_read_is_freed_with_the_rest() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        let (reader, array) = (epochs.register(), std::sync::Arc::new(()));
        let mut garbage = Garbage::<(), _>::new();
        let pin = epochs.pin(reader);
        garbage.retire_array(std::sync::Arc::clone(&array));
        garbage.sweep(|| epochs).drop_all();
        assert_eq!(std::sync::Arc::strong_count(&array), 2, "somebody reads");
        drop(pin);
        garbage.sweep_all(epochs).drop_all();
        assert_eq!(std::sync::Arc::strong_count(&array), 1);
    }

    #[test]
    fn a_portion_waits_until_it_is_full_and_over_and_is_returned_value_by_value() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        let mut garbage = Garbage::<u64, ()>::new();
        let full = Garbage::<u64, ()>::PORTION_LEN;
        for value in 1..full {
            garbage.retire_value(value);
            let untouched = || unreachable!("the portion is not full");
            garbage.sweep(untouched).drop_all();
            assert_eq!((garbage.len() as u64, garbage.pop(false)), (value, None));
        }
        garbage.retire_value(full);
        garbage.sweep(|| epochs).drop_all();
        assert_eq!(garbage.pop(false), None, "a reader may have it");
        (0..2).for_each(|_| epochs.try_advance());
        (0..full).for_each(|value| garbage.retire_value(full + value));
        garbage.sweep(|| epochs).drop_all();
        let given: Vec<_> = std::iter::from_fn(|| garbage.pop(false)).collect();
        assert!(given.into_iter().eq(1..=full), "the oldest portion alone");
        assert_eq!(garbage.len() as u64, full);
    }

    #[test]
    fn few_values_wait_whether_they_are_used_again_or_not() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        for is_used_again in [true, false] {
            let mut garbage = Garbage::<u64, ()>::new();
            for value in 0..10_000 {
                let _used = is_used_again.then(|| garbage.pop(false));
                garbage.retire_value(value);
                garbage.sweep(|| epochs).drop_all();
                assert!(garbage.len() <= 256, "{}", garbage.len());
            }
            assert!(garbage.len() > 0);
        }
    }

    #[test]
    fn while_somebody_reads_nothing_is_over() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        let (reader, mut garbage) = (epochs.register(), Garbage::<u64, ()>::new());
        let pin = epochs.pin(reader);
        for value in 0..1_000 {
            garbage.retire_value(value);
            garbage.sweep(|| epochs).drop_all();
            assert_eq!(garbage.pop(false), None);
        }
        drop(pin);
        garbage.sweep_all(epochs).drop_all();
        assert_eq!(garbage.len(), 0);
    }
}
