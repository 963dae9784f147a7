//! The place where a synchronous push finds its result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Poll,
};

use super::{blocking::blocking, oneshot_cell::OneshotCell};
use crate::pool::WaitError;

/// The reading half: filled exactly once, by the task's run or by its drop.
pub(crate) struct OneshotReceiver<R>(Arc<OneshotCell<Result<R, WaitError>>>);

/// The writing half, owned by the task.
pub(crate) struct OneshotSender<R>(Option<Arc<OneshotCell<Result<R, WaitError>>>>);

/// A connected pair.
pub(crate) fn oneshot<R>() -> (OneshotSender<R>, OneshotReceiver<R>) {
    let cell = Arc::new(OneshotCell::default());
    (
        OneshotSender(Some(Arc::clone(&cell))),
        OneshotReceiver(cell),
    )
}

impl<R> OneshotReceiver<R> {
    /// Whether the outcome is known.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.is_filled()
    }

    /// The outcome, if known and not taken before.
    pub(crate) fn take(&self) -> Option<Result<R, WaitError>> {
        match self.0.take() {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => None,
        }
    }

    /// Blocks the thread until the outcome is known. A worker gets a stand-in
    /// only if it has to wait.
    pub(crate) fn wait(self) -> Result<R, WaitError> {
        let outcome = self.take().or_else(|| blocking(|| self.0.wait()));
        outcome.unwrap_or(Err(WaitError::Dropped))
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
            drop(cell.fill(result));
        }
    }
}

impl<R> Drop for OneshotSender<R> {
    fn drop(&mut self) {
        self.fill(Err(WaitError::Dropped));
    }
}
