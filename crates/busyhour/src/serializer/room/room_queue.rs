use std::{collections::BTreeMap, mem, task::Waker};

/// Who waits for a place in a queue, in the order of arrival, and how many
/// places are kept for those whose turn has come.
#[derive(Default)]
pub(in crate::serializer) struct RoomQueue {
    waiting: BTreeMap<u64, Waker>,
    ticket_count: u64,
    kept_count: usize,
}

impl RoomQueue {
    pub(in crate::serializer) fn is_nothing(&self) -> bool {
        self.waiting.is_empty() && self.kept_count == 0
    }

    pub(in crate::serializer) fn kept_count(&self) -> usize {
        self.kept_count
    }

    /// Keeps a free place for somebody who does not wait yet; `false` if others
    /// wait.
    pub(super) fn keep(&mut self) -> bool {
        let is_first = self.waiting.is_empty();
        self.kept_count += usize::from(is_first);
        is_first
    }

    /// Waits behind all others; returns the ticket.
    pub(super) fn wait(&mut self, waker: Waker) -> u64 {
        let ticket = self.ticket_count;
        self.ticket_count += 1;
        self.waiting.insert(ticket, waker);
        ticket
    }

    /// Replaces the waker of a ticket that still waits and returns the old one;
    /// returns `waker` if a place is kept for the ticket.
    pub(super) fn still_waits(&mut self, ticket: u64, waker: Waker) -> Result<Waker, Waker> {
        match self.waiting.get_mut(&ticket) {
            Some(known) => Ok(mem::replace(known, waker)),
            None => Err(waker),
        }
    }

    /// Keeps a free place for the first that waits.
    pub(super) fn grant(&mut self) -> Option<Waker> {
        let (_ticket, waker) = self.waiting.pop_first()?;
        self.kept_count += 1;
        Some(waker)
    }

    /// The place is used, or free again. None is kept once the waiting has
    /// ended.
    pub(super) fn give_back(&mut self) {
        self.kept_count = self.kept_count.saturating_sub(1);
    }

    /// Gives up a ticket, or its place if it has one.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let waker = self.waiting.remove(&ticket);
        if waker.is_none() {
            self.give_back();
        }
        waker
    }

    /// Ends the waiting for all, for good: tickets and kept places are worth
    /// nothing from now on.
    pub(super) fn end(&mut self) -> Vec<Waker> {
        self.kept_count = 0;
        mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const CAPACITY: usize = 3;

    #[derive(Debug, Clone)]
    enum Operation {
        /// A future begins to wait, or gets a place at once.
        Ask,
        /// The future with this number, of those that have a place, uses it.
        Push(usize),
        /// A future is dropped: one that waits, or one that has a place.
        Drop(usize),
        /// A task is taken out of the queue.
        Run,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::Ask),
            any::<usize>().prop_map(Operation::Push),
            any::<usize>().prop_map(Operation::Drop),
            Just(Operation::Run),
        ]
    }

    /// The real room beside a queue of a known length, and the model: who
    /// waits, and who has a place.
    #[derive(Default)]
    struct Driver {
        room: RoomQueue,
        queued: usize,
        waiting: VecDeque<u64>,
        placed: Vec<Option<u64>>,
    }

    impl Driver {
        fn has_room(&self) -> bool {
            self.queued + self.room.kept_count() < CAPACITY
        }

        fn grant(&mut self) {
            while self.has_room() && self.room.grant().is_some() {
                let ticket = self.waiting.pop_front().expect("the model has it");
                assert!(
                    self.room
                        .still_waits(ticket, Waker::noop().clone())
                        .is_err()
                );
                self.placed.push(Some(ticket));
            }
        }

        fn run(&mut self, operation: &Operation) {
            match operation {
                Operation::Ask if self.has_room() && self.room.keep() => self.placed.push(None),
                Operation::Ask => {
                    let ticket = self.room.wait(Waker::noop().clone());
                    self.waiting.push_back(ticket);
                }
                Operation::Push(index) if !self.placed.is_empty() => {
                    self.placed.swap_remove(index % self.placed.len());
                    self.room.give_back();
                    self.queued += 1;
                }
                Operation::Drop(index) => self.forget(*index),
                Operation::Run => self.queued = self.queued.saturating_sub(1),
                Operation::Push(_) => {}
            }
            self.grant();
        }

        fn forget(&mut self, index: usize) {
            let all = self.waiting.len() + self.placed.len();
            let Some(index) = index.checked_rem(all) else {
                return;
            };
            match self.waiting.remove(index) {
                Some(ticket) => assert!(self.room.leave(ticket).is_some()),
                None => match self.placed.swap_remove(index - self.waiting.len()) {
                    Some(ticket) => assert!(self.room.leave(ticket).is_none()),
                    None => self.room.give_back(),
                },
            }
        }

        fn check(&self) {
            assert_eq!(self.room.kept_count(), self.placed.len());
            assert_eq!(self.room.waiting.len(), self.waiting.len());
            assert!(self.queued + self.placed.len() <= CAPACITY);
            assert!(
                self.waiting.is_empty() || !self.has_room(),
                "room for nobody"
            );
        }
    }

    proptest! {
        #[test]
        fn places_are_given_in_order_and_never_lost(
            operations in proptest::collection::vec(operation(), 0..200)
        ) {
            let mut driver = Driver::default();
            for operation in &operations {
                driver.run(operation);
                driver.check();
            }
        }
    }
}
