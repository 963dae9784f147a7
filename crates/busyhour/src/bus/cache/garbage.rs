use super::epoch::Epochs;
use crate::{bus::panics::Panics, sync::modelled_zeroed_thread_local};
use std::{cell::Cell, collections::VecDeque, mem};

/// What was replaced in a table and may still have readers.
///
/// Garbage is collected in bags. A full bag is stamped with the epoch and
/// returned for dropping when that epoch is over. The number of bags is bounded
/// only by how long readers read; a reader clones one event.
///
/// The values of a bag are returned one by one, one for each new value, so that
/// the allocator gets memory back shortly before it is asked for some. A bag
/// that is larger than usual is returned whole. So if nobody reads, at most
/// four bags of values wait: an open one, two sealed ones, and one that is
/// being returned.
pub(in crate::bus) struct Garbage<E, A> {
    open: Bag<E, A>,
    sealed: Sealed<E, A>,
    /// A bag whose epoch is over and which is being returned.
    over: Bag<E, A>,
}

/// Garbage that no reader can use any more.
pub(in crate::bus) struct Overdue<E, A>(Option<Box<Sealed<E, A>>>);

/// Full bags, each with its stamp, oldest first.
type Sealed<E, A> = VecDeque<(u64, Bag<E, A>)>;

/// Dropped only when no reader can use its values.
pub(in crate::bus) struct Bag<E, A> {
    values: Vec<E>,
    arrays: Vec<A>,
}

impl<E, A> Garbage<E, A> {
    /// Values in a full bag: enough to make the cost of a stamp small. A model
    /// is too short to fill such a bag.
    const BAG_LEN: usize = if cfg!(loom) { 1 } else { 64 };

    /// How many sealed bags may wait to be returned one by one.
    const SEALED_MAX: usize = 2;

    pub(in crate::bus) fn new() -> Self {
        Self {
            open: Bag::new(),
            sealed: VecDeque::new(),
            over: Bag::new(),
        }
    }

    /// The number of values that wait to be dropped.
    pub(in crate::bus) fn len(&self) -> usize {
        let sealed = self.sealed.iter().map(|(_, bag)| bag.values.len());
        self.open.values.len() + sealed.sum::<usize>() + self.over.values.len()
    }

    #[inline(always)]
    pub(super) fn retire_value(&mut self, value: E) {
        self.open.values.push(value);
    }

    pub(super) fn retire_array(&mut self, array: A) {
        self.open.arrays.push(array);
    }

    /// Returns a value that no reader can use any more. If dropping it
    /// `runs_code` of the user, returns `None` while this thread is inside such
    /// a drop: see [`Dropping`].
    #[inline(always)]
    pub(in crate::bus) fn pop(&mut self, runs_code: bool) -> Option<E> {
        match runs_code && Dropping::is_going_on() {
            true => None,
            false => self.over.values.pop(),
        }
    }

    /// What [`Self::pop`] will return next, if it is known.
    #[inline(always)]
    pub(in crate::bus) fn next(&self) -> Option<&E> {
        self.over.values.last()
    }

    /// Returns what no reader can use any more, if it is too much for
    /// [`Self::pop`].
    #[inline(always)]
    pub(in crate::bus) fn sweep(
        &mut self,
        epochs: impl FnOnce() -> &'static Epochs,
    ) -> Overdue<E, A> {
        match self.open.arrays.is_empty() {
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
        debug_assert!(
            self.open.arrays.is_empty(),
            "an array would wait for values"
        );
        match self.open.values.len() >= Self::BAG_LEN {
            true => self.seal(epochs()),
            false => Overdue::NOTHING,
        }
    }

    /// Returns everything that no reader can use any more, also from an open
    /// bag that is not full.
    pub(in crate::bus) fn sweep_all(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        let is_empty = self.len() == 0 && self.open.arrays.is_empty();
        if is_empty && self.sealed.is_empty() || Dropping::is_going_on() {
            return Overdue::NOTHING;
        }
        self.stamp_open(epochs);
        let mut bags = self.take_over(epochs);
        bags.push_back((0, mem::replace(&mut self.over, Bag::new())));
        Overdue(Some(Box::new(bags)))
    }

    /// Closes the open bag. Returns whole bags only if bags have piled up
    /// because somebody reads for long, or if a bag holds an array or too many
    /// values.
    #[cold]
    #[inline(never)]
    fn seal(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        self.stamp_open(epochs);
        if self.over.values.is_empty() {
            let is_over =
                |(stamp, bag): &(u64, Bag<E, A>)| !bag.is_large() && epochs.is_over(*stamp);
            if self.sealed.front().is_some_and(is_over) {
                if let Some((_, bag)) = self.sealed.pop_front() {
                    // Reuses the memory of the empty bag.
                    self.open = mem::replace(&mut self.over, bag);
                }
            }
        }
        let has_large = self.sealed.iter().any(|(_, bag)| bag.is_large());
        let is_late = has_large || self.sealed.len() > Self::SEALED_MAX;
        match is_late && !Dropping::is_going_on() {
            true => Overdue(Some(Box::new(self.take_over(epochs)))),
            false => Overdue::NOTHING,
        }
    }

    fn stamp_open(&mut self, epochs: &Epochs) {
        let bag = mem::replace(&mut self.open, Bag::new());
        self.sealed.push_back((epochs.stamp(), bag));
        // Twice: if there is no reader, that ends the epoch of the stamp.
        epochs.try_advance();
        epochs.try_advance();
    }

    fn take_over(&mut self, epochs: &Epochs) -> Sealed<E, A> {
        let stamps = self.sealed.iter().map(|(stamp, _)| *stamp);
        let over = stamps.take_while(|stamp| epochs.is_over(*stamp)).count();
        self.sealed.drain(..over).collect()
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

impl<E, A> Bag<E, A> {
    fn new() -> Self {
        Self {
            values: Vec::new(),
            arrays: Vec::new(),
        }
    }

    /// Whether it is too large to be returned value by value.
    fn is_large(&self) -> bool {
        !self.arrays.is_empty() || self.values.len() > Garbage::<E, A>::BAG_LEN
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A table that grew while a thread read leaves its old array in a bag
    /// without an event.
    #[test]
    fn an_array_that_a_thread_has_read_is_freed_with_the_rest() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        let (reader, array) = (epochs.register(), std::sync::Arc::new(()));
        let mut garbage = Garbage::<(), _>::new();
        let pin = epochs.pin(&reader);
        garbage.retire_array(std::sync::Arc::clone(&array));
        garbage.sweep(|| epochs).drop_all();
        assert_eq!(std::sync::Arc::strong_count(&array), 2, "somebody reads");
        drop(pin);
        garbage.sweep_all(epochs).drop_all();
        assert_eq!(std::sync::Arc::strong_count(&array), 1);
    }

    #[test]
    fn a_bag_waits_until_it_is_full_and_is_emptied_value_by_value() {
        let epochs: &'static Epochs = Box::leak(Box::new(Epochs::new()));
        let mut garbage = Garbage::<usize, ()>::new();
        let full = Garbage::<usize, ()>::BAG_LEN;
        for value in 1..full {
            garbage.retire_value(value);
            let untouched = || unreachable!("the bag has room");
            garbage.sweep(untouched).drop_all();
            assert_eq!((garbage.len(), garbage.pop(false)), (value, None));
        }
        garbage.retire_value(full);
        garbage.sweep(|| epochs).drop_all();
        let mut given: Vec<_> = std::iter::from_fn(|| garbage.pop(false)).collect();
        given.sort_unstable();
        assert!(given.into_iter().eq(1..=full));
        assert_eq!(garbage.len(), 0);
    }
}
