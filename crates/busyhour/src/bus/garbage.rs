use super::{epoch::Epochs, panics::Panics};
use std::{collections::VecDeque, mem};

/// What was replaced in a table and may still be being read.
///
/// It is collected in bags; a full bag gets the stamp of the epoch and is
/// handed back to be dropped when that epoch is over. The number of bags is
/// bounded only by how long readers read, which is one clone of an event.
pub(super) struct Garbage<E, A> {
    open: Bag<E, A>,
    sealed: VecDeque<(u64, Bag<E, A>)>,
}

/// Bags whose epoch is over.
pub(super) type Overdue<E, A> = VecDeque<(u64, Bag<E, A>)>;

/// Dropped only when nobody reads what is in it.
pub(super) struct Bag<E, A> {
    values: Vec<E>,
    arrays: Vec<A>,
}

impl<E, A> Garbage<E, A> {
    /// Values in a full bag: enough to make the price of a stamp small. A model
    /// has no time to fill such a bag.
    const BAG_LEN: usize = if cfg!(loom) { 1 } else { 64 };

    pub(super) fn new() -> Self {
        Self {
            open: Bag::new(),
            sealed: VecDeque::new(),
        }
    }

    /// Values waiting to be dropped.
    pub(super) fn len(&self) -> usize {
        let sealed = self.sealed.iter().map(|(_, bag)| bag.values.len());
        self.open.values.len() + sealed.sum::<usize>()
    }

    #[inline(always)]
    pub(super) fn retire_value(&mut self, value: E) {
        self.open.values.push(value);
    }

    pub(super) fn retire_array(&mut self, array: A) {
        self.open.arrays.push(array);
    }

    /// Hands out what nobody reads any more.
    #[inline(always)]
    pub(super) fn sweep(&mut self, epochs: &Epochs) -> Option<Overdue<E, A>> {
        let full = self.open.values.len() >= Self::BAG_LEN || !self.open.arrays.is_empty();
        full.then(|| self.seal(epochs))
    }

    /// Hands out what nobody reads any more, be the open bag full or not.
    pub(super) fn sweep_all(&mut self, epochs: &Epochs) -> Option<Overdue<E, A>> {
        (self.len() > 0 || !self.open.arrays.is_empty()).then(|| self.seal(epochs))
    }

    #[cold]
    fn seal(&mut self, epochs: &Epochs) -> Overdue<E, A> {
        let bag = mem::replace(&mut self.open, Bag::new());
        self.sealed.push_back((epochs.stamp(), bag));
        // Twice: where nobody reads, that ends the epoch of the stamp.
        epochs.try_advance();
        epochs.try_advance();
        let over = self
            .sealed
            .iter()
            .take_while(|(stamp, _)| epochs.is_over(*stamp));
        let over = over.count();
        self.sealed.drain(..over).collect()
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
