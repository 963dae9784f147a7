//! Which workers sleep, and which one is woken. See README.md, "Falling
//! asleep".

use crate::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
    fences, lock,
};

/// The sleeping and searching workers of one pool.
#[derive(Debug, Default)]
pub(in crate::pool) struct Sleepers {
    /// The number of sleeping workers in the low half, of searching ones in the
    /// high half; changed under the mutex.
    word: AtomicU32,
    asleep: Mutex<Vec<usize>>,
}

/// What the last searcher does if there is more work than its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::pool) enum AfterSearch {
    Nothing,
    Wake,
    Grow,
}

impl Sleepers {
    /// Whether a push that was just published should wake a worker.
    #[inline(always)]
    pub(in crate::pool) fn should_wake(&self) -> bool {
        fences::light();
        let word = self.word.load(Ordering::Relaxed);
        word & ASLEEP_MASK > 0 && word < SEARCHING
    }

    /// Chooses a sleeper (`preferred` if it sleeps) and counts it as searching.
    /// The caller unparks it.
    pub(in crate::pool) fn take_sleeper(&self, preferred: Option<usize>) -> Option<usize> {
        let mut asleep = lock(&self.asleep);
        if self.word.load(Ordering::Relaxed) >= SEARCHING {
            return None;
        }
        let position = asleep.iter().position(|number| Some(*number) == preferred);
        let taken = match position {
            Some(index) => asleep.swap_remove(index),
            None => asleep.pop()?,
        };
        self.update(&asleep, |word| word - 1 + SEARCHING);
        Some(taken)
    }

    /// Takes all sleepers; each counts as searching.
    pub(in crate::pool) fn take_all(&self) -> Vec<usize> {
        let mut asleep = lock(&self.asleep);
        let taken = std::mem::take(&mut *asleep);
        let count = taken.len() as u32;
        self.update(&asleep, |word| word - count + count * SEARCHING);
        taken
    }

    /// An awake worker begins to search.
    pub(in crate::pool) fn begin_search(&self) {
        let asleep = lock(&self.asleep);
        self.update(&asleep, |word| word + SEARCHING);
    }

    /// A searching worker found work (or ends). If it was the last searcher, it
    /// must check whether there is more work: pushes have relied on that. If no
    /// worker sleeps, more work matters only where there may be more workers.
    pub(in crate::pool) fn end_search(&self, may_grow: bool) -> AfterSearch {
        let asleep = lock(&self.asleep);
        let word = self.update(&asleep, |word| word - SEARCHING);
        drop(asleep);
        let after = match word {
            0 if may_grow => AfterSearch::Grow,
            1..SEARCHING => AfterSearch::Wake,
            _ => return AfterSearch::Nothing,
        };
        fences::heavy();
        after
    }

    /// A searching worker is about to park. It must look at every queue once
    /// more after this, and call [`rouse`](Self::rouse) if it finds something.
    /// Returns how many workers sleep now.
    pub(in crate::pool) fn fall_asleep(&self, number: usize) -> usize {
        let mut asleep = lock(&self.asleep);
        asleep.push(number);
        let word = self.update(&asleep, |word| word - SEARCHING + 1);
        drop(asleep);
        fences::heavy();
        (word & ASLEEP_MASK) as usize
    }

    /// A worker that fell asleep is searching again of its own accord; `false`
    /// if another thread woke it, which has counted it as searching already.
    pub(in crate::pool) fn rouse(&self, number: usize) -> bool {
        let mut asleep = lock(&self.asleep);
        let position = asleep.iter().position(|other| *other == number);
        if let Some(index) = position {
            asleep.swap_remove(index);
            self.update(&asleep, |word| word - 1 + SEARCHING);
        }
        position.is_some()
    }

    /// Calls `look` while no worker can fall asleep or wake; `look` gets the
    /// number of sleeping workers.
    pub(in crate::pool) fn look<R>(&self, look: impl FnOnce(usize) -> R) -> R {
        let asleep = lock(&self.asleep);
        fences::heavy();
        look(asleep.len())
    }

    /// The number of sleeping workers for which `is_so` is true.
    pub(in crate::pool) fn count(&self, is_so: impl Fn(usize) -> bool) -> usize {
        let asleep = lock(&self.asleep);
        asleep.iter().filter(|number| is_so(**number)).count()
    }

    /// The workers that sleep.
    pub(in crate::pool) fn list(&self) -> Vec<usize> {
        lock(&self.asleep).to_vec()
    }

    pub(in crate::pool) fn asleep_len(&self) -> usize {
        (self.word.load(Ordering::Relaxed) & ASLEEP_MASK) as usize
    }

    /// Called only under the mutex, after the list was changed.
    fn update(&self, asleep: &[usize], change: impl FnOnce(u32) -> u32) -> u32 {
        let word = change(self.word.load(Ordering::Relaxed));
        debug_assert_eq!((word & ASLEEP_MASK) as usize, asleep.len());
        self.word.store(word, Ordering::SeqCst);
        word
    }
}

const SEARCHING: u32 = 1 << 16;
const ASLEEP_MASK: u32 = SEARCHING - 1;

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::atomic::AtomicBool;
    use loom::sync::Arc;

    /// The forbidden outcome: work was published, its pusher woke no worker,
    /// and the worker sleeps.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let sleepers = Arc::new(Sleepers::default());
            let work = Arc::new(AtomicBool::new(false));
            sleepers.begin_search();
            let pusher = {
                let (sleepers, work) = (Arc::clone(&sleepers), Arc::clone(&work));
                loom::thread::spawn(move || {
                    work.store(true, Ordering::Relaxed);
                    sleepers.should_wake() && sleepers.take_sleeper(None).is_some()
                })
            };
            sleepers.fall_asleep(0);
            let saw_work = work.load(Ordering::Relaxed);
            let roused = saw_work && sleepers.rouse(0);
            let woken = pusher.join().unwrap();
            assert!(saw_work || woken, "lost wake-up");
            assert!(!(roused && woken), "woken twice");
        });
    }

    /// A pusher that relies on a searcher: the searcher finds other work and,
    /// as the last one, looks again; or it falls asleep and looks again.
    #[test]
    fn loom_the_last_searcher_sees_what_was_left_to_it() {
        loom::model(|| {
            let sleepers = Arc::new(Sleepers::default());
            let work = Arc::new(AtomicBool::new(false));
            sleepers.begin_search();
            sleepers.fall_asleep(1);
            sleepers.begin_search();
            let pusher = {
                let (sleepers, work) = (Arc::clone(&sleepers), Arc::clone(&work));
                loom::thread::spawn(move || {
                    work.store(true, Ordering::Relaxed);
                    sleepers.should_wake()
                })
            };
            let looks_again = sleepers.end_search(false) == AfterSearch::Wake;
            let sees = looks_again && work.load(Ordering::Relaxed);
            let wakes = pusher.join().unwrap();
            assert!(sees || wakes, "work that nobody looks for");
        });
    }
}
