use std::time::Duration;

/// A task that still ran when a shutdown ended.
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
