/// The deliveries of one subscription, which wait for turns on an executor.
///
/// The executor that runs the turns ends the deliveries at a shutdown, so that
/// those that will never be made are counted and waiting threads are woken.
/// Another kind of executor can do the same: it keeps the weak reference from
/// [`Executor::register`](super::Executor::register).
pub trait Deliveries: Send + Sync {
    /// The name in reports.
    fn name(&self) -> String;

    /// Ends the deliveries for good: drops those that wait and returns how many
    /// there were, without one that is being made at this moment.
    fn end(&self) -> u64;
}
