//! The channel through which a synchronous push gets its result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Poll,
};

use super::{blocking::blocking, oneshot_cell::OneshotCell};
use crate::{
    pool::WaitError,
    sync::{Mutex, lock},
};

/// The receiver: it gets exactly one value, when the call has run or was
/// dropped.
pub(crate) struct OneshotReceiver<F, R>(Arc<Call<F, R>>);

/// The sender, owned by the task.
pub(crate) struct OneshotSender<F, R>(Arc<Call<F, R>>);

/// What one thread waits for and another one runs.
struct Call<F, R> {
    /// Taken by the thread that runs it, or that gives it up.
    work: Mutex<Option<F>>,
    outcome: OneshotCell<Result<R, WaitError>>,
}

/// A connected sender and receiver of the result of `f`.
pub(crate) fn oneshot<F, R>(f: F) -> (OneshotSender<F, R>, OneshotReceiver<F, R>) {
    let call = Arc::new(Call {
        work: Mutex::new(Some(f)),
        outcome: OneshotCell::default(),
    });
    (OneshotSender(Arc::clone(&call)), OneshotReceiver(call))
}

impl<F, R> OneshotReceiver<F, R> {
    /// Whether the result is known.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.outcome.is_filled()
    }

    /// The result, if it is known and was not taken before.
    pub(crate) fn take(&self) -> Option<Result<R, WaitError>> {
        match self.0.outcome.take() {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => None,
        }
    }

    /// Drops the call, so that its task does nothing; `false` if it has begun.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.take_work().is_some()
    }

    /// Blocks the thread until the result is known. A worker gets a stand-in
    /// only if it has to wait.
    pub(crate) fn wait(self) -> Result<R, WaitError> {
        let outcome = self.take().or_else(|| blocking(|| self.0.outcome.wait()));
        outcome.unwrap_or(Err(WaitError::Dropped))
    }
}

impl<F: FnOnce() -> R, R> OneshotSender<F, R> {
    /// Runs the call and stores its result, unless it was withdrawn. A panic is
    /// stored too, and then goes on unwinding so that the worker counts it.
    pub(crate) fn fulfil(self) {
        let Some(f) = self.0.take_work() else { return };
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => self.0.fill(Ok(result)),
            Err(panic) => {
                self.0.fill(Err(WaitError::Panicked));
                resume_unwind(panic);
            }
        }
    }
}

impl<F, R> Call<F, R> {
    fn take_work(&self) -> Option<F> {
        lock(&self.work).take()
    }

    fn fill(&self, result: Result<R, WaitError>) {
        drop(self.outcome.fill(result));
    }
}

impl<F, R> Drop for OneshotSender<F, R> {
    fn drop(&mut self) {
        // After the call, which the receiver may know to be gone.
        let _fills = FillsDropped(&self.0);
        drop(self.0.take_work());
    }
}

/// Tells the receiver, even if the drop of the call panics.
struct FillsDropped<'a, F, R>(&'a Call<F, R>);

impl<F, R> Drop for FillsDropped<'_, F, R> {
    fn drop(&mut self) {
        self.0.fill(Err(WaitError::Dropped));
    }
}
