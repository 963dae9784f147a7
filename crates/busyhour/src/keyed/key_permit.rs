use std::fmt;

use super::entry::InUse;
use crate::{
    pool::{JoinHandle, PushError},
    serializer::{ExclusiveFuture, Permit},
};

/// A place for one task in a key's queue, from
/// [`Keyed::reserve`](super::Keyed::reserve) or
/// [`Keyed::try_reserve`](super::Keyed::try_reserve). The key stays meanwhile.
/// Dropping it gives the place to the next that waits.
#[must_use = "dropping it gives the place back"]
pub struct KeyPermit<K, S = ()> {
    permit: Permit,
    in_use: InUse<K, S>,
}

impl<K, S> KeyPermit<K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    pub(super) fn new(permit: Permit, in_use: InUse<K, S>) -> Self {
        Self { permit, in_use }
    }

    /// Queues `f` in the place.
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] if the pool or the group is shutting down by
    /// now; `f` is then dropped.
    pub fn push(self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), PushError> {
        let Self { permit, in_use } = self;
        permit.push(move || in_use.run(f))
    }

    /// Queues `f` in the place and returns a handle of its result.
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push).
    pub fn run<R, F>(self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        let Self { permit, in_use } = self;
        permit.run(move || in_use.run(f))
    }

    /// Uses the place for a future that has the state until it ends; see
    /// [`Keyed::spawn_exclusive`](super::Keyed::spawn_exclusive).
    ///
    /// # Errors
    ///
    /// [`PushError::ShutDown`] if the pool or the group is shutting down by
    /// now; the future is then dropped.
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let template = runtime.serializer("order").capacity(1).template()?;
    /// let orders = Keyed::<u64>::builder(&template, runtime.timers())
    ///     .with_state(|_order| 0)
    ///     .build();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// for _ in 0..10 {
    ///     let place = orders.reserve(&7).await?;
    ///     let step = place.spawn_exclusive(|count| Box::pin(async move { *count += 1 }))?;
    ///     step.await?;
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// assert_eq!(orders.push_wait(&7, |count| *count)?, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_exclusive<R, F>(self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: for<'a> FnOnce(&'a mut S) -> ExclusiveFuture<'a, R> + Send + 'static,
        R: Send + 'static,
    {
        let Self { permit, in_use } = self;
        permit.spawn_exclusive(in_use.exclusive(f))
    }
}

impl<K: fmt::Debug, S> fmt::Debug for KeyPermit<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPermit")
            .field("key", self.in_use.key())
            .finish_non_exhaustive()
    }
}
