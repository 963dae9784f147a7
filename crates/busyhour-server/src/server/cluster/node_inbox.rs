//! What others tell the node's thread. Equal events are one, so there are never more than nodes
//! and partitions.

use busyhour_cluster::{Grant, Member, NodeNumber, Partition};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// What others tell the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeEvent {
    /// Another node said that there is something new.
    Announced,
    /// The program ends, and gives away what it has.
    LeaveWanted,
    /// An operator wants a member to give away what it has.
    DrainWanted(Member),
    /// An operator wants a node to have a partition, or as it falls.
    PinWanted(Partition, Option<NodeNumber>),
    /// The server is gone.
    Gone,
    /// Nothing of this partition is under way any more.
    Settled(Partition),
    /// What this partition has is in memory.
    Loaded(Grant),
}

/// Events on their way to the thread.
#[derive(Default)]
pub(super) struct NodeInbox {
    waiting: Mutex<WaitingNodeEvents>,
    arrived: Condvar,
}

#[derive(Default)]
struct WaitingNodeEvents {
    is_announced: bool,
    is_leave_wanted: bool,
    is_gone: bool,
    /// By the number of the node.
    drains: BTreeMap<u16, Member>,
    pins: BTreeMap<Partition, Option<NodeNumber>>,
    settled: BTreeSet<Partition>,
    loaded: BTreeMap<Partition, Grant>,
}

impl NodeInbox {
    /// Wakes the thread. A later event of the same thing takes the place of one that waits.
    pub(super) fn push(&self, event: NodeEvent) {
        let mut waiting = self.lock();
        match event {
            NodeEvent::Announced => waiting.is_announced = true,
            NodeEvent::LeaveWanted => waiting.is_leave_wanted = true,
            NodeEvent::Gone => waiting.is_gone = true,
            NodeEvent::DrainWanted(member) => {
                waiting.drains.insert(member.node.0, member);
            }
            NodeEvent::PinWanted(partition, node) => {
                waiting.pins.insert(partition, node);
            }
            NodeEvent::Settled(partition) => {
                waiting.settled.insert(partition);
            }
            NodeEvent::Loaded(grant) => {
                waiting.loaded.insert(grant.partition, grant);
            }
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// All that waits; nothing if nothing came within `rest`.
    pub(super) fn take(&self, rest: Duration) -> Vec<NodeEvent> {
        let waited = (self.arrived).wait_timeout_while(self.lock(), rest, |it| it.is_empty());
        let (mut waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let waiting = mem::take(&mut *waiting);
        waiting.into_events()
    }

    fn lock(&self) -> MutexGuard<'_, WaitingNodeEvents> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl WaitingNodeEvents {
    fn is_empty(&self) -> bool {
        let is_told = self.is_announced || self.is_leave_wanted || self.is_gone;
        let is_wanted = !self.drains.is_empty() || !self.pins.is_empty();
        !is_told && !is_wanted && self.settled.is_empty() && self.loaded.is_empty()
    }

    fn into_events(self) -> Vec<NodeEvent> {
        let flags = [
            (self.is_gone, NodeEvent::Gone),
            (self.is_announced, NodeEvent::Announced),
            (self.is_leave_wanted, NodeEvent::LeaveWanted),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        let drains = self.drains.into_values().map(NodeEvent::DrainWanted);
        let settled = self.settled.into_iter().map(NodeEvent::Settled);
        let loaded = self.loaded.into_values().map(NodeEvent::Loaded);
        let pins = self.pins.into_iter();
        let pins = pins.map(|(partition, node)| NodeEvent::PinWanted(partition, node));
        let events = flags.map(|(_, event)| event).chain(drains).chain(pins);
        events.chain(settled).chain(loaded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_cluster::NodeNumber;

    #[test]
    fn many_events_of_one_thing_take_one_place() {
        let inbox = NodeInbox::default();
        let (partition, now) = (Partition(7), Duration::ZERO);
        let member = Member {
            node: NodeNumber(2),
            epoch: 3,
        };
        for epoch in 1..=1000 {
            inbox.push(NodeEvent::Settled(partition));
            inbox.push(NodeEvent::Announced);
            inbox.push(NodeEvent::DrainWanted(member));
            inbox.push(NodeEvent::Loaded(Grant { partition, epoch }));
        }
        let last = Grant {
            partition,
            epoch: 1000,
        };
        let expected = [
            NodeEvent::Announced,
            NodeEvent::DrainWanted(member),
            NodeEvent::Settled(partition),
            NodeEvent::Loaded(last),
        ];
        assert_eq!(inbox.take(now), expected);
        assert_eq!(inbox.take(now), []);
        inbox.push(NodeEvent::LeaveWanted);
        inbox.push(NodeEvent::Gone);
        assert_eq!(inbox.take(now), [NodeEvent::Gone, NodeEvent::LeaveWanted]);
    }
}
