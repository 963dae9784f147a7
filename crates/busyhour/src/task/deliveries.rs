/// What waits for turns on an executor: the deliveries of one subscription.
///
/// The executor that runs the turns ends it at a shutdown, so that what will never be
/// delivered is counted and those who wait for it are told. An executor of
/// another kind keeps a weak reference from
/// [`Executor::register`](super::Executor::register) and does the same.
pub trait Deliveries: Send + Sync {
    /// The name that reports give it.
    fn name(&self) -> String;

    /// Nothing more is delivered from here: drops what waits and returns how
    /// many deliveries that were. One that is being handed over at this moment
    /// is not among them.
    fn end(&self) -> u64;
}
