//! Which places of a pool have a thread.

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};

/// The places of a pool, and how many are taken.
#[derive(Debug)]
pub(super) struct Crew {
    places: Mutex<Places>,
    /// Taken places; written under the mutex.
    len: AtomicUsize,
}

#[derive(Debug)]
struct Places {
    is_taken: Vec<bool>,
    /// Taken places whose thread has decided to leave.
    leaving: usize,
}

impl Crew {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: Mutex::new(Places {
                is_taken: vec![false; places],
                leaving: 0,
            }),
            len: AtomicUsize::new(0),
        }
    }

    /// Workers that have a thread.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// The first free place, which is then the caller's.
    pub(super) fn take_place(&self) -> Option<usize> {
        let mut places = lock(&self.places);
        let number = places.is_taken.iter().position(|is_taken| !is_taken)?;
        places.is_taken[number] = true;
        self.len.fetch_add(1, Ordering::SeqCst);
        Some(number)
    }

    /// Whether a thread may decide to leave, with `minimum` others staying.
    pub(super) fn may_leave(&self, minimum: usize) -> bool {
        let mut places = lock(&self.places);
        let may = self.len() > minimum + places.leaving;
        places.leaving += usize::from(may);
        may
    }

    /// A thread that may leave stays after all.
    pub(super) fn stay(&self) {
        lock(&self.places).leaving -= 1;
    }

    /// A thread has left its place.
    pub(super) fn leave(&self, number: usize) {
        let mut places = lock(&self.places);
        places.is_taken[number] = false;
        places.leaving = places.leaving.saturating_sub(1);
        self.len.fetch_sub(1, Ordering::SeqCst);
    }
}
