use std::{fmt, sync::Arc};

use super::Serializer;
use crate::{
    pool::{JoinHandle, PushError, WaitError},
    sync::{Mutex, try_lock},
    task::Rejected,
};

/// A serializer with a state of its own: each task gets it as `&mut S`. Clones
/// share both.
///
/// The tasks run one at a time, so no task waits for the state, and the user's
/// code needs no lock. The state is dropped with the last handle and the last
/// task, on the thread that drops them.
///
/// A task that panics leaves the state as it was at that moment; the next task
/// gets it like that.
///
/// ```
/// use busyhour::pool::TaskPool;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = TaskPool::builder().workers(2).build()?;
/// let account = pool.serializer("account").build()?.with_state(0_i64);
/// for amount in [100, -30, 5] {
///     account.push(move |balance| *balance += amount)?;
/// }
/// assert_eq!(account.push_wait(|balance| *balance)?, 75);
/// # Ok(())
/// # }
/// ```
#[doc(alias("actor", "agent", "GenServer"))]
pub struct StatefulSerializer<S> {
    pub(super) serializer: Serializer,
    /// `None` while an exclusive section has it.
    pub(super) state: Arc<Mutex<Option<S>>>,
}

impl Serializer {
    /// This serializer with a state that the tasks pushed through the result
    /// get as `&mut S`. Other handles of the serializer stay as they are, and
    /// their tasks run in the same order.
    pub fn with_state<S: Send + 'static>(self, state: S) -> StatefulSerializer<S> {
        StatefulSerializer {
            serializer: self,
            state: Arc::new(Mutex::new(Some(state))),
        }
    }
}

impl<S: Send + 'static> StatefulSerializer<S> {
    /// The serializer without the state.
    pub fn serializer(&self) -> &Serializer {
        &self.serializer
    }

    /// See [`Serializer::push`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::push`].
    pub fn push(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), PushError> {
        self.serializer.push(self.task(f))
    }

    /// See [`Serializer::try_push`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::try_push`].
    pub fn try_push(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), Rejected> {
        self.serializer.try_push(self.task(f))
    }

    /// See [`Serializer::push_keyed`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::push_keyed`].
    pub fn push_keyed(
        &self,
        key: u64,
        f: impl FnOnce(&mut S) + Send + 'static,
    ) -> Result<(), PushError> {
        self.serializer.push_keyed(key, self.task(f))
    }

    /// See [`Serializer::push_wait`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::push_wait`].
    pub fn push_wait<R, F>(&self, f: F) -> Result<R, WaitError>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.serializer.push_wait(self.task(f))
    }

    /// Queues `f` and returns a handle of its result; see [`Serializer::run`].
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::try_spawn`].
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let account = pool.serializer("account").build().unwrap().with_state(100_i64);
    /// let left = account.run(|balance| { *balance -= 30; *balance }).unwrap();
    /// assert_eq!(left.await, Ok(70));
    /// # });
    /// ```
    #[doc(alias("ask", "call", "request"))]
    pub fn run<R, F>(&self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.serializer.run(self.task(f))
    }

    pub(super) fn task<R, F>(&self, f: F) -> impl FnOnce() -> R + Send + 'static + use<S, R, F>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        let state = Arc::clone(&self.state);
        // Never waits: only tasks of this serializer take it, one at a time.
        move || {
            let mut state = try_lock(&state).expect("tasks of a serializer run one at a time");
            f(state
                .as_mut()
                .expect("no task runs in an exclusive section"))
        }
    }
}

impl<S> Clone for StatefulSerializer<S> {
    fn clone(&self) -> Self {
        Self {
            serializer: self.serializer.clone(),
            state: Arc::clone(&self.state),
        }
    }
}

impl<S> fmt::Debug for StatefulSerializer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatefulSerializer")
            .field("serializer", &self.serializer)
            .finish_non_exhaustive()
    }
}
