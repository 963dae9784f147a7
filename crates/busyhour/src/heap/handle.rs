/// Identifies one entry of a [`Heap`](super::Heap) while the entry is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeapHandle {
    place: u32,
    generation: u32,
}

impl HeapHandle {
    /// The handle as a number, for languages that cannot hold the type.
    ///
    /// ```
    /// use busyhour::heap::{Heap, HeapHandle};
    ///
    /// let mut jobs = Heap::min();
    /// let bits = jobs.push(7).to_bits();
    /// assert_eq!(jobs.remove(HeapHandle::from_bits(bits)), Some(7));
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The handle of a number that [`HeapHandle::to_bits`] gave. Another number
    /// identifies no entry, or any.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            place: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }

    pub(super) fn place(self) -> u32 {
        self.place
    }
}

/// The position of each entry in the heap's order, found by its handle.
#[derive(Debug, Clone)]
pub(super) struct Positions {
    places: Vec<Position>,
    /// Places that are free for reuse, the last released first.
    free: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Position {
    generation: u32,
    position: u32,
}

impl Positions {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes a place for an entry at `position`.
    pub(super) fn claim(&mut self, position: usize) -> HeapHandle {
        let place = self.free.pop().unwrap_or_else(|| self.grow());
        self.moved(place, position);
        self.handle(place)
    }

    fn grow(&mut self) -> u32 {
        let place = u32::try_from(self.places.len()).expect("a heap holds fewer than 2^32 entries");
        self.places.push(Position {
            generation: 0,
            position: VACANT,
        });
        place
    }

    /// Releases a place. A place whose generations are used up is not reused,
    /// so that no old handle can match again.
    pub(super) fn release(&mut self, place: u32) {
        let entry = &mut self.places[place as usize];
        entry.position = VACANT;
        if entry.generation < u32::MAX {
            entry.generation += 1;
            self.free.push(place);
        }
    }

    pub(super) fn moved(&mut self, place: u32, position: usize) {
        self.places[place as usize].position = position as u32;
    }

    pub(super) fn handle(&self, place: u32) -> HeapHandle {
        let generation = self.places[place as usize].generation;
        HeapHandle { place, generation }
    }

    pub(super) fn position(&self, handle: HeapHandle) -> Option<usize> {
        let place = self.places.get(handle.place as usize)?;
        let current = place.generation == handle.generation;
        (current && place.position != VACANT).then_some(place.position as usize)
    }

    pub(super) fn position_of(&self, place: u32) -> Option<usize> {
        self.position(self.handle(place))
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.places.shrink_to_fit();
        self.free.shrink_to_fit();
    }
}

/// The position of a place without an entry.
const VACANT: u32 = u32::MAX;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_further_generation_is_retired() {
        let mut places = Positions::new();
        let first = places.claim(0);
        places.places[0].generation = u32::MAX;
        let last = places.handle(first.place());
        places.release(last.place());
        assert_eq!(places.position(last), None);
        assert_ne!(places.claim(0).place(), last.place());
    }
}
