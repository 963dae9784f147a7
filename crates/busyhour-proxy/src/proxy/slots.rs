//! Values in places that are used again; each place has a number.

/// Names a request in its table. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionId {
    pub(super) slot: u32,
    pub(super) nonce: u64,
}

/// A table whose keys are places in it.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Where the next value will be.
    pub fn next_slot(&self) -> u32 {
        let behind = self.places.len() as u32;
        self.free.last().copied().unwrap_or(behind)
    }

    /// Puts a value at [`next_slot`](Self::next_slot).
    pub fn insert(&mut self, value: T) {
        match self.free.pop() {
            Some(slot) => self.places[slot as usize] = Some(value),
            None => self.places.push(Some(value)),
        }
    }

    pub fn get(&self, slot: u32) -> Option<&T> {
        self.places.get(slot as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    /// Puts another value in the place of one, made of it.
    pub fn change(&mut self, slot: u32, change: impl FnOnce(T) -> T) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            *place = place.take().map(change);
        }
    }

    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.places.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(value)
    }
}
