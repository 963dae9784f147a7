//! Futures on the pool: a task that polls, and a handle that waits or aborts.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
};

use crate::{
    sync::{Condvar, Mutex, lock},
    task::{Rejected, Task},
};

/// Why a spawned future has no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// [`JoinHandle::abort`] came first.
    #[error("the future was aborted")]
    Aborted,
    /// The future panicked.
    #[error("the future panicked")]
    Panicked,
    /// The pool refused or dropped the future, or nobody can wake it any more.
    #[error("the future was dropped before it was ready")]
    Dropped,
}

/// Waits for a spawned future. Dropping the handle lets the future run on.
pub struct JoinHandle<T> {
    outcome: Arc<Outcome<T>>,
    abort: Weak<dyn Abort>,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(outcome: Arc<Outcome<T>>, abort: Weak<dyn Abort>) -> Self {
        Self { outcome, abort }
    }

    /// Drops the future at its next suspension point (at once, if it is not
    /// being polled). Does nothing when it is ready already.
    pub fn abort(&self) {
        if let Some(future) = self.abort.upgrade() {
            future.abort();
        }
    }

    /// Whether the future is ready, aborted or dropped.
    pub fn is_finished(&self) -> bool {
        lock(&self.outcome.state).is_finished
    }

    /// Blocks the thread until the future is ready. Inside a task `.await` the
    /// handle instead: a blocked worker runs nobody else.
    ///
    /// # Errors
    ///
    /// [`JoinError`] says why there is no output.
    pub fn wait(self) -> Result<T, JoinError> {
        let mut state = lock(&self.outcome.state);
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            let woken = self.outcome.finished.wait(state);
            state = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.outcome.state);
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        let replaced = state.waker.replace(context.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

/// Spawns `future`; `push` queues its polls, in the order and under the name of its executor.
pub(crate) fn spawn_on<F, P>(future: F, push: P) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    let outcome = Arc::new(Outcome::default());
    let spawned = Arc::new(Spawned {
        progress: Mutex::new(Progress::Queued),
        future: Mutex::new(Some(Polled {
            future: Box::pin(future),
            outcome: Arc::clone(&outcome),
        })),
        push,
    });
    let abort: Weak<dyn Abort> = Arc::downgrade(&(Arc::clone(&spawned) as Arc<dyn Abort>));
    spawned.enqueue();
    JoinHandle { outcome, abort }
}

/// Where the result waits for the handle.
pub(super) struct Outcome<T> {
    state: Mutex<OutcomeState<T>>,
    finished: Condvar,
}

struct OutcomeState<T> {
    result: Option<Result<T, JoinError>>,
    is_finished: bool,
    waker: Option<Waker>,
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(OutcomeState {
                result: None,
                is_finished: false,
                waker: None,
            }),
            finished: Condvar::new(),
        }
    }
}

impl<T> Outcome<T> {
    /// The first result counts.
    pub(super) fn finish(&self, result: Result<T, JoinError>) {
        let mut state = lock(&self.state);
        if state.is_finished {
            return;
        }
        state.is_finished = true;
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.finished.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The future and where its output goes; its drop without output is told too.
struct Polled<F: Future> {
    future: Pin<Box<F>>,
    outcome: Arc<Outcome<F::Output>>,
}

impl<F: Future> Drop for Polled<F> {
    fn drop(&mut self) {
        self.outcome.finish(Err(JoinError::Dropped));
    }
}

/// Whether a poll is queued. Queued at most once, however many wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Waits for a wake.
    Asleep,
    /// A poll is queued.
    Queued,
    /// Being polled.
    Polling,
    /// Being polled, and woken meanwhile: to be queued again.
    PollingWoken,
    /// Being polled, and aborted meanwhile: to be dropped.
    PollingAborted,
    /// Nothing more to do.
    Done,
}

struct Spawned<F: Future, P> {
    progress: Mutex<Progress>,
    future: Mutex<Option<Polled<F>>>,
    push: P,
}

/// What a handle can do to a future whose type it does not know.
pub(super) trait Abort: Send + Sync {
    fn abort(self: Arc<Self>);
}

impl<F, P> Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn enqueue(self: &Arc<Self>) {
        let poll = Poller(Some(Arc::clone(self)));
        if let Err(rejected) = (self.push)(Task::new(move || poll.run())) {
            drop(rejected);
        }
    }

    fn poll(self: &Arc<Self>) {
        if !self.begin_poll() {
            return;
        }
        let mut ending = EndOnPanic(Some(self));
        let waker = Waker::from(Arc::clone(self));
        let polled = self.poll_with(&mut Context::from_waker(&waker));
        ending.0 = None;
        match polled {
            Poll::Ready(()) => self.end(JoinError::Dropped),
            Poll::Pending => self.end_poll(),
        }
    }

    fn begin_poll(&self) -> bool {
        let mut progress = lock(&self.progress);
        let queued = *progress == Progress::Queued;
        if queued {
            *progress = Progress::Polling;
        }
        queued
    }

    fn poll_with(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut slot = lock(&self.future);
        let Some(polled) = slot.as_mut() else {
            return Poll::Ready(());
        };
        polled.future.as_mut().poll(context).map(|output| {
            polled.outcome.finish(Ok(output));
        })
    }

    fn end_poll(self: &Arc<Self>) {
        let mut progress = lock(&self.progress);
        match *progress {
            Progress::Polling => *progress = Progress::Asleep,
            Progress::PollingWoken => {
                *progress = Progress::Queued;
                drop(progress);
                self.enqueue();
            }
            _ => {
                drop(progress);
                self.end(JoinError::Aborted);
            }
        }
    }

    /// Drops the future; `error` counts if it has no output yet.
    fn end(&self, error: JoinError) {
        *lock(&self.progress) = Progress::Done;
        self.finish(error);
    }

    fn finish(&self, error: JoinError) {
        let future = lock(&self.future).take();
        if let Some(future) = future {
            future.outcome.finish(Err(error));
        }
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
            Progress::Asleep => {
                *progress = Progress::Queued;
                drop(progress);
                self.enqueue();
            }
            Progress::Polling => *progress = Progress::PollingWoken,
            _ => {}
        }
    }
}

impl<F, P> Abort for Spawned<F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn abort(self: Arc<Self>) {
        let mut progress = lock(&self.progress);
        match *progress {
            Progress::Polling | Progress::PollingWoken => {
                *progress = Progress::PollingAborted;
            }
            Progress::Asleep | Progress::Queued => {
                // Under the lock, so that no poll begins that this would wait for.
                *progress = Progress::Done;
                drop(progress);
                self.finish(JoinError::Aborted);
            }
            Progress::PollingAborted | Progress::Done => {}
        }
    }
}

/// The queued poll. Dropped without having run, it ends the future.
struct Poller<A: Pollable>(Option<Arc<A>>);

/// What a queued poll does to its future.
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

    fn was_dropped(&self) {
        self.end(JoinError::Dropped);
    }
}

/// Ends a future whose poll unwinds.
struct EndOnPanic<'a, F, P>(Option<&'a Spawned<F, P>>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static;

impl<F, P> Drop for EndOnPanic<'_, F, P>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    P: Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
{
    fn drop(&mut self) {
        if let Some(spawned) = self.0.take() {
            spawned.end(JoinError::Panicked);
        }
    }
}
