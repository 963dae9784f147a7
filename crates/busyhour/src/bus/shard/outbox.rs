use crate::bus::{
    Event, delivery::Item, nodes::NodeId, panics::Panics, publish_result::PublishResult,
    topic_inner::TopicInner,
};
use std::{collections::VecDeque, mem, sync::Arc};

/// What happened in a shard and is still to happen on the topics it is
/// forwarded to; behind the shard's lock.
///
/// One thread at a time takes it from here, with no lock held, so that the
/// events of a key arrive there in the order in which they happened here.
pub(in crate::bus) struct Outbox<E: Event> {
    changes: VecDeque<ForwardedChange<E>>,
    /// The thread that is handing them over.
    server: Option<usize>,
    /// How many that thread has taken.
    taken: usize,
    /// Publishers who wait for that thread.
    waiting_count: usize,
}

/// What a publisher does about an outbox.
pub(in crate::bus) enum Duty {
    Serve,
    /// To look again a little later.
    Wait,
    Nothing,
}

/// One change for one topic.
pub(in crate::bus) struct ForwardedChange<E: Event> {
    pub(in crate::bus) to: Arc<TopicInner<E>>,
    pub(in crate::bus) item: Item<E>,
    pub(in crate::bus) origin: NodeId,
}

impl<E: Event> Outbox<E> {
    pub(in crate::bus) fn new() -> Self {
        Self {
            changes: VecDeque::new(),
            server: None,
            taken: 0,
            waiting_count: 0,
        }
    }

    pub(in crate::bus) fn push(&mut self, change: ForwardedChange<E>) {
        self.changes.push_back(change);
    }

    /// What this thread does first. The thread that serves it already, further
    /// up its stack, does not wait for itself.
    pub(super) fn enter(&mut self, thread: usize) -> Duty {
        if self.server.is_some_and(|server| server != thread) && self.is_to_wait_for() {
            self.waiting_count += 1;
            return Duty::Wait;
        }
        self.serve_if_nobody_does(thread)
    }

    /// What a thread does that has waited. Who gives the outbox up leaves it
    /// to one of those, so each of them looks before it goes.
    pub(super) fn look_again(&mut self, thread: usize, patience: u32) -> Duty {
        let is_alone = self.waiting_count == 1;
        let is_long = self.changes.len() > LONG || is_alone && self.taken >= SHARE;
        if patience > 0 && self.server.is_some() && is_long {
            return Duty::Wait;
        }
        self.waiting_count -= 1;
        self.serve_if_nobody_does(thread)
    }

    /// One waits for the server's share to end, all for the outbox to get
    /// shorter.
    fn is_to_wait_for(&self) -> bool {
        self.changes.len() > LONG || self.waiting_count == 0 && self.taken >= SHARE
    }

    fn serve_if_nobody_does(&mut self, thread: usize) -> Duty {
        if self.server.is_some() || self.changes.is_empty() {
            return Duty::Nothing;
        }
        (self.server, self.taken) = (Some(thread), 0);
        Duty::Serve
    }

    /// Hands out some changes to the thread that serves; `None` when it is to
    /// serve no longer.
    pub(in crate::bus) fn take(&mut self) -> Option<VecDeque<ForwardedChange<E>>> {
        let is_relieved = self.taken >= SHARE && self.waiting_count > 0;
        if is_relieved || self.changes.is_empty() {
            self.server = None;
            return None;
        }
        let count = self.changes.len().min(STRIDE);
        self.taken += count;
        if count == self.changes.len() {
            return Some(mem::take(&mut self.changes));
        }
        Some(self.changes.drain(..count).collect())
    }
}

impl<E: Event> ForwardedChange<E> {
    /// Makes it happen on the other topic. No lock may be held. A panic does
    /// not keep what comes after it from arriving.
    pub(super) fn hand_over(self, result: &mut PublishResult<E>, panics: &mut Panics) {
        panics.catch(|| match &self.item {
            Item::Event(event) => self.to.publish_forwarded(event, self.origin, result),
            Item::Removed(key) => self.to.remove_forwarded(key, self.origin, result),
            Item::Replayed | Item::Lost(_) => {}
        });
        panics.drop(self);
    }
}

/// So many changes may wait before publishers are slowed down.
const LONG: usize = 1024;
/// So many are taken before those are woken to whom they are delivered.
const STRIDE: usize = 64;
/// So many one thread hands over before it leaves the rest to a publisher who
/// waits.
const SHARE: usize = 1024;
