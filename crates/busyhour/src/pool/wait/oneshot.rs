//! The channel through which a synchronous push gets its result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Poll,
};

use super::{blocking::blocking, oneshot_cell::OneshotCell};
use crate::pool::WaitError;

/// The receiver: it gets exactly one value, when the task has run or was
/// dropped.
pub(crate) struct OneshotReceiver<R>(Arc<OneshotCell<Result<R, WaitError>>>);

/// The sender, owned by the task.
pub(crate) struct OneshotSender<R>(Option<Arc<OneshotCell<Result<R, WaitError>>>>);

/// A connected sender and receiver.
pub(crate) fn oneshot<R>() -> (OneshotSender<R>, OneshotReceiver<R>) {
    let cell = Arc::new(OneshotCell::default());
    (
        OneshotSender(Some(Arc::clone(&cell))),
        OneshotReceiver(cell),
    )
}

impl<R> OneshotReceiver<R> {
    /// Whether the result is known.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.is_filled()
    }

    /// The result, if it is known and was not taken before.
    pub(crate) fn take(&self) -> Option<Result<R, WaitError>> {
        match self.0.take() {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => None,
        }
    }

    /// Blocks the thread until the result is known. A worker gets a stand-in
    /// only if it has to wait.
    pub(crate) fn wait(self) -> Result<R, WaitError> {
        let outcome = self.take().or_else(|| blocking(|| self.0.wait()));
        outcome.unwrap_or(Err(WaitError::Dropped))
    }
}

impl<R> OneshotSender<R> {
    /// Runs `f` and stores its result. A panic is stored too, and then goes on
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
