//! Work on its way from one queue of a pool to another. See README.md, "Watermarks".

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Moves that have begun and ended. While one is under way, what it moves is in
/// none of the queues.
#[derive(Debug, Default)]
pub(super) struct Moves {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Somebody could not count, because work was on its way.
    is_awaited: AtomicBool,
}

impl Moves {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        // Before the move changes the length of a queue.
        fence(Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Ordering::Release);
        // Before `is_awaited` is read.
        fence(Ordering::SeqCst);
    }

    /// What `count` says of the queues if nothing moved meanwhile. Otherwise
    /// `None`, and [`is_awaited`](Self::is_awaited) is true after the move.
    ///
    /// Every move that `count` saw the beginning of is in `begun`, and every
    /// move in `ended` was whole before. For the rest, either this sees that
    /// the move has ended, and counts again, or who moves sees that it is
    /// awaited: both write, then have a sequentially consistent fence, then read.
    pub(super) fn count_at_rest(&self, count: impl Fn() -> usize) -> Option<usize> {
        loop {
            let ended = self.ended.load(Ordering::Acquire);
            let counted = count();
            fence(Ordering::Acquire);
            if self.begun.load(Ordering::Relaxed) == ended {
                return Some(counted);
            }
            self.is_awaited.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.begun.load(Ordering::Relaxed) != self.ended.load(Ordering::Acquire) {
                return None;
            }
        }
    }

    /// Whether somebody could not count since the last call.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::{Arc, atomic::AtomicUsize, thread};

    /// One task that is moved to and fro is never counted as gone, and who could
    /// not count it is not forgotten.
    #[test]
    fn loom_what_moves_is_counted_or_awaited() {
        loom::model(|| {
            let moves = Arc::new(Moves::default());
            let queues = Arc::new([AtomicUsize::new(1), AtomicUsize::new(0)]);
            let mover = thread::spawn({
                let (moves, queues) = (moves.clone(), queues.clone());
                move || {
                    moves.begin();
                    queues[0].store(0, Ordering::Relaxed);
                    queues[1].store(1, Ordering::Relaxed);
                    moves.end();
                    moves.is_awaited()
                }
            });
            let count = || {
                queues
                    .iter()
                    .map(|queue| queue.load(Ordering::Relaxed))
                    .sum()
            };
            let counted = moves.count_at_rest(count);
            let is_awaited = mover.join().unwrap();
            assert!(counted.is_none_or(|count: usize| count >= 1), "{counted:?}");
            assert!(counted.is_some() || is_awaited || moves.is_awaited());
        });
    }
}
