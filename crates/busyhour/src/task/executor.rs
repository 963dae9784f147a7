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
/// An executor that runs everything at once, on the caller's thread:
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
    /// Takes a task to run it once.
    ///
    /// # Errors
    ///
    /// [`Rejected`] hands the task back, not run, with the reason.
    fn execute(&self, task: Task) -> Result<(), Rejected>;

    /// As [`execute`](Self::execute), for a task of which its owner has one
    /// at most: a topic's turn for a subscription. An executor with a bound
    /// takes it beyond the bound, since there can be no flood of them, and
    /// nobody would come back to offer it again.
    ///
    /// The default makes no difference between the two.
    ///
    /// # Errors
    ///
    /// [`Rejected`] hands the task back, not run, with the reason.
    fn execute_unbounded(&self, task: Task) -> Result<(), Rejected> {
        self.execute(task)
    }

    /// This executor as a handle to keep for later deliveries, if it is one
    /// reference count inside: keeping it then allocates nothing.
    fn to_shared(&self) -> Option<Arc<dyn Executor>> {
        None
    }

    /// Runs `wait`, in which the calling thread sleeps until this executor has
    /// run something. One whose own threads may be among the callers sees to
    /// it that another one stands in.
    ///
    /// The default just runs it.
    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// Helps along what this executor has been given, on behalf of a thread
    /// that has to wait for it; says how to go on.
    ///
    /// The default says that other threads see to it.
    fn assist(&self) -> HelpOutcome {
        HelpOutcome::Wait
    }

    /// The time by this executor's clock, for a turn that ends after a
    /// quantum. The default has no clock: then a turn ends by count alone.
    fn now(&self) -> Option<Instant> {
        None
    }

    /// Takes note of deliveries that wait for turns here, to end them at a
    /// shutdown; `false` when it has been shut down already. The default
    /// forgets them.
    fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
        let _ = deliveries;
        true
    }

    /// The deliveries registered under this address are no more.
    fn unregister(&self, deliveries: *const ()) {
        let _ = deliveries;
    }
}

/// How to go on waiting for an [`Executor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HelpOutcome {
    /// A task was run on the waiting thread: look again.
    Helped,
    /// Other threads run the tasks: sleep until there is a change.
    Wait,
    /// The caller would wait for itself, or for tasks that nobody will run.
    WouldDeadlock,
}

impl<T: Executor + ?Sized> Executor for Arc<T> {
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

impl<T: Executor + ?Sized> Executor for &T {
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

/// A task that was not accepted, handed back to the caller.
#[derive(Debug, thiserror::Error)]
#[error("task rejected: {reason}")]
pub struct Rejected {
    /// The task, which has not run.
    pub task: Task,
    /// Why it was not accepted.
    pub reason: Reason,
}

/// Why an [`Executor`] did not accept a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The queue is at its bound, and its policy is [`Overflow::Reject`](super::Overflow::Reject).
    Full,
    /// The executor is shutting down or has shut down.
    ShutDown,
    /// The executor is suspended and holds nothing back.
    Suspended,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Full => "the queue is full",
            Self::ShutDown => "the executor is shut down",
            Self::Suspended => "the executor is suspended",
        })
    }
}

#[cfg(test)]
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
    fn a_rejected_task_comes_back_whole() {
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
