//! Which places of a pool have a thread, and how many of the threads are blocked.

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};

/// The places of a pool. All that decides whether a thread comes or goes is
/// written under one mutex; see README.md, "SchedState in".
#[derive(Debug)]
pub(super) struct Crew {
    places: Mutex<Places>,
    /// Taken places; written under the mutex.
    len: AtomicUsize,
    /// Workers that are blocked; written under the mutex.
    blocked: AtomicUsize,
}

#[derive(Debug)]
struct Places {
    places: Vec<Place>,
    /// Taken places whose thread has decided to leave.
    leaving: usize,
    /// Threads that were wanted while every place was taken, some by threads that leave.
    owed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    Taken,
    Leaving,
}

impl Crew {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: Mutex::new(Places {
                places: vec![Place::Free; places],
                leaving: 0,
                owed: 0,
            }),
            len: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
        }
    }

    /// Workers that have a thread.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// Workers that are blocked and said so.
    #[inline]
    pub(super) fn blocked_len(&self) -> usize {
        self.blocked.load(Ordering::SeqCst)
    }

    /// A worker blocks. Until `unblock` no other one may leave for it.
    pub(super) fn block(&self) {
        let _places = lock(&self.places);
        self.blocked.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn unblock(&self) {
        let _places = lock(&self.places);
        let before = self.blocked.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "each worker unblocks once");
    }

    /// The first free place, which is then the caller's.
    pub(super) fn take_place(&self) -> Option<usize> {
        let mut places = lock(&self.places);
        let is_free = |place: &Place| *place == Place::Free;
        let number = places.places.iter().position(is_free)?;
        places.places[number] = Place::Taken;
        self.len.fetch_add(1, Ordering::SeqCst);
        Some(number)
    }

    /// Whether a thread more may be started now, with `maximum` that are not
    /// blocked. Where only threads that leave stand in its way, the first of
    /// them to have left is to start it.
    pub(super) fn may_grow(&self, maximum: usize) -> bool {
        let mut places = lock(&self.places);
        let most = maximum + self.blocked_len();
        let may = self.len() < most;
        if !may && self.len() - places.leaving < most && places.owed < places.leaving {
            places.owed += 1;
        }
        may
    }

    /// Whether the thread at `number` may decide to leave, with `minimum` others
    /// staying that are not blocked.
    pub(super) fn may_leave(&self, number: usize, minimum: usize) -> bool {
        let mut places = lock(&self.places);
        debug_assert_eq!(places.places[number], Place::Taken);
        let may = self.len() > minimum + self.blocked_len() + places.leaving;
        if may {
            places.places[number] = Place::Leaving;
            places.leaving += 1;
        }
        may
    }

    /// A thread that may leave stays after all, and does the work of one that is owed.
    pub(super) fn stay(&self, number: usize) {
        let mut places = lock(&self.places);
        debug_assert_eq!(places.places[number], Place::Leaving);
        places.places[number] = Place::Taken;
        places.leaving -= 1;
        places.owed = places.owed.saturating_sub(1);
    }

    /// A thread has left its place; whether the caller is to start another one.
    pub(super) fn leave(&self, number: usize) -> bool {
        let mut places = lock(&self.places);
        let before = std::mem::replace(&mut places.places[number], Place::Free);
        debug_assert_ne!(before, Place::Free, "a thread leaves once");
        places.leaving -= usize::from(before == Place::Leaving);
        self.len.fetch_sub(1, Ordering::SeqCst);
        let is_owed = places.owed > 0;
        places.owed -= usize::from(is_owed);
        is_owed
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    /// The forbidden outcome: a worker is blocked, its stand-in has left or is
    /// about to, and nobody was started or is going to be.
    #[test]
    fn loom_a_blocked_worker_keeps_its_stand_in() {
        loom::model(|| {
            let crew = Arc::new(Crew::new(2));
            assert_eq!((crew.take_place(), crew.take_place()), (Some(0), Some(1)));
            let idle = {
                let crew = Arc::clone(&crew);
                loom::thread::spawn(move || crew.may_leave(1, 1) && crew.leave(1))
            };
            crew.block();
            // It finds nobody asleep, since the idle one looks around.
            let starts = crew.may_grow(1);
            let started_for_it = idle.join().unwrap();
            let stands_in = crew.len() == 2 || starts || started_for_it;
            assert!(stands_in, "a blocked worker without a stand-in");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As many places, all of them taken.
    fn full(places: usize) -> Crew {
        let crew = Crew::new(places);
        assert!((0..places).all(|number| crew.take_place() == Some(number)));
        assert_eq!((crew.len(), crew.take_place()), (places, None));
        crew
    }

    #[test]
    fn a_thread_more_may_come_for_each_that_is_blocked() {
        let crew = full(3);
        assert!(crew.may_grow(4));
        assert!(!crew.may_grow(3) && !crew.may_grow(2));
        crew.block();
        assert!(crew.may_grow(3) && !crew.may_grow(2));
        crew.unblock();
        assert_eq!((crew.may_grow(3), crew.blocked_len()), (false, 0));
    }

    #[test]
    fn no_more_leave_than_the_minimum_and_the_blocked_allow() {
        let crew = full(4);
        crew.block();
        assert!(!crew.may_leave(0, 3));
        assert!(crew.may_leave(0, 1) && crew.may_leave(1, 1));
        assert!(!crew.may_leave(2, 1), "one works, and one is blocked");
        assert!(!crew.leave(0));
        assert_eq!((crew.len(), crew.take_place()), (3, Some(0)));
        crew.stay(1);
        assert!(crew.may_leave(1, 1), "it stayed, and may think again");
    }

    #[test]
    fn the_first_to_have_left_starts_the_thread_that_found_no_room() {
        let crew = full(2);
        assert!(crew.may_leave(1, 0));
        assert!(!crew.may_grow(2) && !crew.may_grow(2), "it is still there");
        assert!(crew.leave(1), "it is owed");
        assert!(!crew.leave(0), "and only once");

        let crew = full(2);
        assert!(!crew.may_grow(2), "nobody leaves, so nobody is owed");
        assert!(crew.may_leave(1, 0));
        assert!(!crew.may_grow(1), "there will be one, which is enough");
        assert!(!crew.leave(1));

        let crew = full(2);
        assert!(crew.may_leave(1, 0));
        assert!(!crew.may_grow(2));
        crew.stay(1);
        assert!(!crew.leave(1), "who stays does the work itself");
    }
}
