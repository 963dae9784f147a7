use super::{epoch::Epochs, panics::Panics};
use std::{collections::VecDeque, mem};

/// What was replaced in a table and may still be being read.
///
/// It is collected in bags; a full bag gets the stamp of the epoch and is
/// handed back to be dropped when that epoch is over. The number of bags is
/// bounded only by how long readers read, which is one clone of an event.
///
/// The values of a bag are handed back one by one, one for each that comes, so
/// that the allocator gets each place back shortly before it is asked for one.
pub(super) struct Garbage<E, A> {
    open: Bag<E, A>,
    sealed: Sealed<E, A>,
    /// A bag whose epoch is over, on its way out.
    over: Bag<E, A>,
}

/// What nobody reads any more.
pub(super) struct Overdue<E, A>(Option<Box<Sealed<E, A>>>);

/// Full bags, each with its stamp, oldest first.
type Sealed<E, A> = VecDeque<(u64, Bag<E, A>)>;

/// Dropped only when nobody reads what is in it.
pub(super) struct Bag<E, A> {
    values: Vec<E>,
    arrays: Vec<A>,
}

impl<E, A> Garbage<E, A> {
    /// Values in a full bag: enough to make the price of a stamp small. A model
    /// has no time to fill such a bag.
    const BAG_LEN: usize = if cfg!(loom) { 1 } else { 64 };

    /// Sealed bags that may wait for their turn to be handed out one by one.
    const SEALED_MAX: usize = 2;

    pub(super) fn new() -> Self {
        Self {
            open: Bag::new(),
            sealed: VecDeque::new(),
            over: Bag::new(),
        }
    }

    /// Values waiting to be dropped.
    pub(super) fn len(&self) -> usize {
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

    /// Hands out a value that nobody reads any more.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<E> {
        self.over.values.pop()
    }

    /// Hands out what nobody reads any more and is too much to wait for
    /// [`Self::pop`].
    #[inline(always)]
    pub(super) fn sweep(&mut self, epochs: impl FnOnce() -> &'static Epochs) -> Overdue<E, A> {
        let is_full = self.open.values.len() >= Self::BAG_LEN || !self.open.arrays.is_empty();
        match is_full {
            true => self.seal(epochs()),
            false => Overdue::NOTHING,
        }
    }

    /// Hands out all that nobody reads any more, be the open bag full or not.
    pub(super) fn sweep_all(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        if self.len() == 0 && self.open.arrays.is_empty() {
            return Overdue::NOTHING;
        }
        self.stamp_open(epochs);
        let mut bags = self.take_over(epochs);
        bags.push_back((0, mem::replace(&mut self.over, Bag::new())));
        Overdue(Some(Box::new(bags)))
    }

    /// Closes the open bag. Hands out whole bags only where some are waiting,
    /// since somebody reads for long, or where an array is in one.
    #[cold]
    #[inline(never)]
    fn seal(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        self.stamp_open(epochs);
        if self.over.values.is_empty() {
            let is_over = |(stamp, bag): &mut (u64, Bag<E, A>)| {
                bag.arrays.is_empty() && epochs.is_over(*stamp)
            };
            if let Some((_, bag)) = self.sealed.pop_front_if(is_over) {
                // The empty one's room is used again.
                self.open = mem::replace(&mut self.over, bag);
            }
        }
        let has_array = self.sealed.iter().any(|(_, bag)| !bag.arrays.is_empty());
        let is_late = has_array || self.sealed.len() > Self::SEALED_MAX;
        match is_late {
            true => Overdue(Some(Box::new(self.take_over(epochs)))),
            false => Overdue::NOTHING,
        }
    }

    fn stamp_open(&mut self, epochs: &Epochs) {
        let bag = mem::replace(&mut self.open, Bag::new());
        self.sealed.push_back((epochs.stamp(), bag));
        // Twice: where nobody reads, that ends the epoch of the stamp.
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
    pub(super) const NOTHING: Self = Self(None);

    /// Drops it. No lock may be held.
    #[inline(always)]
    pub(super) fn drop_all(self) {
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
}

impl<E, A> Drop for Bag<E, A> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        for value in self.values.drain(..) {
            panics.drop(value);
        }
    }
}
