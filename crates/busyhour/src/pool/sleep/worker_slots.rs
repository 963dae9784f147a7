//! Which slots of a pool have a thread, and how many of the threads are blocked.

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};

/// The slots of a pool. Everything that decides whether a thread starts or ends
/// is written under one mutex; see README.md, "Standing in".
#[derive(Debug)]
pub(in crate::pool) struct WorkerSlots {
    slots: Mutex<SlotStates>,
    /// Taken slots; written under the mutex.
    len: AtomicUsize,
    /// Workers that are blocked; written under the mutex.
    blocked: AtomicUsize,
}

#[derive(Debug)]
struct SlotStates {
    states: Vec<SlotState>,
    /// Taken slots whose thread has decided to leave.
    leaving: usize,
    /// Threads that could not start because every slot was taken, some by
    /// threads that leave.
    owed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Free,
    Taken,
    Leaving,
}

impl WorkerSlots {
    pub(in crate::pool) fn new(slots: usize) -> Self {
        Self {
            slots: Mutex::new(SlotStates {
                states: vec![SlotState::Free; slots],
                leaving: 0,
                owed: 0,
            }),
            len: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
        }
    }

    /// Workers that have a thread.
    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// The slots that have a thread.
    pub(in crate::pool) fn taken(&self) -> Vec<usize> {
        let slots = lock(&self.slots);
        let states = slots.states.iter().enumerate();
        let taken = states.filter(|(_, state)| **state != SlotState::Free);
        taken.map(|(number, _)| number).collect()
    }

    /// Workers that have reported that they block.
    #[inline]
    pub(in crate::pool) fn blocked_len(&self) -> usize {
        self.blocked.load(Ordering::SeqCst)
    }

    /// A worker blocks. Until `unblock`, another worker stays in its place.
    pub(in crate::pool) fn block(&self) {
        let _slots = lock(&self.slots);
        self.blocked.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::pool) fn unblock(&self) {
        let _slots = lock(&self.slots);
        let before = self.blocked.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "each worker unblocks once");
    }

    /// Takes the first free slot for the caller.
    pub(in crate::pool) fn take_slot(&self) -> Option<usize> {
        let mut slots = lock(&self.slots);
        let is_free = |slot: &SlotState| *slot == SlotState::Free;
        let number = slots.states.iter().position(is_free)?;
        slots.states[number] = SlotState::Taken;
        self.len.fetch_add(1, Ordering::SeqCst);
        Some(number)
    }

    /// Whether one more thread may be started now, with `maximum` threads that
    /// are not blocked. If only leaving threads prevent it, the first of them
    /// that has left must start it.
    pub(in crate::pool) fn may_grow(&self, maximum: usize) -> bool {
        let mut slots = lock(&self.slots);
        let most = maximum + self.blocked_len();
        let may = self.len() < most;
        if !may && self.len() - slots.leaving < most && slots.owed < slots.leaving {
            slots.owed += 1;
        }
        may
    }

    /// How many threads stay, with a minimum of this many that are not blocked.
    /// A blocked worker keeps a stand-in, whatever the minimum.
    pub(in crate::pool) fn least(&self, minimum: usize) -> usize {
        match self.blocked_len() {
            0 => minimum,
            blocked => minimum.max(1) + blocked,
        }
    }

    /// Whether no thread is there that has not decided to leave.
    pub(in crate::pool) fn are_deserted(&self) -> bool {
        let slots = lock(&self.slots);
        self.len() == slots.leaving
    }

    /// Whether the thread at `number` may decide to leave, so that `minimum`
    /// others stay that are not blocked.
    pub(in crate::pool) fn may_leave(&self, number: usize, minimum: usize) -> bool {
        let mut slots = lock(&self.slots);
        debug_assert_eq!(slots.states[number], SlotState::Taken);
        let may = self.len() > self.least(minimum) + slots.leaving;
        if may {
            slots.states[number] = SlotState::Leaving;
            slots.leaving += 1;
        }
        may
    }

    /// A thread that was allowed to leave stays after all, and takes the place
    /// of one that is owed.
    pub(in crate::pool) fn stay(&self, number: usize) {
        let mut slots = lock(&self.slots);
        debug_assert_eq!(slots.states[number], SlotState::Leaving);
        slots.states[number] = SlotState::Taken;
        slots.leaving -= 1;
        slots.owed = slots.owed.saturating_sub(1);
    }

    /// A thread has left its slot; returns whether the caller must start
    /// another one.
    pub(in crate::pool) fn leave(&self, number: usize) -> bool {
        let mut slots = lock(&self.slots);
        let before = std::mem::replace(&mut slots.states[number], SlotState::Free);
        debug_assert_ne!(before, SlotState::Free, "a thread leaves once");
        slots.leaving -= usize::from(before == SlotState::Leaving);
        self.len.fetch_sub(1, Ordering::SeqCst);
        let is_owed = slots.owed > 0;
        slots.owed -= usize::from(is_owed);
        is_owed
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    /// The forbidden outcome: a worker is blocked, its stand-in has left or is
    /// about to, and no other thread was started or will be.
    #[test]
    fn loom_a_blocked_worker_keeps_its_stand_in() {
        loom::model(|| {
            let worker_slots = Arc::new(WorkerSlots::new(2));
            assert_eq!(
                (worker_slots.take_slot(), worker_slots.take_slot()),
                (Some(0), Some(1))
            );
            let idle = {
                let worker_slots = Arc::clone(&worker_slots);
                loom::thread::spawn(move || worker_slots.may_leave(1, 1) && worker_slots.leave(1))
            };
            worker_slots.block();
            // It finds no sleeper, since the idle worker is searching.
            let starts = worker_slots.may_grow(1);
            let started_for_it = idle.join().unwrap();
            let stands_in = worker_slots.len() == 2 || starts || started_for_it;
            assert!(stands_in, "a blocked worker without a stand-in");
        });
    }

    /// The forbidden outcome: an inline run leaves work to the last worker,
    /// which leaves without having seen it.
    #[test]
    fn loom_work_that_is_left_to_the_last_worker_is_seen() {
        loom::model(|| {
            let shared = Arc::new((WorkerSlots::new(1), AtomicUsize::new(0)));
            assert_eq!(shared.0.take_slot(), Some(0));
            let leaver = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    let (slots, waiting) = &*shared;
                    assert!(slots.may_leave(0, 0) && !slots.leave(0));
                    slots.are_deserted() && waiting.load(Ordering::Relaxed) > 0
                })
            };
            let (slots, waiting) = &*shared;
            waiting.store(1, Ordering::Relaxed);
            let starts = slots.are_deserted();
            let starts_at_its_end = leaver.join().unwrap();
            assert!(starts || starts_at_its_end, "nobody runs it");
        });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// This many slots, all of them taken.
    fn full(places: usize) -> WorkerSlots {
        let slots = WorkerSlots::new(places);
        assert!((0..places).all(|number| slots.take_slot() == Some(number)));
        assert_eq!((slots.len(), slots.take_slot()), (places, None));
        slots
    }

    #[test]
    fn one_more_thread_may_start_for_each_blocked_one() {
        let slots = full(3);
        assert!(slots.may_grow(4));
        assert!(!slots.may_grow(3) && !slots.may_grow(2));
        slots.block();
        assert!(slots.may_grow(3) && !slots.may_grow(2));
        slots.unblock();
        assert_eq!((slots.may_grow(3), slots.blocked_len()), (false, 0));
    }

    #[test]
    fn no_more_threads_leave_than_the_minimum_and_blocked_ones_allow() {
        let slots = full(4);
        slots.block();
        assert!(!slots.may_leave(0, 3));
        assert!(slots.may_leave(0, 1) && slots.may_leave(1, 1));
        assert!(!slots.may_leave(2, 1), "one works, and one is blocked");
        assert!(!slots.leave(0));
        assert_eq!((slots.len(), slots.take_slot()), (3, Some(0)));
        slots.stay(1);
        assert!(slots.may_leave(1, 1), "it stayed, and may think again");
    }

    #[test]
    fn the_last_thread_may_leave_unless_it_stands_in() {
        let slots = full(2);
        slots.block();
        assert!(!slots.may_leave(0, 0), "it stands in for the blocked one");
        slots.unblock();
        assert!(slots.may_leave(0, 0) && !slots.are_deserted());
        assert!(slots.may_leave(1, 0) && slots.are_deserted());
        slots.stay(1);
        assert!(!slots.are_deserted());
        assert!(!slots.leave(0) && slots.may_leave(1, 0) && !slots.leave(1));
        assert!(slots.are_deserted());
    }

    #[test]
    fn the_first_to_have_left_starts_the_thread_that_found_no_room() {
        let slots = full(2);
        assert!(slots.may_leave(1, 0));
        assert!(
            !slots.may_grow(2) && !slots.may_grow(2),
            "it is still there"
        );
        assert!(slots.leave(1), "it is owed");
        assert!(!slots.leave(0), "and only once");

        let slots = full(2);
        assert!(!slots.may_grow(2), "nobody leaves, so nobody is owed");
        assert!(slots.may_leave(1, 0));
        assert!(!slots.may_grow(1), "there will be one, which is enough");
        assert!(!slots.leave(1));

        let slots = full(2);
        assert!(slots.may_leave(1, 0));
        assert!(!slots.may_grow(2));
        slots.stay(1);
        assert!(!slots.leave(1), "who stays does the work itself");
    }
}
