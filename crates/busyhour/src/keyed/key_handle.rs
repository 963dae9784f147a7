use std::{fmt, sync::Weak};

use super::entry::InUse;
use crate::{
    clock::Instant,
    pool::{JoinHandle, PushError},
    task::{Deliveries, Executor, HelpOutcome, Rejected, Task},
};

/// One key of a [`Keyed`](super::Keyed), from [`Keyed::key`](super::Keyed::key):
/// pushes without a search for the key, and an executor for timers and
/// subscriptions, whose tasks run in the key's order.
///
/// The key is not idle as long as this lives. Clones share the key.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{keyed::Keyed, runtime::Runtime};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::simulated(7);
/// let template = runtime.serializer("order").template()?;
/// let orders = Keyed::<u64>::builder(&template, runtime.timers())
///     .with_state(|_order| "open")
///     .build();
/// let order = orders.key(&7)?;
/// order.push(|state| *state = "paid")?;
/// // Runs as a task of this key, and pushes one that gets the state.
/// let expires = order.clone();
/// runtime.timers().after(Duration::from_secs(60), &order, move || {
///     _ = expires.push(|state| *state = "expired");
/// });
/// runtime.simulation().unwrap().run_for(Duration::from_secs(61));
/// assert_eq!(orders.push_wait(&7, |state| *state)?, "expired");
/// # Ok(())
/// # }
/// ```
#[doc(alias("strand", "actor reference"))]
pub struct KeyHandle<K, S = ()> {
    in_use: InUse<K, S>,
}

impl<K, S> KeyHandle<K, S> {
    pub(super) fn new(in_use: InUse<K, S>) -> Self {
        Self { in_use }
    }

    /// The key.
    pub fn key(&self) -> &K {
        self.in_use.key()
    }
}

impl<K, S> KeyHandle<K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    /// Queues `f` behind everything pushed before for this key; see
    /// [`Serializer::push`](crate::serializer::Serializer::push).
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::push`](crate::serializer::Serializer::push).
    pub fn push(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), PushError> {
        self.in_use.serializer().push(self.task(f))
    }

    /// Like [`push`](Self::push), but never waits, and returns a refused task.
    ///
    /// # Errors
    ///
    /// [`Rejected`] holds the task and the reason.
    pub fn try_push(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), Rejected> {
        self.in_use.serializer().try_push(self.task(f))
    }

    /// Queues `f` and returns a handle of its result; see
    /// [`Serializer::run`](crate::serializer::Serializer::run).
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::run`](crate::serializer::Serializer::run).
    pub fn run<R, F>(&self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.in_use.serializer().run(self.task(f))
    }

    fn task<R, F>(&self, f: F) -> impl FnOnce() -> R + Send + 'static + use<K, S, R, F>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        let in_use = self.in_use.clone();
        move || in_use.run(f)
    }

    /// A task that keeps the key until it has run: the handle may be gone by
    /// then, and without this use an eviction that was queued before the task
    /// would let others make the key anew, and run tasks beside it.
    fn keeping(&self, task: Task) -> Task {
        task.keeping(self.in_use.clone())
    }
}

/// Never waits, whatever the policy is. The tasks do not get the state: push one
/// that does.
impl<K, S> Executor for KeyHandle<K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.in_use.serializer().execute(self.keeping(task))
    }

    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        let serializer = self.in_use.serializer();
        serializer.execute_unbounded(self.keeping(task))
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        Executor::blocking(self.in_use.serializer(), wait);
    }

    fn assist(&self) -> HelpOutcome {
        self.in_use.serializer().assist()
    }

    fn name(&self) -> String {
        Executor::name(self.in_use.serializer())
    }

    fn now(&self) -> Option<Instant> {
        self.in_use.serializer().now()
    }

    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        self.in_use.serializer().register(deliveries)
    }

    fn unregister(&self, deliveries: *const ()) {
        self.in_use.serializer().unregister(deliveries);
    }
}

impl<K, S> Clone for KeyHandle<K, S> {
    fn clone(&self) -> Self {
        let in_use = self.in_use.clone();
        Self { in_use }
    }
}

impl<K: fmt::Debug, S> fmt::Debug for KeyHandle<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHandle")
            .field("key", self.key())
            .finish_non_exhaustive()
    }
}
