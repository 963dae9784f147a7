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
    task::{Context, Poll, Waker},
};

/// A subscription that an async task polls; see
/// [`SubscriptionBuilder::stream`](crate::bus::SubscriptionBuilder::stream).
///
/// Works in any async runtime. Dropping the stream ends the subscription.
///
/// ```
/// use std::{future::poll_fn, pin::Pin};
/// use busyhour::bus::{Event, Message, Topic};
/// use futures_core::Stream;
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let ticks = Topic::<Tick>::builder("ticks").build();
/// let mut stream = ticks.subscribe().stream();
/// _ = ticks.publish(Tick(7));
/// ticks.close();
/// let mut keys = Vec::new();
/// // With the `futures` crates this is `while let Some(message) = stream.next().await`.
/// while let Some(message) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
///     if let Message::Event(Tick(key), _) = message {
///         keys.push(key);
///     }
/// }
/// assert_eq!(keys, [7]);
/// # });
/// ```
pub struct EventStream<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    /// Taken from the mailbox and not yet delivered.
    items: Items<E>,
    /// How many of them have been claimed for delivery, from the first one on.
    claimed_count: usize,
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
            claimed_count: 0,
            subscription,
        }
    }

    /// Delivers the last event of every cached key again; see
    /// [`Subscription::replay`](crate::bus::Subscription::replay).
    pub fn replay(&self) {
        self.subscription.replay();
    }

    /// The next message, if one waits. Uses none of the task's budget, and leaves
    /// the waker of the last poll in its place.
    pub(in crate::bus) fn take_waiting(&mut self) -> Option<Message<E>> {
        self.next_message(None)
    }

    /// The number of messages that wait; see
    /// [`Subscription::queued_len`](crate::bus::Subscription::queued_len).
    pub fn queued_len(&self) -> usize {
        let unread = self.subscription.unread_len();
        self.items.len() + self.subscriber.mailbox().queued_len() + unread
    }

    #[inline(always)]
    fn next_message(&mut self, waker: Option<&Waker>) -> Option<Message<E>> {
        let (items, claimed_count) = (&mut self.items, &mut self.claimed_count);
        self.subscriber.poll(waker, items, claimed_count)
    }

    /// Whether a message may wait.
    fn may_be_ready(&self) -> bool {
        let mailbox = self.subscriber.mailbox();
        mailbox.reads_cache() || self.items.len() + mailbox.queued_len() > 0
    }
}

impl<E: Event> Unpin for EventStream<E> {}

impl<E: Event> Stream for EventStream<E> {
    type Item = Message<E>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message<E>>> {
        // A task that never suspends would keep its worker for as long as
        // messages arrive.
        if self.may_be_ready() && poll_budget(context).is_pending() {
            return Poll::Pending;
        }
        if let Some(message) = self.next_message(Some(context.waker())) {
            return Poll::Ready(Some(message));
        }
        if !self.subscriber.mailbox().is_ended() {
            return Poll::Pending;
        }
        // Messages that arrived between the poll and this check are still
        // delivered; after them the stream ends.
        Poll::Ready(self.next_message(Some(context.waker())))
    }
}

impl<E: Event> fmt::Debug for EventStream<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EventStream")
            .field("queued_len", &self.queued_len())
            .finish_non_exhaustive()
    }
}
