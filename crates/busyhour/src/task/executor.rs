use super::{Deliveries, Task};
use crate::clock::Instant;
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// Something that runs tasks: a pool, a serializer, a host's own event loop.
///
/// # Examples
///
/// An executor that runs every task at once, on the caller's thread:
///
/// ```
/// use busyhour::task::{Executor, Rejected, Task};
///
/// struct Inline;
///
/// impl Executor for Inline {
///     fn execute(&self, task: Task) -> Result<(), Rejected> {
///         task.run();
///         Ok(())
///     }
/// }
///
/// Inline.execute(Task::new(|| println!("at once"))).unwrap();
/// ```
#[doc(alias("execution_context", "scheduler"))]
pub trait Executor: Send + Sync {
    /// Takes a task and runs it once, now or later.
    ///
    /// # Errors
    ///
    /// [`Rejected`] returns the task, which has not run, with the reason.
    fn execute(&self, task: Task) -> Result<(), Rejected>;

    /// Like [`execute`](Self::execute), for a task of which each owner has at
    /// most one at a time, for example a subscription's turn. A bounded
    /// executor accepts it beyond the bound, since there cannot be many of
    /// them, and nothing would offer it again.
    ///
    /// The default calls [`execute`](Self::execute).
    ///
    /// # Errors
    ///
    /// [`Rejected`] returns the task, which has not run, with the reason.
    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.execute(task)
    }

    /// This executor as an `Arc` for later deliveries, if it is only a
    /// reference count inside: keeping it then allocates nothing.
    fn to_shared(&self) -> Option<Arc<dyn Executor>> {
        None
    }

    /// Runs `wait`, in which the calling thread sleeps until this executor has
    /// run something. If one of the executor's own threads may call this, it
    /// must provide a stand-in for that thread.
    ///
    /// The default only calls `wait`.
    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// Helps to run this executor's tasks, for a thread that has to wait for
    /// them; returns how the thread should continue.
    ///
    /// The default returns [`HelpOutcome::Wait`]: other threads run the tasks.
    fn assist(&self) -> HelpOutcome {
        HelpOutcome::Wait
    }

    /// Its name in lists, for example of [pending
    /// timers](crate::timer::Timers::pending). The default has none.
    fn name(&self) -> String {
        String::new()
    }

    /// The time by this executor's clock, which limits a turn to a quantum. The
    /// default has no clock; then only the count limits a turn.
    fn now(&self) -> Option<Instant> {
        None
    }

    /// Registers deliveries that wait for turns here, so that a shutdown ends
    /// them; `false` if the executor is shut down already. The default ignores
    /// them.
    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        let _ = deliveries;
        true
    }

    /// Removes the deliveries registered under this address.
    fn unregister(&self, deliveries: *const ()) {
        let _ = deliveries;
    }
}

/// How a thread that waits for an [`Executor`] should continue.
///
/// ```
/// use busyhour::{pool::TaskPool, task::{Executor, HelpOutcome}};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// // The pool's workers do its work: this thread may sleep.
/// assert_eq!(pool.assist(), HelpOutcome::Wait);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HelpOutcome {
    /// A task was run on the waiting thread: check again.
    Helped,
    /// Other threads run the tasks: sleep until something changes.
    Wait,
    /// The caller would wait for itself, or for tasks that no thread will run.
    WouldDeadlock,
}

/// Each method passes its call on to the executor that a pointer leads to.
macro_rules! executor_behind {
    ($pointer:ty) => {
        impl<T: Executor + ?Sized> Executor for $pointer {
            fn execute(&self, task: Task) -> Result<(), Rejected> {
                (**self).execute(task)
            }

            fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
                (**self).execute_unbounded(task)
            }

            fn to_shared(&self) -> Option<Arc<dyn Executor>> {
                (**self).to_shared()
            }

            fn blocking(&self, wait: &mut dyn FnMut()) {
                (**self).blocking(wait);
            }

            fn assist(&self) -> HelpOutcome {
                (**self).assist()
            }

            fn name(&self) -> String {
                (**self).name()
            }

            fn now(&self) -> Option<Instant> {
                (**self).now()
            }

            fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
                (**self).register(deliveries)
            }

            fn unregister(&self, deliveries: *const ()) {
                (**self).unregister(deliveries);
            }
        }
    };
}

executor_behind!(Arc<T>);
executor_behind!(&T);

/// A task that was not accepted, returned to the caller.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool, task::Reason};
///
/// let pool = TaskPool::simulated(1, Clock::simulated(Default::default()));
/// let narrow = pool.serializer("narrow").capacity(1).build().unwrap();
/// narrow.push(|| ()).unwrap();
/// let rejected = narrow.try_push(|| println!("now, then")).unwrap_err();
/// assert_eq!(rejected.reason, Reason::Full);
/// rejected.task.run(); // on this thread, for example
/// ```
#[derive(Debug)]
pub struct Rejected {
    /// The task, which has not run.
    pub task: Task,
    /// Why it was not accepted.
    pub reason: Reason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, .. } = self;
        write!(f, "task rejected: {reason}")
    }
}

impl std::error::Error for Rejected {}

/// Why an [`Executor`] did not accept a task.
///
/// ```
/// use busyhour::{pool::TaskPool, task::{Executor, Reason, Task}};
/// use std::time::Duration;
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// pool.shutdown(Duration::from_secs(1));
/// let rejected = pool.execute(Task::new(|| ())).unwrap_err();
/// assert_eq!(rejected.reason, Reason::ShutDown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The queue is at its bound, and its policy is [`Overflow::Reject`](super::Overflow::Reject).
    Full,
    /// The executor is shutting down or has shut down.
    ShutDown,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Full => "the queue is full",
            Self::ShutDown => "the executor is shut down",
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    struct Closed;

    impl Executor for Closed {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            let reason = Reason::ShutDown;
            Err(Rejected { task, reason })
        }
    }

    #[test]
    fn a_rejected_task_is_returned_unchanged() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let task = Task::new(move || sender.send(()).unwrap());
        let executor: Arc<dyn Executor> = Arc::new(Closed);

        let rejected = executor.execute(task).unwrap_err();
        assert_eq!(
            rejected.to_string(),
            "task rejected: the executor is shut down"
        );
        rejected.task.run();
        assert!(receiver.recv().is_ok());
    }
}
