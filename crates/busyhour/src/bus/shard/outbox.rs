use crate::bus::{
    Event, delivery::Item, nodes::NodeId, panics::Panics, publish_result::PublishResult,
    topic_inner::TopicInner,
};
use std::{collections::VecDeque, mem, sync::Arc};

/// The changes of a shard that are still to be made on the topics it is
/// forwarded to; protected by the shard's lock.
///
/// One thread at a time takes changes from it, with no lock held, so that the
/// events of a key arrive there in the order of the changes here.
pub(in crate::bus) struct Outbox<E: Event> {
    changes: VecDeque<ForwardedChange<E>>,
    /// The thread that hands the changes over.
    server: Option<usize>,
    /// How many changes that thread has taken.
    taken: usize,
    /// Publishers that wait for that thread.
    waiting_count: usize,
}

/// What a publisher must do about an outbox.
pub(in crate::bus) enum Duty {
    Serve,
    /// Look again a little later.
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

    /// What this thread does first. The thread that already serves the outbox,
    /// further up its stack, does not wait for itself.
    pub(super) fn enter(&mut self, thread: usize) -> Duty {
        if self.server.is_some_and(|server| server != thread) && self.is_to_wait_for() {
            self.waiting_count += 1;
            return Duty::Wait;
        }
        self.serve_if_nobody_does(thread)
    }

    /// What a thread that has waited does next. A serving thread that stops
    /// leaves the outbox to a waiting one, so each waiting thread checks before
    /// it goes on.
    pub(super) fn look_again(&mut self, thread: usize, yields_left: u32) -> Duty {
        let is_alone = self.waiting_count == 1;
        let is_long = self.changes.len() > LONG || is_alone && self.taken >= SHARE;
        if yields_left > 0 && self.server.is_some() && is_long {
            return Duty::Wait;
        }
        self.waiting_count -= 1;
        self.serve_if_nobody_does(thread)
    }

    /// The first publisher waits for the end of the server's share; the others
    /// wait only while the outbox is too long.
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

    /// Takes some changes for the thread that serves; `None` if it must stop
    /// serving.
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
    /// Makes the change on the other topic. No lock may be held. A panic does
    /// not keep later changes from arriving.
    pub(super) fn hand_over(self, result: &mut PublishResult<E>, panics: &mut Panics) {
        panics.catch(|| match &self.item {
            Item::Event(event) => self.to.publish_forwarded(event, self.origin, result),
            Item::Removed(key) => self.to.remove_forwarded(key, self.origin, result),
            Item::Replayed | Item::Lost(_) => {}
        });
        panics.drop(self);
    }
}

/// If more changes wait, publishers are slowed down.
const LONG: usize = 1024;
/// After this many changes the serving thread wakes their consumers.
const STRIDE: usize = 64;
/// Changes that one thread hands over before it leaves the rest to a waiting
/// publisher.
const SHARE: usize = 1024;
