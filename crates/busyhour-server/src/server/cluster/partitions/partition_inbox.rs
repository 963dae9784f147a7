//! What has to be done with what partitions have. What is asked for one partition twice is done once,
//! so there is never more than partitions, nodes and their connections.

use busyhour_cluster::{Grant, Partition};
use busyhour_sip::Flow;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    sync::{Condvar, Mutex, MutexGuard, OnceLock},
    time::Duration,
};

/// Tasks on their way to the thread that reads partitions.
#[derive(Default)]
pub(in crate::server::cluster) struct PartitionInbox {
    waiting: Mutex<PartitionTasks>,
    arrived: Condvar,
    /// Called with each of them, where no thread waits.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Done in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server::cluster) struct PartitionTasks {
    /// Forget what is in memory.
    pub(in crate::server::cluster) unloads: BTreeSet<Partition>,
    /// Connections that have ended with the lives of their nodes.
    pub(in crate::server::cluster) over: Vec<Flow>,
    /// Read them; they are granted to us.
    pub(in crate::server::cluster) loads: BTreeMap<Partition, Grant>,
    /// Ask these nodes which of their connections stand.
    pub(in crate::server::cluster) checks: BTreeSet<u16>,
    /// Ask whether these connections stand.
    pub(in crate::server::cluster) flows: HashSet<Flow>,
    /// The server is gone.
    pub(in crate::server::cluster) is_over: bool,
}

impl PartitionInbox {
    /// These are granted to us.
    pub(in crate::server::cluster) fn load(&self, grants: Vec<Grant>) {
        let loads = grants.into_iter().map(|grant| (grant.partition, grant));
        self.push(|waiting| waiting.loads.extend(loads));
    }

    /// They are read next, unless something later was asked for.
    pub(in crate::server::cluster) fn load_next(&self, grants: BTreeMap<Partition, Grant>) {
        self.load_again(grants);
        self.push(|_| ());
    }

    /// They could not be read: they are read after a pause, unless something later was asked for. This wakes nobody.
    pub(in crate::server::cluster) fn load_again(&self, grants: BTreeMap<Partition, Grant>) {
        let mut waiting = self.lock();
        for (partition, grant) in grants {
            if !waiting.unloads.contains(&partition) {
                waiting.loads.entry(partition).or_insert(grant);
            }
        }
    }

    /// What was asked for before is not needed any more.
    pub(in crate::server::cluster) fn unload(&self, partition: Partition) {
        self.push(|waiting| {
            waiting.loads.remove(&partition);
            waiting.unloads.insert(partition);
        });
    }

    pub(in crate::server::cluster) fn are_over(&self, flows: Vec<Flow>) {
        if !flows.is_empty() {
            self.push(|waiting| waiting.over.extend(flows));
        }
    }

    pub(in crate::server::cluster) fn check(&self, node: u16) {
        self.push(|waiting| waiting.checks.extend([node]));
    }

    pub(in crate::server::cluster) fn check_flows(&self, flows: HashSet<Flow>) {
        if !flows.is_empty() {
            self.push(|waiting| waiting.flows.extend(flows));
        }
    }

    /// Nothing comes any more.
    pub(in crate::server::cluster) fn end(&self) {
        self.push(|waiting| waiting.is_over = true);
    }

    /// Everything that waits, once there is something.
    pub(in crate::server::cluster) fn take(&self) -> PartitionTasks {
        let waited = self.arrived.wait_while(self.lock(), |it| it.is_empty());
        mem::take(&mut *waited.unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Everything that waits, once there is something; `None` if that is not so within this time.
    pub(in crate::server::cluster) fn take_within(&self, rest: Duration) -> Option<PartitionTasks> {
        let is_empty = |it: &mut PartitionTasks| it.is_empty();
        let waited = (self.arrived).wait_timeout_while(self.lock(), rest, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let tasks = mem::take(&mut *waiting);
        (!tasks.is_empty()).then_some(tasks)
    }

    /// Everything that waits, and nothing if there is nothing.
    pub(in crate::server::cluster) fn take_now(&self) -> PartitionTasks {
        mem::take(&mut *self.lock())
    }

    /// No thread waits, and this is called when something has come.
    pub(in crate::server::cluster) fn wake_with(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // It is set once, before anything comes.
        let _ = self.wake.set(wake);
    }

    /// Waits for something to do, but not for longer than this.
    pub(in crate::server::cluster) fn pause(&self, rest: Duration) {
        let is_idle = |it: &mut PartitionTasks| it.unloads.is_empty() && !it.is_over;
        // Whoever waited looks what there is.
        let _ = self.arrived.wait_timeout_while(self.lock(), rest, is_idle);
    }

    fn push(&self, add: impl FnOnce(&mut PartitionTasks)) {
        add(&mut self.lock());
        self.arrived.notify_one();
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PartitionTasks> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PartitionTasks {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(number: u8, epoch: u64) -> Grant {
        let partition = Partition(number);
        Grant { partition, epoch }
    }

    #[test]
    fn however_often_partitions_move_each_waits_once() {
        let inbox = PartitionInbox::default();
        for epoch in 1..=1000 {
            inbox.load(vec![grant(1, epoch), grant(2, epoch)]);
            inbox.unload(Partition(1));
            inbox.check(7);
        }
        inbox.load(vec![grant(3, 4)]);
        inbox.unload(Partition(3));
        let tasks = inbox.take();
        assert!(tasks.unloads.into_iter().eq([Partition(1), Partition(3)]));
        assert!(tasks.loads.into_values().eq([grant(2, 1000)]));
        assert!(tasks.checks.into_iter().eq([7]));
    }

    #[test]
    fn what_comes_back_is_forgotten_before_it_is_read_and_a_later_wish_counts() {
        let inbox = PartitionInbox::default();
        inbox.unload(Partition(1));
        inbox.load(vec![grant(1, 9)]);
        let tasks = inbox.take();
        assert!(tasks.unloads.contains(&Partition(1)));
        assert_eq!(tasks.loads[&Partition(1)], grant(1, 9));
        inbox.unload(Partition(1));
        inbox.load_again(
            [grant(1, 9), grant(2, 5)]
                .map(|it| (it.partition, it))
                .into(),
        );
        let tasks = inbox.take();
        assert!(tasks.loads.into_values().eq([grant(2, 5)]));
        inbox.load(vec![grant(2, 6)]);
        inbox.load_again([(Partition(2), grant(2, 5))].into());
        assert!(inbox.take().loads.into_values().eq([grant(2, 6)]));
    }
}
