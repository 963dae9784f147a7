//! The place where a synchronous push finds its result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use super::blocking::blocking;
use crate::{
    pool::WaitError,
    sync::{Condvar, Mutex, lock, wait},
};

/// The reading half: filled exactly once, by the task's run or by its drop.
pub(crate) struct OneshotReceiver<R>(Arc<Oneshot<R>>);

/// The writing half, owned by the task.
pub(crate) struct OneshotSender<R>(Option<Arc<Oneshot<R>>>);

struct Oneshot<R> {
    outcome: Mutex<Option<Result<R, WaitError>>>,
    filled: Condvar,
}

/// A connected pair.
pub(crate) fn oneshot<R>() -> (OneshotSender<R>, OneshotReceiver<R>) {
    let cell = Arc::new(Oneshot {
        outcome: Mutex::new(None),
        filled: Condvar::new(),
    });
    (
        OneshotSender(Some(Arc::clone(&cell))),
        OneshotReceiver(cell),
    )
}

impl<R> OneshotReceiver<R> {
    /// Whether the outcome is known.
    pub(crate) fn is_filled(&self) -> bool {
        lock(&self.0.outcome).is_some()
    }

    /// The outcome, if known.
    pub(crate) fn take(&self) -> Option<Result<R, WaitError>> {
        lock(&self.0.outcome).take()
    }

    /// Blocks the thread until the outcome is known. A worker gets a stand-in
    /// only if it has to wait.
    pub(crate) fn wait(&self) -> Result<R, WaitError> {
        self.take().unwrap_or_else(|| blocking(|| self.sleep()))
    }

    fn sleep(&self) -> Result<R, WaitError> {
        let mut outcome = lock(&self.0.outcome);
        loop {
            if let Some(known) = outcome.take() {
                return known;
            }
            outcome = wait(&self.0.filled, outcome);
        }
    }
}

impl<R> OneshotSender<R> {
    /// Runs `f` and stores its result; a panic is stored too, and goes on
    /// unwinding so that the worker counts it.
    pub(crate) fn fulfil(mut self, f: impl FnOnce() -> R) {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => self.fill(Ok(result)),
            Err(panic) => {
                self.fill(Err(WaitError::Panicked));
                resume_unwind(panic);
            }
        }
    }

    fn fill(&mut self, result: Result<R, WaitError>) {
        if let Some(cell) = self.0.take() {
            *lock(&cell.outcome) = Some(result);
            cell.filled.notify_all();
        }
    }
}

impl<R> Drop for OneshotSender<R> {
    fn drop(&mut self) {
        self.fill(Err(WaitError::Dropped));
    }
}
