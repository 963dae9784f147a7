//! Seed 1, before: a sorted doubly linked list behind a mutex. Adding scans
//! from the head, and deleting unlinks.
//!
//! The nodes are in one array with indices as links, which uses the caches
//! better than the allocations of the original.

use std::sync::Mutex;

use kit::timers::Timers;

#[derive(Default)]
pub struct Scheduler(Mutex<List>);

#[derive(Default)]
struct List {
    nodes: Vec<Node>,
    free: Vec<usize>,
    head: Option<usize>,
    len: u64,
}

struct Node {
    deadline_ns: u64,
    id: u64,
    previous: Option<usize>,
    next: Option<usize>,
}

impl List {
    fn insert(&mut self, deadline_ns: u64, id: u64) -> usize {
        let (mut previous, mut next) = (None, self.head);
        while let Some(index) = next.filter(|index| self.nodes[*index].deadline_ns <= deadline_ns) {
            previous = next;
            next = self.nodes[index].next;
        }
        let index = self.store(Node {
            deadline_ns,
            id,
            previous,
            next,
        });
        self.link(previous, Some(index));
        if let Some(next) = next {
            self.nodes[next].previous = Some(index);
        }
        self.len += 1;
        index
    }

    fn remove(&mut self, index: usize) -> (u64, u64) {
        let Node {
            deadline_ns,
            id,
            previous,
            next,
        } = self.nodes[index];
        self.link(previous, next);
        if let Some(next) = next {
            self.nodes[next].previous = previous;
        }
        self.free.push(index);
        self.len -= 1;
        (deadline_ns, id)
    }

    fn link(&mut self, previous: Option<usize>, next: Option<usize>) {
        match previous {
            Some(previous) => self.nodes[previous].next = next,
            None => self.head = next,
        }
    }

    fn store(&mut self, node: Node) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.nodes[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }
}

impl Timers for Scheduler {
    type Handle = usize;

    fn add(&mut self, deadline_ns: u64, id: u64) -> usize {
        self.0.lock().unwrap().insert(deadline_ns, id)
    }

    fn cancel(&mut self, handle: usize) -> bool {
        self.0.lock().unwrap().remove(handle);
        true
    }

    fn expire_all(&mut self, mut on_expire: impl FnMut(u64, u64)) {
        loop {
            let mut list = self.0.lock().unwrap();
            let Some(head) = list.head else { return };
            let (deadline, id) = list.remove(head);
            drop(list);
            on_expire(deadline, id);
        }
    }

    fn len(&self) -> u64 {
        self.0.lock().unwrap().len
    }
}
