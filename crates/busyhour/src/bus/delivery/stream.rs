use super::{consumer::Subscriber, items::Items, subscription::Subscription};
use crate::{
    bus::{Event, Message},
    pool::poll_budget,
};
use futures_core::Stream;
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A subscription that an async task polls; see
/// [`SubscriptionBuilder::stream`](crate::bus::SubscriptionBuilder::stream).
///
/// Works in any async runtime. Dropping the stream ends the subscription.
pub struct EventStream<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    /// Taken from the mailbox and not yet delivered.
    items: Items<E>,
    /// Ends the subscription when it is dropped.
    subscription: Subscription<E>,
}

impl<E: Event> EventStream<E> {
    pub(in crate::bus) fn new(
        subscriber: Arc<Subscriber<E>>,
        subscription: Subscription<E>,
    ) -> Self {
        Self {
            subscriber,
            items: Items::new(),
            subscription,
        }
    }

    /// Delivers the last event of every cached key again; see
    /// [`Subscription::replay`](crate::bus::Subscription::replay).
    pub fn replay(&self) {
        self.subscription.replay();
    }

    /// The number of messages that wait.
    pub fn queued_len(&self) -> usize {
        self.items.len() + self.subscriber.mailbox().queued_len()
    }
}

impl<E: Event> Unpin for EventStream<E> {}

impl<E: Event> Stream for EventStream<E> {
    type Item = Message<E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message<E>>> {
        // A task that never suspends would keep its worker for as long as
        // messages arrive.
        if self.queued_len() > 0 && poll_budget(context).is_pending() {
            return Poll::Pending;
        }
        let this = &mut *self;
        let mut poll = || this.subscriber.poll(context.waker(), &mut this.items);
        match poll() {
            Some(message) => Poll::Ready(Some(message)),
            // Messages that arrived between the poll and this check are still
            // delivered; after them the stream ends.
            None if this.subscriber.mailbox().is_ended() => Poll::Ready(poll()),
            None => Poll::Pending,
        }
    }
}

impl<E: Event> fmt::Debug for EventStream<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EventStream")
            .field("queued_len", &self.queued_len())
            .finish_non_exhaustive()
    }
}
