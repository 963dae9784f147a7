//! Seed 1, after: a binary heap behind a mutex; each entry knows its place in
//! the heap, so deleting takes logarithmic time. Each add allocates its entry
//! and each delete frees it, as in the original.

use std::sync::Mutex;

use kit::timers::Timers;

#[derive(Default)]
pub struct Scheduler(Mutex<Heap>);

#[derive(Default)]
struct Heap {
    /// Indices of entries, in heap order.
    places: Vec<usize>,
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<usize>,
    next: u64,
}

struct Entry {
    key: (u64, u64),
    id: u64,
    place: usize,
}

impl Heap {
    fn insert(&mut self, deadline_ns: u64, id: u64) -> usize {
        self.next += 1;
        let entry = Box::new(Entry {
            key: (deadline_ns, self.next),
            id,
            place: self.places.len(),
        });
        let index = self.free.pop().unwrap_or(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index] = Some(entry);
        self.places.push(index);
        self.rise(self.places.len() - 1);
        index
    }

    fn remove(&mut self, index: usize) -> Option<(u64, u64)> {
        let entry = self.entries[index].take()?;
        self.free.push(index);
        let last = self.places.pop()?;
        if entry.place < self.places.len() {
            self.put(entry.place, last);
            self.rise(entry.place);
            self.sink(self.entry(last).place);
        }
        Some((entry.key.0, entry.id))
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        while let Some(child) = self
            .lesser_child(place)
            .filter(|child| self.key(*child) < self.key(place))
        {
            self.swap(place, child);
            place = child;
        }
    }

    fn lesser_child(&self, place: usize) -> Option<usize> {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        match self.places.len() {
            len if right < len => Some(if self.key(right) < self.key(left) {
                right
            } else {
                left
            }),
            len if left < len => Some(left),
            _ => None,
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (left, right) = (self.places[a], self.places[b]);
        self.put(a, right);
        self.put(b, left);
    }

    fn put(&mut self, place: usize, index: usize) {
        self.places[place] = index;
        if let Some(entry) = &mut self.entries[index] {
            entry.place = place;
        }
    }

    fn key(&self, place: usize) -> (u64, u64) {
        self.entry(self.places[place]).key
    }

    fn entry(&self, index: usize) -> &Entry {
        self.entries[index]
            .as_deref()
            .expect("the heap contains only live entries")
    }
}

impl Timers for Scheduler {
    type Handle = usize;

    fn add(&mut self, deadline_ns: u64, id: u64) -> usize {
        self.0.lock().unwrap().insert(deadline_ns, id)
    }

    fn cancel(&mut self, handle: usize) -> bool {
        self.0.lock().unwrap().remove(handle).is_some()
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        loop {
            let mut heap = self.0.lock().unwrap();
            let Some(top) = heap.places.first().copied() else {
                return;
            };
            let expired = heap.remove(top);
            drop(heap);
            if let Some((deadline, id)) = expired {
                on_expire(deadline, id);
            }
        }
    }

    fn len(&self) -> u64 {
        self.0.lock().unwrap().places.len() as u64
    }
}
