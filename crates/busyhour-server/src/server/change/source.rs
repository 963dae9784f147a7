//! Where a part of the server tells its changes.

use busyhour::{
    bus::{Record, Topic},
    runtime::Runtime,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The topic of one part. It is forwarded while somebody reads changes.
pub(in crate::server) struct ChangeSource {
    topic: Topic<Record>,
    is_heard: Arc<AtomicBool>,
}

impl ChangeSource {
    pub(super) fn new(runtime: &Runtime, name: &str, is_heard: &Arc<AtomicBool>) -> Self {
        Self {
            topic: runtime.topic(name).build(),
            is_heard: is_heard.clone(),
        }
    }

    /// Whether somebody reads. What changes before this says so is told with the state of
    /// its part, whose lock is taken after that: so read it under the same lock.
    pub(in crate::server) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Acquire)
    }

    /// Tells a change, or a state, if somebody reads.
    pub(in crate::server) fn tell(&self, record: impl FnOnce() -> Record) {
        if self.is_heard() {
            // What the numbering has no room for is lost, counted and told there.
            let _ = self.topic.publish(record());
        }
    }

    pub(super) fn topic(&self) -> &Topic<Record> {
        &self.topic
    }
}
