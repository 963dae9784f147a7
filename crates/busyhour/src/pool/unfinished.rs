use std::time::Duration;

/// A task that still ran when a shutdown ended.
///
/// ```
/// use busyhour::pool::TaskPool;
/// use std::{sync::mpsc, time::Duration};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let calls = pool.serializer("calls").build().unwrap();
/// let (begins, has_begun) = mpsc::channel();
/// let (release, held) = mpsc::channel::<()>();
/// calls.push(move || {
///     _ = begins.send(());
///     _ = held.recv();
/// }).unwrap();
/// has_begun.recv().unwrap();
/// let report = pool.shutdown(Duration::ZERO);
/// assert_eq!(report.unfinished[0].serializer, "calls");
/// drop(release);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The name of its serializer; empty for a plain task.
    pub serializer: String,
    /// The label of the task, if it has one.
    pub label: Option<String>,
    /// For how long it has been running; for a plain task this may include a
    /// few short ones before it.
    pub running_for: Duration,
}
