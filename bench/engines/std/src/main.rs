//! Timers on the standard library's collections, as one would write them in an afternoon.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use kit::{
    Args,
    args::refuse,
    timers::{self, Timers},
};

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("binary-heap", "timers") => timers::run(&args, LazyHeap::default),
        ("btreemap", "timers") => timers::run(&args, Tree::default),
        (variant, scenario) => refuse(&format!("{variant} does not do {scenario}")),
    }
}

/// A binary heap; a cancelled timer stays in it, marked, until it comes to the top.
#[derive(Default)]
struct LazyHeap {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    next: u64,
    live: u64,
}

struct Slot {
    id: u64,
    is_live: bool,
}

impl LazyHeap {
    fn slot(&mut self, id: u64) -> usize {
        let slot = Slot { id, is_live: true };
        match self.free.pop() {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }
}

impl Timers for LazyHeap {
    type Handle = usize;

    fn add(&mut self, deadline_ns: u64, id: u64) -> usize {
        let index = self.slot(id);
        self.next += 1;
        self.live += 1;
        self.heap.push(Reverse((deadline_ns, self.next, index)));
        index
    }

    fn cancel(&mut self, index: usize) -> bool {
        self.live -= 1;
        std::mem::replace(&mut self.slots[index].is_live, false)
    }

    fn purge(&mut self) {
        let (slots, free) = (&self.slots, &mut self.free);
        self.heap.retain(|Reverse((_, _, index))| {
            let is_live = slots[*index].is_live;
            if !is_live {
                free.push(*index);
            }
            is_live
        });
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        while let Some(Reverse((deadline, _, index))) = self.heap.pop() {
            self.free.push(index);
            if self.slots[index].is_live {
                self.live -= 1;
                on_expire(deadline, self.slots[index].id);
            }
        }
    }

    fn len(&self) -> u64 {
        self.live
    }
}

/// An ordered map by deadline and insertion.
#[derive(Default)]
struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    next: u64,
}

impl Timers for Tree {
    type Handle = (u64, u64);

    fn add(&mut self, deadline_ns: u64, id: u64) -> (u64, u64) {
        self.next += 1;
        self.timers.insert((deadline_ns, self.next), id);
        (deadline_ns, self.next)
    }

    fn cancel(&mut self, key: (u64, u64)) -> bool {
        self.timers.remove(&key).is_some()
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        while let Some(((deadline, _), id)) = self.timers.pop_first() {
            on_expire(deadline, id);
        }
    }

    fn len(&self) -> u64 {
        self.timers.len() as u64
    }
}
