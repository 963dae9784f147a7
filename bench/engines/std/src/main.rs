//! Timers on collections of the standard library, in simple implementations.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use kit::{
    Args,
    args::refuse,
    timers::{self, Locked, Timers},
};

mod heap_service;

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario() {
        ("binary-heap", "timers") => timers::run(&args, LazyHeap::default),
        ("swept-heap", "timers") => timers::run(&args, SweptHeap::default),
        ("btreemap", "timers") => timers::run(&args, Tree::default),
        ("binary-heap", "timers-shared") => {
            timers::run_shared(&args, &Locked::<LazyHeap>::default())
        }
        ("btreemap", "timers-shared") => timers::run_shared(&args, &Locked::<Tree>::default()),
        ("heap-service", "timers-shared") => heap_service::run(&args),
        (variant, scenario) => refuse(&format!("{variant} does not do {scenario}")),
    }
}

/// A binary heap; a cancelled timer stays in it, with a mark, until it comes to the
/// top.
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

    /// The timers come to the top one after the other when their deadlines
    /// pass.
    fn purge(&mut self) {
        while let Some(Reverse((_, _, index))) = self.heap.peek() {
            if self.slots[*index].is_live {
                return;
            }
            self.free.push(*index);
            self.heap.pop();
        }
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

/// The same heap; when all timers have been cancelled, they are removed in one pass
/// without order.
#[derive(Default)]
struct SweptHeap(LazyHeap);

impl Timers for SweptHeap {
    type Handle = usize;

    fn add(&mut self, deadline_ns: u64, id: u64) -> usize {
        self.0.add(deadline_ns, id)
    }

    fn cancel(&mut self, index: usize) -> bool {
        self.0.cancel(index)
    }

    fn purge(&mut self) {
        let LazyHeap {
            heap, slots, free, ..
        } = &mut self.0;
        heap.retain(|Reverse((_, _, index))| {
            let is_live = slots[*index].is_live;
            if !is_live {
                free.push(*index);
            }
            is_live
        });
    }

    fn expire_all(&mut self, on_expire: impl FnMut(u64, u64)) {
        self.0.expire_all(on_expire);
    }

    fn len(&self) -> u64 {
        self.0.len()
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
