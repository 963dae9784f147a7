//! Futures on the pool: a task that polls, and a handle that waits or aborts.

use std::{
    any::Any,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
};

use super::panic_payload::PanicPayload;
use crate::{
    pool::{
        Cycle,
        entity::Entity,
        shared::Shared,
        wait::{OneshotCell, SectionWait, Waiting, blocking, wait_for},
    },
    sync::{Mutex, lock},
    task::{Reason, Rejected, Task},
};

/// Why a spawned future has no output.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// [`JoinHandle::abort`] was called before the future was ready.
    Aborted,
    /// The future panicked.
    Panicked(PanicPayload),
    /// The pool refused or dropped the future, or no waker is left that could
    /// wake it.
    Dropped,
    /// The handle was already polled to completion and has returned the output.
    Taken,
    /// The wait would never end: the serializer that must poll the future waits
    /// for this one, or this [exclusive
    /// section](crate::serializer::Serializer::spawn_exclusive) keeps it.
    Deadlock(Cycle),
    /// In a simulation nothing is left that could wake the future.
    Stalled,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted => f.write_str("the future was aborted"),
            Self::Panicked(payload) => write!(f, "the future panicked{payload}"),
            Self::Dropped => f.write_str("the future was dropped before it was ready"),
            Self::Taken => f.write_str("the output was taken before"),
            Self::Deadlock(cycle) => write!(f, "waiting would never end: {cycle}"),
            Self::Stalled => f.write_str("nothing in the simulation can wake the future"),
        }
    }
}

impl std::error::Error for JoinError {}

impl JoinError {
    /// Whether the future panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// The payload of the panic, to be handled or raised again.
    ///
    /// # Errors
    ///
    /// The error itself, if it is not that of a panic.
    ///
    /// ```
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let panics = pool.spawn(async { std::panic::panic_any(7_u32) });
    /// let payload = panics.wait().unwrap_err().into_panic().unwrap();
    /// assert_eq!(payload.downcast_ref(), Some(&7_u32));
    /// ```
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self {
            Self::Panicked(payload) => Ok(payload.into_inner()),
            other => Err(other),
        }
    }

    /// For a panic that goes to the handle.
    pub(in crate::pool) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self::Panicked(PanicPayload::new(payload))
    }
}

/// What unwinds through a worker, which counts it, in the place of a payload
/// that the handle gets.
pub(in crate::pool) fn unwind_counted() -> ! {
    resume_unwind(Box::new(()))
}

/// The cell in which a future's result waits for its handle.
pub(in crate::pool) type JoinState<T> = OneshotCell<Result<T, JoinError>>;

/// Waits for a spawned future. If the handle is dropped the future continues,
/// and its output is then dropped on the pool; see
/// [`abort_on_drop`](Self::abort_on_drop). A result that is there already is
/// dropped with the handle, on the thread that drops it.
#[doc(alias("future", "Task"))]
pub struct JoinHandle<T> {
    outcome: Arc<JoinState<T>>,
    future: Weak<dyn Joinable>,
    /// The pool in which this handle is listed as waiting.
    noted_in: Option<Arc<Shared>>,
    /// The exclusive section that awaits it, if one does.
    section_wait: Option<SectionWait>,
    aborts_on_drop: bool,
}

impl<T> JoinHandle<T> {
    pub(in crate::pool) fn new(outcome: Arc<JoinState<T>>, future: Weak<dyn Joinable>) -> Self {
        Self {
            outcome,
            future,
            noted_in: None,
            section_wait: None,
            aborts_on_drop: false,
        }
    }

    /// Lets the end of this handle [abort](Self::abort) the future, unless it is
    /// ready by then: for work that nobody wants when its caller is gone.
    ///
    /// ```
    /// use std::future::pending;
    /// use busyhour::pool::TaskPool;
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let (alive, gone) = std::sync::mpsc::channel::<()>();
    /// let request = pool.spawn(async move {
    ///     let _alive = alive;
    ///     pending::<()>().await
    /// });
    /// drop(request.abort_on_drop()); // as a select or a timeout would
    /// assert!(gone.recv().is_err(), "what it captured is dropped");
    /// ```
    #[doc(alias("AbortOnDropHandle", "kill_on_drop"))]
    pub fn abort_on_drop(mut self) -> Self {
        self.aborts_on_drop = true;
        self
    }

    /// Drops the future at its next suspension point (at once, if it is not
    /// being polled). Does nothing if it is ready already.
    pub fn abort(&self) {
        if let Some(future) = self.future.upgrade() {
            future.abort();
        }
    }

    /// Whether the future is ready, aborted or dropped.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_filled()
    }

    /// Blocks the thread until the future is ready. In a task, prefer to
    /// `.await` the handle: on a worker `wait` needs a second thread, which
    /// stands in for it meanwhile.
    ///
    /// # Errors
    ///
    /// [`JoinError`] tells why there is no output.
    ///
    /// ```
    /// use busyhour::pool::{JoinError, TaskPool};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let calls = pool.serializer("calls").build().unwrap();
    /// let same = calls.clone();
    /// let inner = calls.push_wait(move || same.spawn(async { 1 }).wait()).unwrap();
    /// assert!(matches!(inner, Err(JoinError::Deadlock(_))));
    /// ```
    pub fn wait(mut self) -> Result<T, JoinError> {
        if let Some(result) = self.take() {
            return result;
        }
        let _waiting = self.wait_for_entity().map_err(JoinError::Deadlock)?;
        self.note_waiting();
        match &self.noted_in {
            Some(pool) if pool.is_simulated() => self.wait_in_simulation(pool),
            _ => blocking(|| self.outcome.wait()).unwrap_or(Err(JoinError::Taken)),
        }
    }

    /// The result, if it is known.
    fn take(&self) -> Option<Result<T, JoinError>> {
        match self.outcome.take() {
            Poll::Ready(result) => Some(result.unwrap_or(Err(JoinError::Taken))),
            Poll::Pending => None,
        }
    }

    fn wait_in_simulation(&self, pool: &Arc<Shared>) -> Result<T, JoinError> {
        loop {
            if let Some(result) = self.take() {
                return result;
            }
            if !pool.step_or_pass_time() {
                return Err(JoinError::Stalled);
            }
        }
    }

    /// Records the wait for the entity that polls the future, if it is known.
    fn wait_for_entity(&self) -> Result<Option<Waiting>, Cycle> {
        let entity = self.future.upgrade().and_then(Joinable::entity);
        entity.as_ref().map(wait_for).transpose()
    }

    /// Lists the handle so that a shutdown finds the future, which may be in no
    /// queue while it sleeps. Either the shutdown sees the entry, or this sees
    /// that the pool is sealed.
    fn note_waiting(&mut self) {
        if self.noted_in.is_some() {
            return;
        }
        let Some(future) = self.future.upgrade() else {
            return;
        };
        let pool = Arc::clone(future.pool());
        pool.awaited_futures
            .insert(self.key(), Weak::clone(&self.future));
        if pool.is_sealed() {
            future.wake_now();
        }
        self.noted_in = Some(pool);
    }

    /// Records the wait, if an exclusive section awaits the handle.
    fn note_section(&mut self) -> Result<(), Cycle> {
        SectionWait::note(&mut self.section_wait, || {
            self.future.upgrade().and_then(Joinable::entity)
        })
    }

    fn key(&self) -> usize {
        Arc::as_ptr(&self.outcome).addr()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.outcome.poll_take(context.waker()) {
            self.section_wait = None;
            return Poll::Ready(result.unwrap_or(Err(JoinError::Taken)));
        }
        if let Err(cycle) = self.note_section() {
            return Poll::Ready(Err(JoinError::Deadlock(cycle)));
        }
        self.note_waiting();
        Poll::Pending
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(pool) = &self.noted_in {
            pool.awaited_futures.remove(self.key());
        }
        if self.aborts_on_drop {
            self.abort();
        }
        self.outcome.detach();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

/// Spawns `future` on `pool`; `push` queues its polls. `entity` is the
/// serializer that runs them, if there is one.
///
/// If the first poll is refused, the handle tells that the future was dropped.
pub(crate) fn spawn_on<F, P>(
    pool: &Arc<Shared>,
    entity: Option<&Arc<dyn Entity>>,
    future: F,
    push: P,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    let (outcome, spawned) = new_spawned(pool, entity, future, push);
    let _tells_by_the_handle = spawned.enqueue();
    let joinable: Weak<dyn Joinable> = Arc::<Spawned<F, P>>::downgrade(&spawned);
    JoinHandle::new(outcome, joinable)
}

/// Like [`spawn_on`], but returns why the first poll was refused; the future is
/// dropped then. `made` gets the future before its first poll.
pub(crate) fn try_spawn_on<F, P>(
    pool: &Arc<Shared>,
    entity: Option<&Arc<dyn Entity>>,
    future: F,
    push: P,
    made: impl FnOnce(&Weak<dyn Joinable>),
) -> Result<JoinHandle<F::Output>, Reason>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    let (outcome, spawned) = new_spawned(pool, entity, future, push);
    let joinable: Weak<dyn Joinable> = Arc::<Spawned<F, P>>::downgrade(&spawned);
    made(&joinable);
    spawned.enqueue()?;
    Ok(JoinHandle::new(outcome, joinable))
}

#[expect(clippy::type_complexity, reason = "a pair that is taken apart at once")]
fn new_spawned<F, P>(
    pool: &Arc<Shared>,
    entity: Option<&Arc<dyn Entity>>,
    future: F,
    push: P,
) -> (Arc<JoinState<F::Output>>, Arc<Spawned<F, P>>)
where
    F: Future,
{
    pool.thread_context().count_spawned();
    let outcome = Arc::new(JoinState::default());
    let spawned = Arc::new(Spawned {
        pool: Arc::clone(pool),
        entity: entity.map(Arc::downgrade),
        progress: Mutex::new(SpawnPhase::Queued),
        future: Mutex::new(Some(Box::pin(future))),
        outcome: Arc::clone(&outcome),
        push,
    });
    (outcome, spawned)
}

/// The state of the polls. At most one poll is queued, however many wakes there
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpawnPhase {
    /// Waits for a wake.
    Asleep,
    /// A poll is queued.
    Queued,
    /// Being polled.
    Polling,
    /// Being polled, and woken meanwhile: to be queued again.
    PollingWoken,
    /// Being polled, and aborted meanwhile: must be dropped.
    PollingAborted,
    /// Finished.
    Done,
}

struct Spawned<F: Future, P> {
    pool: Arc<Shared>,
    /// The serializer that polls it, if there is one.
    entity: Option<Weak<dyn Entity>>,
    progress: Mutex<SpawnPhase>,
    /// `None` while it is polled, and once it has ended.
    future: Mutex<Option<Pin<Box<F>>>>,
    outcome: Arc<JoinState<F::Output>>,
    push: P,
}

/// What a handle can do with a future of unknown type.
pub(crate) trait Joinable: Send + Sync {
    fn abort(self: Arc<Self>);
    /// Wakes it for no reason of its own; if the pool is sealed, that ends it.
    fn wake_now(self: Arc<Self>);
    fn pool(&self) -> &Arc<Shared>;
    /// The entity whose turns poll it.
    fn entity(self: Arc<Self>) -> Option<Arc<dyn Entity>>;
}

impl<F, P> Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    /// A poll that is refused ends the future.
    fn enqueue(self: &Arc<Self>) -> Result<(), Reason> {
        let poll = Poller(Some(Arc::clone(self)));
        (self.push)(Task::new(move || poll.run())).map_err(|Rejected { task, reason }| {
            drop(task);
            reason
        })
    }

    /// The future is taken out of the mutex while it is polled, so no lock is
    /// held.
    fn poll(self: &Arc<Self>) {
        if !self.begin_poll() {
            return;
        }
        let Some(mut future) = lock(&self.future).take() else {
            return;
        };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let poll = || (self.pool).in_poll_context(|| future.as_mut().poll(&mut context));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => self.end_poll(future),
            Ok(Poll::Ready(output)) => self.end(Some(future), Ok(output)),
            Err(panic) => {
                self.end(Some(future), Err(JoinError::panicked(panic)));
                unwind_counted();
            }
        }
    }

    fn begin_poll(&self) -> bool {
        let mut progress = lock(&self.progress);
        let queued = *progress == SpawnPhase::Queued;
        if queued {
            *progress = SpawnPhase::Polling;
        }
        queued
    }

    /// Puts the future back, unless it was aborted meanwhile.
    fn end_poll(self: &Arc<Self>, future: Pin<Box<F>>) {
        let before = lock(&self.future).replace(future);
        debug_assert!(before.is_none(), "one poll at a time");
        let mut progress = lock(&self.progress);
        match *progress {
            SpawnPhase::Polling => *progress = SpawnPhase::Asleep,
            SpawnPhase::PollingWoken => {
                *progress = SpawnPhase::Queued;
                drop(progress);
                let _ends_it = self.enqueue();
            }
            _ => {
                drop(progress);
                self.end_early(JoinError::Aborted);
            }
        }
    }

    /// Drops the future, wherever it is; `error` becomes the result if there is
    /// none yet.
    fn end_early(&self, error: JoinError) {
        let future = lock(&self.future).take();
        self.end(future, Err(error));
    }

    fn end(&self, future: Option<Pin<Box<F>>>, result: Result<F::Output, JoinError>) {
        *lock(&self.progress) = SpawnPhase::Done;
        end(&self.pool, future, &self.outcome, result);
    }
}

/// Drops the future, then sets its result, so that a handle that gets the
/// result finds the captures dropped. Both run foreign code, whose panics are
/// caught and counted.
pub(in crate::pool) fn end<F: Future>(
    pool: &Shared,
    future: Option<Pin<Box<F>>>,
    outcome: &JoinState<F::Output>,
    result: Result<F::Output, JoinError>,
) {
    pool.isolate(|| pool.in_poll_context(|| drop(future)));
    pool.isolate(|| drop(outcome.fill(result)));
}

impl<F: Future, P> Drop for Spawned<F, P> {
    /// No waker is left that could wake it.
    fn drop(&mut self) {
        let future = lock(&self.future).take();
        end(&self.pool, future, &self.outcome, Err(JoinError::Dropped));
        self.pool.thread_context().count_freed();
    }
}

impl<F, P> Wake for Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn wake(self: Arc<Self>) {
        let mut progress = lock(&self.progress);
        match *progress {
            SpawnPhase::Asleep => {
                *progress = SpawnPhase::Queued;
                drop(progress);
                let _ends_it = self.enqueue();
            }
            SpawnPhase::Polling => *progress = SpawnPhase::PollingWoken,
            _ => {}
        }
    }
}

impl<F, P> Joinable for Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn abort(self: Arc<Self>) {
        let mut progress = lock(&self.progress);
        match *progress {
            SpawnPhase::Polling | SpawnPhase::PollingWoken => {
                *progress = SpawnPhase::PollingAborted;
            }
            SpawnPhase::Asleep | SpawnPhase::Queued => {
                // Under the lock, so that no poll begins for which this would
                // wait.
                *progress = SpawnPhase::Done;
                drop(progress);
                self.end_early(JoinError::Aborted);
            }
            SpawnPhase::PollingAborted | SpawnPhase::Done => {}
        }
    }

    fn wake_now(self: Arc<Self>) {
        self.wake();
    }

    fn pool(&self) -> &Arc<Shared> {
        &self.pool
    }

    fn entity(self: Arc<Self>) -> Option<Arc<dyn Entity>> {
        self.entity.as_ref()?.upgrade()
    }
}

/// The queued poll. If it is dropped without having run, it ends the future.
struct Poller<A: Pollable>(Option<Arc<A>>);

/// How a queued poll affects its future.
trait Pollable {
    fn poll_now(self: &Arc<Self>);
    fn was_dropped(&self);
}

impl<A: Pollable> Poller<A> {
    fn run(mut self) {
        if let Some(spawned) = self.0.take() {
            spawned.poll_now();
        }
    }
}

impl<A: Pollable> Drop for Poller<A> {
    fn drop(&mut self) {
        if let Some(spawned) = self.0.take() {
            spawned.was_dropped();
        }
    }
}

impl<F, P> Pollable for Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn poll_now(self: &Arc<Self>) {
        self.poll();
    }

    /// Who has ended the future, and drops its poll with it, sets the result.
    fn was_dropped(&self) {
        if *lock(&self.progress) != SpawnPhase::Done {
            self.end_early(JoinError::Dropped);
        }
    }
}
