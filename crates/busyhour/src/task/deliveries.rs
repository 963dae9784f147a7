/// The deliveries of one subscription, which wait for turns on an executor.
///
/// The executor that runs the turns ends the deliveries at a shutdown, so that
/// those that will never be made are counted and waiting threads are woken.
/// Another kind of executor can do the same: it keeps the weak reference from
/// [`Executor::register`](super::Executor::register).
///
/// ```
/// use busyhour::{bus::{Event, Topic}, task::{Deliveries, Executor, Rejected, Task}};
/// use std::sync::{Arc, Mutex, Weak};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// /// Keeps turns until it ends.
/// #[derive(Clone, Default)]
/// struct Later(Arc<Mutex<(Vec<Task>, Vec<Weak<dyn Deliveries>>)>>);
/// impl Executor for Later {
///     fn execute(&self, task: Task) -> Result<(), Rejected> {
///         self.0.lock().unwrap().0.push(task);
///         Ok(())
///     }
///     fn register(&self, deliveries: Weak<dyn Deliveries>) -> bool {
///         self.0.lock().unwrap().1.push(deliveries);
///         true
///     }
/// }
///
/// let (later, ticks) = (Later::default(), Topic::builder("ticks").build());
/// let _watch = ticks.subscribe().on(&later).start(|_| ());
/// _ = ticks.publish(Tick(1));
/// let deliveries = later.0.lock().unwrap().1[0].upgrade().unwrap();
/// assert_eq!(deliveries.end(), 1);
/// ```
pub trait Deliveries: Send + Sync {
    /// The name in reports.
    fn name(&self) -> String;

    /// Ends the deliveries for good: drops those that wait and returns how many
    /// there were, without one that is being made at this moment.
    fn end(&self) -> u64;
}
