use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::RoomOutcome;
use crate::{
    pool::{JoinHandle, PushError, SectionWait},
    serializer::{Serializer, core::Core},
    sync::{Mutex, lock},
    task::{Rejected, Task},
};

/// Waits for room; from [`Serializer::reserve`].
///
/// ```
/// use busyhour::{pool::TaskPool, serializer::Reserve};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let calls = pool.serializer("calls").capacity(1).build().unwrap();
/// let waits: Reserve = calls.reserve();
/// let permit = waits.await.unwrap();
/// let message = "made only when there is a place for it".to_owned();
/// permit.push(move || println!("{message}")).unwrap();
/// # });
/// ```
#[must_use = "it waits only when it is awaited"]
pub struct Reserve {
    core: Arc<Core>,
    /// Its place among those that wait, or that got a place by waiting.
    ticket: Option<u64>,
    section_wait: Option<SectionWait>,
}

impl Reserve {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            ticket: None,
            section_wait: None,
        }
    }

    fn give_up(&mut self) {
        self.section_wait = None;
        if let Some(ticket) = self.ticket.take() {
            self.core.leave_room(ticket);
        }
    }

    fn granted(&mut self) -> Permit {
        self.section_wait = None;
        self.ticket = None;
        Permit::new(Arc::clone(&self.core))
    }
}

impl Future for Reserve {
    type Output = Result<Permit, PushError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let this = &mut *self;
        match this.core.poll_room(&mut this.ticket, waker) {
            RoomOutcome::Granted => Poll::Ready(Ok(this.granted())),
            RoomOutcome::Closed => {
                this.give_up();
                Poll::Ready(Err(PushError::ShutDown))
            }
            RoomOutcome::Waiting => {
                let awaited = || Some(this.core.as_entity());
                if SectionWait::note(&mut this.section_wait, awaited).is_ok() {
                    return Poll::Pending;
                }
                this.give_up();
                Poll::Ready(Err(PushError::Full))
            }
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("serializer", &self.core.name())
            .finish_non_exhaustive()
    }
}

/// A place for one task in a serializer's queue, from [`Serializer::reserve`] or
/// [`Serializer::try_reserve`]. Dropping it gives the place to the next that waits.
#[must_use = "dropping it gives the place back"]
pub struct Permit {
    /// Until the place is used.
    core: Option<Arc<Core>>,
}

impl Permit {
    /// The place is kept already.
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core: Some(core) }
    }

    /// Queues `f` in the place.
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] if the pool or the group is shutting down by
    /// now; `f` is then dropped.
    pub fn push(self, f: impl FnOnce() + Send + 'static) -> Result<(), PushError> {
        self.push_task(Task::new(f)).map_err(PushError::from)
    }

    /// Uses the place for `f`, and returns a handle of its result; see
    /// [`Serializer::run`].
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] if the pool or the group is shutting down by
    /// now; `f` is then dropped.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").capacity(1).build().unwrap();
    /// for number in 0..10 {
    ///     let answer = calls.reserve().await.unwrap().run(move || number + 1).unwrap();
    ///     assert_eq!(answer.await, Ok(number + 1));
    /// }
    /// # });
    /// ```
    pub fn run<R, F>(self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (serializer, first) = self.into_first_poll()?;
        serializer.spawn_bounded(async move { f() }, first)
    }

    /// Uses the place for a future that keeps the serializer for itself; see
    /// [`Serializer::spawn_exclusive`].
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] if the pool or the group is shutting down by
    /// now; the future is then dropped.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let orders = pool.serializer("orders").capacity(1).build().unwrap();
    /// let spawned = pool.spawn(async move {
    ///     let section = orders.reserve().await?.spawn_exclusive(async { 42 })?;
    ///     Ok::<_, busyhour::pool::PushError>(section)
    /// });
    /// let section = spawned.wait().unwrap().unwrap();
    /// assert_eq!(section.wait(), Ok(42));
    /// ```
    pub fn spawn_exclusive<F>(self, future: F) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (serializer, first) = self.into_first_poll()?;
        serializer.spawn_section(future, first)
    }

    /// What queues the first poll of a future in the place.
    #[expect(clippy::type_complexity, reason = "a pair that is taken apart at once")]
    fn into_first_poll(
        self,
    ) -> Result<
        (
            Serializer,
            impl Fn(Task) -> Result<(), Rejected> + Send + Sync,
        ),
        PushError,
    > {
        let core = self.core.clone().ok_or(PushError::ShutDown)?;
        // Only the first poll uses it.
        let place = Mutex::new(Some(self));
        let first = move |task| {
            let permit = lock(&place).take();
            permit.expect("one first poll").push_task(task)
        };
        Ok((Serializer { core }, first))
    }

    fn push_task(mut self, task: Task) -> Result<(), Rejected> {
        let core = self.core.take().expect("a permit is used once");
        core.push_in_place(task)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            core.give_place_back();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.core.as_ref().map(|core| core.name());
        f.debug_struct("Permit").field("serializer", &name).finish()
    }
}
