//! What others tell the node's thread. Equal events are one, so there are never more than
//! partitions; of wishes so many wait at most.

use super::operator_wish::OperatorWish;
use busyhour_cluster::{Grant, Partition};
use busyhour_store::Refused;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Condvar, Mutex, MutexGuard, OnceLock},
    time::Duration,
};

/// What others tell the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server::cluster) enum NodeEvent {
    /// Another node said that there is something new.
    Announced,
    /// The server has started, and can have partitions.
    CanServe,
    /// The program ends, and gives away what it has.
    LeaveWanted,
    /// The server is gone.
    Gone,
    /// Nothing of this partition is under way any more.
    Settled(Partition),
    /// What this partition has is in memory.
    Loaded(Grant),
    /// Another node has said that it serves this partition.
    Served(Grant),
}

/// Events on their way to the thread.
#[derive(Default)]
pub(in crate::server::cluster) struct NodeInbox {
    waiting: Mutex<WaitingNodeEvents>,
    arrived: Condvar,
    /// Called with each of them, where no thread waits.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct WaitingNodeEvents {
    is_announced: bool,
    can_serve: bool,
    is_leave_wanted: bool,
    is_gone: bool,
    settled: BTreeSet<Partition>,
    loaded: BTreeMap<Partition, Grant>,
    served: BTreeMap<Partition, Grant>,
    wishes: Vec<OperatorWish>,
    /// Nobody takes anything any more.
    is_closed: bool,
}

impl NodeInbox {
    /// Wakes the thread. A later event of the same thing takes the place of one that waits.
    pub(in crate::server::cluster) fn push(&self, event: NodeEvent) {
        let mut waiting = self.lock();
        match event {
            NodeEvent::Announced => waiting.is_announced = true,
            NodeEvent::CanServe => waiting.can_serve = true,
            NodeEvent::LeaveWanted => waiting.is_leave_wanted = true,
            NodeEvent::Gone => waiting.is_gone = true,
            NodeEvent::Settled(partition) => {
                waiting.settled.insert(partition);
            }
            NodeEvent::Loaded(grant) => {
                waiting.loaded.insert(grant.partition, grant);
            }
            NodeEvent::Served(grant) => {
                waiting.served.insert(grant.partition, grant);
            }
        }
        drop(waiting);
        self.wake();
    }

    /// Wakes the thread, too.
    ///
    /// # Errors
    ///
    /// When too many wait already, or the node's life is over.
    pub(in crate::server::cluster) fn wish(&self, wish: OperatorWish) -> Result<(), Refused> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(Refused::Closed);
        }
        if waiting.wishes.len() >= WISHES_MAX {
            return Err(Refused::Full);
        }
        waiting.wishes.push(wish);
        drop(waiting);
        self.wake();
        Ok(())
    }

    /// No thread waits, and this is called when something has come.
    pub(in crate::server::cluster) fn wake_with(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // It is set once, before anything comes.
        let _ = self.wake.set(wake);
    }

    /// All that waits; nothing if nothing came within `rest`.
    pub(in crate::server::cluster) fn take(
        &self,
        rest: Duration,
    ) -> (Vec<NodeEvent>, Vec<OperatorWish>) {
        let waited = (self.arrived).wait_timeout_while(self.lock(), rest, |it| it.is_empty());
        let (mut waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut waiting = mem::take(&mut *waiting);
        let wishes = mem::take(&mut waiting.wishes);
        (waiting.into_events(), wishes)
    }

    /// Nobody takes anything any more: whoever waits for a wish is told so.
    pub(in crate::server::cluster) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let unheard = mem::take(&mut waiting.wishes);
        // They call back, under no lock.
        drop(waiting);
        drop(unheard);
    }

    fn wake(&self) {
        self.arrived.notify_one();
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingNodeEvents> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl WaitingNodeEvents {
    fn is_empty(&self) -> bool {
        let is_told = self.is_announced || self.can_serve || self.is_leave_wanted || self.is_gone;
        let is_moved = self.settled.is_empty() && self.loaded.is_empty() && self.served.is_empty();
        !is_told && self.wishes.is_empty() && is_moved
    }

    fn into_events(self) -> Vec<NodeEvent> {
        let flags = [
            (self.is_gone, NodeEvent::Gone),
            (self.is_announced, NodeEvent::Announced),
            (self.can_serve, NodeEvent::CanServe),
            (self.is_leave_wanted, NodeEvent::LeaveWanted),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        let settled = self.settled.into_iter().map(NodeEvent::Settled);
        let loaded = self.loaded.into_values().map(NodeEvent::Loaded);
        let served = self.served.into_values().map(NodeEvent::Served);
        let events = flags.map(|(_, event)| event);
        events.chain(settled).chain(loaded).chain(served).collect()
    }
}

/// An operator has 256 partitions to move.
const WISHES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::cluster::inbox::operator_wish::Wish;
    use std::sync::mpsc;

    /// A wish, and who hears what became of it.
    fn wish(partition: u8) -> (OperatorWish, mpsc::Receiver<bool>) {
        let (told, heard) = mpsc::channel();
        let what = Wish::Pin(Partition(partition), None);
        let done = Box::new(move |outcome: Result<(), _>| told.send(outcome.is_ok()).unwrap());
        (OperatorWish { what, done }, heard)
    }

    #[test]
    fn wishes_come_in_order_and_none_is_forgotten() {
        let inbox = NodeInbox::default();
        let heard: Vec<_> = (0..=u8::MAX)
            .map(|partition| {
                let (wish, heard) = wish(partition);
                assert_eq!(inbox.wish(wish), Ok(()));
                heard
            })
            .collect();
        assert_eq!(inbox.wish(wish(0).0), Err(Refused::Full));
        let (_, wishes) = inbox.take(Duration::ZERO);
        let whats = wishes.iter().map(|wish| wish.what);
        assert!(whats.eq((0..=u8::MAX).map(|it| Wish::Pin(Partition(it), None))));
        for wish in wishes {
            (wish.done)(Ok(()));
        }
        assert!(heard.iter().all(|heard| heard.recv() == Ok(true)));
        let (last, heard) = wish(0);
        assert_eq!(inbox.wish(last), Ok(()));
        inbox.close();
        assert!(heard.recv().is_err(), "nobody will answer");
        assert_eq!(inbox.wish(wish(0).0), Err(Refused::Closed));
    }

    #[test]
    fn many_events_of_one_thing_take_one_place() {
        let inbox = NodeInbox::default();
        let (partition, now) = (Partition(7), Duration::ZERO);
        for epoch in 1..=1000 {
            inbox.push(NodeEvent::Settled(partition));
            inbox.push(NodeEvent::Announced);
            inbox.push(NodeEvent::Loaded(Grant { partition, epoch }));
        }
        let last = Grant {
            partition,
            epoch: 1000,
        };
        let expected = [
            NodeEvent::Announced,
            NodeEvent::Settled(partition),
            NodeEvent::Loaded(last),
        ];
        assert_eq!(inbox.take(now).0, expected);
        assert_eq!(inbox.take(now).0, []);
        inbox.push(NodeEvent::LeaveWanted);
        inbox.push(NodeEvent::Gone);
        assert_eq!(inbox.take(now).0, [NodeEvent::Gone, NodeEvent::LeaveWanted]);
    }
}
