//! Nodes whose program is so much older or newer that they and this one do not understand each other.
//! What they say is not taken, and an operator is told what to do.

use crate::server::stats::counters::Counter;
use busyhour::clock::{Clock, Instant};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How often such nodes were heard, and when last.
pub(super) struct OtherVersions {
    clock: Clock,
    pub(super) heard: Counter,
    /// Messages that no version says.
    pub(super) unreadable: Counter,
    /// 0 before the first time.
    heard_at_ns: AtomicU64,
    next_word_ns: AtomicU64,
    next_of_unreadable_ns: AtomicU64,
}

impl OtherVersions {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            heard: Counter::default(),
            unreadable: Counter::default(),
            heard_at_ns: AtomicU64::new(0),
            next_word_ns: AtomicU64::new(0),
            next_of_unreadable_ns: AtomicU64::new(0),
        }
    }

    /// A message of such a node has come.
    pub(super) fn heard(&self, version: &str) {
        self.heard.increment();
        let now = self.clock.now();
        self.heard_at_ns
            .store(now.as_nanos().max(1), Ordering::Relaxed);
        if may_tell(&self.next_word_ns, now) {
            tracing::warn!(
                event = "another_node_speaks_another_version",
                version,
                "a node of another version does not understand this one: hints, lists and lamps may show \
                 an old state of its devices until all nodes have one version; `busyhour --version` on \
                 each machine shows which has to be upgraded"
            );
        }
    }

    /// Whether such a node lives, as far as is known: each says something with each beat.
    pub(super) fn are_there(&self) -> bool {
        let heard_at_ns = self.heard_at_ns.load(Ordering::Relaxed);
        let now_ns = self.clock.now().as_nanos();
        heard_at_ns != 0 && now_ns.saturating_sub(heard_at_ns) < nanos(REMEMBERED)
    }

    /// A message has come that no node says.
    pub(super) fn unreadable(&self) {
        self.unreadable.increment();
        if may_tell(&self.next_of_unreadable_ns, self.clock.now()) {
            tracing::warn!(
                event = "message_of_no_node",
                "NATS brings messages that no node says; look who else writes to the subjects of this cluster"
            );
        }
    }
}

/// Once a minute.
fn may_tell(next_word_ns: &AtomicU64, now: Instant) -> bool {
    let next_ns = (now + PAUSE).as_nanos();
    let is_due = |due_ns| (due_ns <= now.as_nanos()).then_some(next_ns);
    let told = next_word_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due);
    told.is_ok()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const PAUSE: Duration = Duration::from_secs(60);
/// Longer than the time between two beats, also of a machine under load.
const REMEMBERED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::runtime::Runtime;

    #[test]
    fn a_node_of_another_version_is_there_while_it_is_heard() {
        let runtime = Runtime::simulated(1);
        let nodes = OtherVersions::new(runtime.clock().clone());
        assert!(!nodes.are_there());
        nodes.heard("1");
        assert!(nodes.are_there());
        runtime
            .simulation()
            .unwrap()
            .run_for(REMEMBERED - Duration::from_secs(1));
        nodes.heard("1");
        runtime
            .simulation()
            .unwrap()
            .run_for(REMEMBERED - Duration::from_secs(1));
        assert!(nodes.are_there());
        runtime
            .simulation()
            .unwrap()
            .run_for(Duration::from_secs(1));
        assert!(!nodes.are_there());
        assert_eq!(nodes.heard.get(), 2);
    }

    #[test]
    fn what_no_version_says_is_no_node_of_another_version() {
        let runtime = Runtime::simulated(1);
        let nodes = OtherVersions::new(runtime.clock().clone());
        nodes.unreadable();
        assert!(!nodes.are_there());
        assert_eq!((nodes.unreadable.get(), nodes.heard.get()), (1, 0));
    }

    #[test]
    fn an_operator_is_told_once_a_minute() {
        let runtime = Runtime::simulated(1);
        let nodes = OtherVersions::new(runtime.clock().clone());
        let tell = || may_tell(&nodes.next_word_ns, nodes.clock.now());
        assert!(tell() && !tell());
        runtime.simulation().unwrap().run_for(PAUSE);
        assert!(tell() && !tell());
    }
}
