//! Where the result of a future waits for its handle.

use std::task::Waker;

use crate::{
    pool::JoinError,
    sync::{Condvar, Mutex, lock},
};

/// Shared by a future, which writes it once, and its handle, which reads it once.
/// Whatever foreign code there is to run (a waker, the drop of an output)
/// comes out of here, and is run without the lock.
pub(in crate::pool) struct JoinState<T> {
    state: Mutex<Progress<T>>,
    finished: Condvar,
}

struct Progress<T> {
    result: Option<Result<T, JoinError>>,
    is_finished: bool,
    /// The handle is gone: nobody will take the result.
    is_detached: bool,
    waker: Option<Waker>,
}

impl<T> Default for JoinState<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(Progress {
                result: None,
                is_finished: false,
                is_detached: false,
                waker: None,
            }),
            finished: Condvar::new(),
        }
    }
}

impl<T> JoinState<T> {
    pub(super) fn is_finished(&self) -> bool {
        lock(&self.state).is_finished
    }

    /// The first result counts, and wakes those who wait for it. A result that
    /// nobody will take comes back, to be dropped where a panic does no harm.
    #[must_use = "its drop is foreign code"]
    pub(in crate::pool) fn finish(
        &self,
        result: Result<T, JoinError>,
    ) -> Option<Result<T, JoinError>> {
        let mut state = lock(&self.state);
        if state.is_finished {
            return Some(result);
        }
        state.is_finished = true;
        let unclaimed = match state.is_detached {
            true => Some(result),
            false => state.result.replace(result),
        };
        let waker = state.waker.take();
        drop(state);
        self.finished.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        unclaimed
    }

    /// The result, if it is known.
    pub(in crate::pool) fn take(&self) -> Option<Result<T, JoinError>> {
        lock(&self.state).take()
    }

    /// The result, if it is known; else `waker` is woken for it.
    pub(super) fn poll_take(&self, waker: &Waker) -> Option<Result<T, JoinError>> {
        let waker = waker.clone();
        let mut state = lock(&self.state);
        let result = state.take();
        let unused = match result {
            None => state.waker.replace(waker),
            Some(_) => Some(waker),
        };
        drop(state);
        drop(unused);
        result
    }

    /// Blocks the thread until the result is known.
    pub(in crate::pool) fn wait(&self) -> Result<T, JoinError> {
        let mut state = lock(&self.state);
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            let woken = self.finished.wait(state);
            state = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// The handle goes; drops what it has not taken.
    pub(super) fn detach(&self) {
        let mut state = lock(&self.state);
        state.is_detached = true;
        let left = (state.result.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}

impl<T> Progress<T> {
    fn take(&mut self) -> Option<Result<T, JoinError>> {
        match self.result.take() {
            None if self.is_finished => Some(Err(JoinError::Taken)),
            result => result,
        }
    }
}
