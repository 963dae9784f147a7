//! Timers in a list of slots without any order: what a cancel costs that only makes sure that
//! its timer is there, marks the slot, counts and takes the value out.

use kit::{Args, timers};

pub fn run(args: &Args) {
    timers::run(args, SlotList::default);
}

/// Released slots are chained, the last one first.
#[derive(Default)]
struct SlotList {
    slots: Vec<Slot>,
    /// One more than the slot released last; 0 if there is none.
    released: u32,
    live: u64,
    added: u64,
}

struct Slot {
    /// Even while a timer is in it; each use has its own.
    stamp: u32,
    /// One more than the slot released before.
    next: u32,
    id: u64,
    deadline_ns: u64,
    /// Which of all adds it was.
    number: u64,
}

#[derive(Clone, Copy)]
struct Handle {
    slot: u32,
    stamp: u32,
}

impl SlotList {
    fn release(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.stamp += 1;
        entry.next = self.released;
        self.released = slot + 1;
        self.live -= 1;
    }
}

impl timers::Timers for SlotList {
    type Handle = Handle;

    fn add(&mut self, deadline_ns: u64, id: u64) -> Handle {
        (self.live, self.added) = (self.live + 1, self.added + 1);
        let mut new = Slot {
            stamp: 0,
            next: 0,
            id,
            deadline_ns,
            number: self.added,
        };
        let Some(slot) = self.released.checked_sub(1) else {
            self.slots.push(new);
            let slot = self.slots.len() as u32 - 1;
            return Handle { slot, stamp: 0 };
        };
        let entry = &mut self.slots[slot as usize];
        new.stamp = entry.stamp + 1;
        self.released = entry.next;
        let handle = Handle {
            slot,
            stamp: new.stamp,
        };
        *entry = new;
        handle
    }

    fn cancel(&mut self, handle: Handle) -> bool {
        match self.slots.get(handle.slot as usize) {
            Some(entry) if entry.stamp == handle.stamp => {
                std::hint::black_box(entry.id);
                self.release(handle.slot);
                true
            }
            _ => false,
        }
    }

    /// There is no order, so they are sorted here.
    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        let mut due: Vec<u32> = (0..self.slots.len() as u32).collect();
        due.retain(|slot| self.slots[*slot as usize].stamp.is_multiple_of(2));
        due.sort_unstable_by_key(|slot| {
            let entry = &self.slots[*slot as usize];
            (entry.deadline_ns, entry.number)
        });
        for slot in due {
            let entry = &self.slots[slot as usize];
            on_expire(entry.deadline_ns, entry.id);
            self.release(slot);
        }
    }

    fn len(&self) -> u64 {
        self.live
    }
}
