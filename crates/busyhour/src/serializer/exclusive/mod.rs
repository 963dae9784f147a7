//! Exclusive sections: futures that keep a serializer for themselves until they
//! end. See README.md of the serializers, "Exclusive sections".

mod lent_state;
mod section;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

pub(crate) use lent_state::{LentState, StatePlace};
use section::ExclusiveSection;
pub(super) use section::{EndedSection, WaitingSection};

use super::{Serializer, StatefulSerializer};
use crate::{
    pool::{JoinHandle, PushError, try_spawn_on},
    task::{Rejected, Task},
};

/// The future that a closure makes for an [exclusive
/// section](StatefulSerializer::spawn_exclusive): a boxed `async` block.
pub type ExclusiveFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

impl Serializer {
    /// Runs a future as if it were one task: it begins behind everything pushed
    /// before, and no other task of this serializer runs until it has ended,
    /// while it waits neither. [`spawn`](Self::spawn) lets other tasks run
    /// between the polls instead.
    ///
    /// The future ends when it is ready, when it panics, or when it is dropped:
    /// by [`abort`](JoinHandle::abort), by a shutdown, or because nothing is
    /// left that could wake it. If the handle is dropped, the future continues.
    ///
    /// What waits behind it is bounded by the serializer's capacity, and so is
    /// the number of sections that wait. A future that never ends keeps the
    /// serializer for ever: put it into a
    /// [time limit](crate::timer::Timers::timeout).
    ///
    /// In the future, awaiting the handle of another future of the same
    /// serializer, or of one that waits for it in turn, would never end. This is
    /// found where a section awaits a [`JoinHandle`] or waits for room, also
    /// along a chain of sections and of threads that wait; the handle then
    /// returns [`JoinError::Deadlock`](crate::pool::JoinError::Deadlock). Waits
    /// through anything else, such as a channel, are not known. A wait that only
    /// another branch of a `select` could end counts as one that never ends.
    ///
    /// A shutdown waits for the end of a section that has begun, within its
    /// deadline. Then the future is dropped, and what waits behind it is
    /// reported.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] if the queue is full, whatever the overflow policy
    /// waits for, since this never blocks; with
    /// [`Overflow::DropOldest`](crate::task::Overflow::DropOldest) the oldest
    /// waiting task is dropped instead. [`PushError::ShutDown`] once the pool or
    /// the group is shutting down. The future is then dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::runtime::Runtime;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let orders = runtime.serializer("orders").build()?;
    /// let timers = runtime.timers().clone();
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let steps = sender.clone();
    /// let section = orders.spawn_exclusive(async move {
    ///     steps.send("begun").unwrap();
    ///     timers.sleep(Duration::from_millis(1)).await;
    ///     steps.send("ended").unwrap();
    /// })?;
    /// orders.push(move || sender.send("next").unwrap())?;
    /// section.wait()?;
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), ["begun", "ended", "next"]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("non-reentrant", "critical section", "async lock", "transaction"))]
    pub fn spawn_exclusive<F>(&self, future: F) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let future = self.core.check_room(future)?;
        let core = Arc::clone(&self.core);
        self.spawn_section(future, move |task| core.try_push(task, None))
    }

    /// `first` queues the first poll.
    pub(super) fn spawn_section<F>(
        &self,
        future: F,
        first: impl Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static,
    ) -> Result<JoinHandle<F::Output>, PushError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let section = ExclusiveSection::new(&self.core);
        let (pool, entity) = (Arc::clone(self.core.pool()), self.core.as_entity());
        let kept = Arc::clone(&section);
        let push = move |task| match kept.has_begun() {
            false => first(task),
            true => kept.push_poll(task),
        };
        let made = Arc::clone(&section);
        let future = exclusive(future, section);
        let spawned = try_spawn_on(&pool, Some(&entity), future, push, |future| {
            made.set_future(future);
        });
        spawned.map_err(PushError::from)
    }
}

/// Polls `future`, and keeps the serializer from its first suspension until it
/// is dropped.
async fn exclusive<F: Future>(future: F, section: Arc<ExclusiveSection>) -> F::Output {
    // Dropped last, when nothing of the future is left.
    let section = Leaves(section);
    let mut future = pin!(future);
    poll_fn(|context| section.0.poll(future.as_mut(), context)).await
}

/// Ends the section when it is dropped.
struct Leaves(Arc<ExclusiveSection>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl ExclusiveSection {
    fn poll<F: Future>(&self, future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.polling(|| future.poll(context));
        if polled.is_pending() && !self.keep() {
            // The pool is sealed: the wake drops the future.
            context.waker().wake_by_ref();
        }
        polled
    }
}

impl<S: Send + 'static> StatefulSerializer<S> {
    /// Runs a future that has the state until it ends; see
    /// [`Serializer::spawn_exclusive`].
    ///
    /// The closure gets the state when its turn has come. It returns a boxed
    /// future that borrows the state, so the state cannot leave the section.
    /// However the section ends, the next task gets the state as it is then.
    ///
    /// # Errors
    ///
    /// Those of [`Serializer::spawn_exclusive`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::runtime::Runtime;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let account = runtime.serializer("account").build()?.with_state(100_i64);
    /// let timers = runtime.timers().clone();
    /// let withdrawal = account.spawn_exclusive(move |balance| {
    ///     Box::pin(async move {
    ///         let before = *balance;
    ///         timers.sleep(Duration::from_millis(1)).await; // asks the bank
    ///         *balance = before - 30;
    ///     })
    /// })?;
    /// account.push(|balance| *balance += 5)?; // runs after the withdrawal
    /// withdrawal.wait()?;
    /// assert_eq!(account.push_wait(|balance| *balance)?, 75);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_exclusive<R, F>(&self, f: F) -> Result<JoinHandle<R>, PushError>
    where
        F: for<'a> FnOnce(&'a mut S) -> ExclusiveFuture<'a, R> + Send + 'static,
        R: Send + 'static,
    {
        let state = Arc::clone(&self.state);
        self.serializer.spawn_exclusive(async move {
            let mut state = LentState::take(state, || unreachable!("only sections take it"));
            f(state.get_mut()).await
        })
    }
}
