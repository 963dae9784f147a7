//! A cell in which one value waits for its receiver.

use std::task::{Poll, Waker};

use crate::sync::{Condvar, Mutex, lock, wait};

/// Written once, and read once: by a thread that sleeps for it, or by a task
/// that is woken for it. All foreign code (a waker, the drop of a value) is
/// returned to the caller, which runs it without the lock.
#[doc(alias("oneshot", "promise"))]
pub(in crate::pool) struct OneshotCell<V> {
    state: Mutex<OneshotState<V>>,
    filled: Condvar,
}

struct OneshotState<V> {
    value: Option<V>,
    is_filled: bool,
    /// No receiver will take the value.
    is_detached: bool,
    waker: Option<Waker>,
}

impl<V> Default for OneshotCell<V> {
    fn default() -> Self {
        Self {
            state: Mutex::new(OneshotState {
                value: None,
                is_filled: false,
                is_detached: false,
                waker: None,
            }),
            filled: Condvar::new(),
        }
    }
}

impl<V> OneshotCell<V> {
    pub(in crate::pool) fn is_filled(&self) -> bool {
        lock(&self.state).is_filled
    }

    /// Sets the value, unless one is set already, and wakes the receiver.
    /// Returns a value that no receiver will take, so that it can be dropped
    /// where a panic does no harm.
    #[must_use = "its drop is foreign code"]
    pub(in crate::pool) fn fill(&self, value: V) -> Option<V> {
        let mut state = lock(&self.state);
        if state.is_filled {
            return Some(value);
        }
        state.is_filled = true;
        let unclaimed = match state.is_detached {
            true => Some(value),
            false => state.value.replace(value),
        };
        let waker = state.waker.take();
        drop(state);
        self.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        unclaimed
    }

    /// The value, if it is there; `None` if it was taken before.
    pub(in crate::pool) fn take(&self) -> Poll<Option<V>> {
        lock(&self.state).take()
    }

    /// Like [`take`](Self::take); if the value is not there yet, `waker` is
    /// woken for it.
    pub(in crate::pool) fn poll_take(&self, waker: &Waker) -> Poll<Option<V>> {
        let waker = waker.clone();
        let mut state = lock(&self.state);
        let value = state.take();
        let unused = match value {
            Poll::Pending => state.waker.replace(waker),
            Poll::Ready(_) => Some(waker),
        };
        drop(state);
        drop(unused);
        value
    }

    /// Blocks the thread until the value is there; `None` if it was taken
    /// before.
    pub(in crate::pool) fn wait(&self) -> Option<V> {
        let mut state = lock(&self.state);
        loop {
            if let Poll::Ready(value) = state.take() {
                return value;
            }
            state = wait(&self.filled, state);
        }
    }

    /// Detaches the receiver: drops the value, if it is there.
    pub(in crate::pool) fn detach(&self) {
        let mut state = lock(&self.state);
        state.is_detached = true;
        let left = (state.value.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}

impl<V> OneshotState<V> {
    fn take(&mut self) -> Poll<Option<V>> {
        match self.is_filled {
            true => Poll::Ready(self.value.take()),
            false => Poll::Pending,
        }
    }
}
