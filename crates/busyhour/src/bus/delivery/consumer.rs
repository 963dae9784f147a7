use super::{
    adaptive_spin::AdaptiveSpin,
    attribute::Wanted,
    item::{Item, Queued},
    items::Items,
    lag::{Lag, NextAction, ToFetch},
    mailbox::Mailbox,
    quantum::Quantum,
    queue::Queue,
};
use crate::{
    bus::{
        Delivery, Event, Message,
        cache::CachedChange,
        nodes::NodeId,
        panics::{Held, Panics},
        topic_inner::TopicInner,
    },
    pool::{Turns, blocking, in_turn, request_yield},
    stats::{SubscriptionFilter, SubscriptionStats},
    sync::{CachePadded, SpinLock},
    task::{Deliveries, Executor, Rejected, Task},
};
use std::{
    sync::{Arc, Weak},
    task::Waker,
};

pub(in crate::bus) type Callback<E> = Box<dyn FnMut(Delivery<'_, E>) + Send>;

/// The events that a subscriber wants.
pub(in crate::bus) enum Filter<E: Event> {
    All,
    Key { hash: u64, key: Arc<E::Key> },
    Matching(Arc<dyn Fn(&E) -> bool + Send + Sync>),
    Having(Wanted<E>),
}

/// One subscriber: its mailbox, and the consumer that empties it.
pub(in crate::bus) struct Subscriber<E: Event> {
    name: Box<str>,
    filter: Filter<E>,
    mailbox: Mailbox<E>,
    topic: Weak<TopicInner<E>>,
    /// The id of this node.
    local: NodeId,
    consumer: Consumer<E>,
}

/// How the items of the mailbox are consumed.
#[allow(
    clippy::large_enum_variant,
    reason = "most are callbacks, and each is in a subscriber of its own, which is not moved"
)]
pub(in crate::bus) enum Consumer<E: Event> {
    /// By turns on the executor or, without one, on the thread that publishes.
    Callback {
        executor: Option<Arc<dyn Executor>>,
        batch: CachePadded<SpinLock<Batch<E>>>,
    },
    /// By a task that polls a stream and waits with this waker. The stream ends
    /// with the executor.
    Stream {
        executor: Option<Arc<dyn Executor>>,
        waker: SpinLock<Option<Waker>>,
    },
}

/// Used only by the turn that is running.
pub(in crate::bus) struct Batch<E: Event> {
    items: Items<E>,
    pace: AdaptiveSpin,
    callback: Callback<E>,
}

impl<E: Event> Consumer<E> {
    pub(in crate::bus) fn callback(
        executor: Option<Arc<dyn Executor>>,
        callback: Callback<E>,
    ) -> Self {
        let batch = CachePadded(SpinLock::new(Batch::new(callback)));
        Self::Callback { executor, batch }
    }

    pub(in crate::bus) fn stream(executor: Option<Arc<dyn Executor>>) -> Self {
        let waker = SpinLock::new(None);
        Self::Stream { executor, waker }
    }
}

impl<E: Event> Subscriber<E> {
    pub(in crate::bus) fn new(
        topic: &Arc<TopicInner<E>>,
        name: Box<str>,
        filter: Filter<E>,
        mailbox: Mailbox<E>,
        consumer: Consumer<E>,
    ) -> Self {
        Self {
            name,
            filter,
            mailbox,
            topic: Arc::downgrade(topic),
            local: topic.local(),
            consumer,
        }
    }

    pub(in crate::bus) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it without its topic. Runs user code: no lock may be
    /// held.
    pub(in crate::bus) fn stats(&self) -> SubscriptionStats {
        let executor = self.executor();
        SubscriptionStats {
            name: self.name.to_string(),
            filter: self.filter(),
            executor: executor.map_or_else(String::new, |executor| executor.name()),
            capacity: self.mailbox.capacity() as u64,
            queued_len: self.mailbox.len() as u64,
            delivered: self.mailbox.delivered(),
            lost: self.mailbox.lost(),
            ..SubscriptionStats::default()
        }
    }

    pub(in crate::bus) fn mailbox(&self) -> &Mailbox<E> {
        &self.mailbox
    }

    /// The key that it wants, with its hash, if it wants only one.
    pub(in crate::bus) fn key(&self) -> Option<(u64, &Arc<E::Key>)> {
        match &self.filter {
            Filter::Key { hash, key } => Some((*hash, key)),
            Filter::All | Filter::Matching(_) | Filter::Having(_) => None,
        }
    }

    /// The value of an attribute that it wants, if it wants only one.
    pub(in crate::bus) fn attribute(&self) -> Option<&Wanted<E>> {
        match &self.filter {
            Filter::Having(wanted) => Some(wanted),
            Filter::All | Filter::Key { .. } | Filter::Matching(_) => None,
        }
    }

    /// What it wants, for lists.
    pub(in crate::bus) fn filter(&self) -> SubscriptionFilter {
        match &self.filter {
            Filter::All => SubscriptionFilter::All,
            Filter::Key { .. } => SubscriptionFilter::Key,
            Filter::Matching(_) => SubscriptionFilter::Predicate,
            Filter::Having(_) => SubscriptionFilter::Attribute,
        }
    }

    /// Whether its filter must look at each event: a predicate or a value.
    #[inline(always)]
    pub(in crate::bus) fn chooses(&self) -> bool {
        matches!(self.filter, Filter::Matching(_) | Filter::Having(_))
    }

    /// Whether user code must answer something before an event is offered to
    /// it.
    pub(in crate::bus) fn asks(&self) -> bool {
        self.chooses() || self.mailbox.conflates()
    }

    /// Whether it wants this event, once the index has found its key or value.
    /// Runs user code: no lock may be held.
    pub(in crate::bus) fn wants(&self, event: &E) -> bool {
        match &self.filter {
            Filter::All | Filter::Key { .. } => true,
            Filter::Matching(wanted) => wanted(event),
            Filter::Having(wanted) => (wanted.is_met)(event),
        }
    }

    /// The item for a change that it missed, if it wants it. No lock may be
    /// held.
    pub(in crate::bus) fn item_of(&self, change: CachedChange<E>, lag: Lag) -> Option<Item<E>> {
        let mut change = Held::new(change);
        let last = change.get()?;
        if last.is_removed() {
            // A subscriber that has received nothing yet need not learn that a
            // key was removed, and it learns of each removal once.
            let is_news = lag.since > 0 && last.version() > lag.since;
            let key = is_news.then(|| last.event.key().clone());
            return key.map(|key| Item::Removed(Arc::new(key)));
        }
        let is_wanted = self.wants(&last.event);
        let wanted = change.take().filter(|_| is_wanted)?;
        Some(Item::Event(wanted.event))
    }

    /// Sends the consumer's turn, or wakes the stream's task. No lock may be
    /// held.
    pub(in crate::bus) fn wake(self: Arc<Self>) {
        match &self.consumer {
            Consumer::Callback { executor: None, .. } => DeliveryRun::new(self).run(),
            Consumer::Callback {
                executor: Some(executor),
                ..
            } => send_turn(&Arc::clone(executor), self),
            Consumer::Stream { waker, .. } => {
                let waker = waker.lock().take();
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Waits until the mailbox has room; `false` if the wait would never end.
    pub(in crate::bus) fn wait_for_room(self: &Arc<Self>) -> bool {
        let revive = || self.revive();
        let turns = || -> Arc<dyn Turns> { self.clone() };
        match &self.consumer {
            Consumer::Callback {
                executor: Some(executor),
                ..
            } => self.mailbox.wait_for_room(executor, turns, revive),
            // Other threads are emptying it: the publisher that found it empty,
            // or the task that polls the stream.
            Consumer::Callback { .. } | Consumer::Stream { .. } => {
                self.mailbox
                    .wait_for_room(&PlaceholderExecutor, turns, revive)
            }
        }
    }

    /// Sends a turn again that was lost; `false` if the executor refuses it.
    pub(super) fn revive(self: &Arc<Self>) -> bool {
        if self.mailbox.needs_turn() {
            Arc::clone(self).wake();
            return self.mailbox.is_scheduled() || !self.mailbox.is_full();
        }
        true
    }

    pub(in crate::bus) fn is_stream(&self) -> bool {
        matches!(self.consumer, Consumer::Stream { .. })
    }

    /// Lets the executor's shutdown end the deliveries; `false` if it has been
    /// shut down already.
    pub(in crate::bus) fn register(self: &Arc<Self>) -> bool {
        let deliveries: Arc<dyn Deliveries> = self.clone();
        let executor = self.executor();
        executor.is_none_or(|executor| executor.register(Arc::downgrade(&deliveries)))
    }

    pub(in crate::bus) fn unregister(self: &Arc<Self>) {
        if let Some(executor) = self.executor() {
            executor.unregister(Arc::as_ptr(self).cast());
        }
    }

    /// Whether nothing is offered any more, because the executor was shut down.
    pub(in crate::bus) fn is_ended(&self) -> bool {
        self.mailbox.is_ended()
    }

    /// The executor whose shutdown ends the deliveries.
    pub(in crate::bus) fn executor(&self) -> Option<&Arc<dyn Executor>> {
        match &self.consumer {
            Consumer::Callback { executor, .. } | Consumer::Stream { executor, .. } => {
                executor.as_ref()
            }
        }
    }

    /// The next message of a stream; the rest is in `items`. If there is none,
    /// the waker is called when the next one arrives; `None` keeps an earlier
    /// one.
    ///
    /// Inlined, since a small event that is handed on in several pieces waits at each step until
    /// the processor has written them.
    #[inline(always)]
    pub(in crate::bus) fn poll(
        self: &Arc<Self>,
        waker: Option<&Waker>,
        items: &mut Items<E>,
        claimed_count: &mut usize,
    ) -> Option<Message<E>> {
        if *claimed_count == 0 {
            *claimed_count = self.claim_next(waker, items);
        }
        let (queued, origin) = items.pop()?;
        *claimed_count -= 1;
        Some(queued.into_message(origin.unwrap_or(self.local)))
    }

    /// Claims the next items of a stream, of which there are none if nothing waits.
    #[inline(never)]
    fn claim_next(self: &Arc<Self>, waker: Option<&Waker>, items: &mut Items<E>) -> usize {
        if items.is_empty() {
            self.refill(waker, items);
        }
        let count = items.len().min(self.mailbox.stride());
        if count > 0 {
            let _even_if_ended = self.mailbox.claim(count as u64);
        }
        count
    }

    fn refill(self: &Arc<Self>, waker: Option<&Waker>, items: &mut Items<E>) {
        if let (Consumer::Stream { waker: place, .. }, Some(waker)) = (&self.consumer, waker) {
            let waker = waker.clone();
            let replaced = place.lock().replace(waker);
            drop(replaced);
        }
        while items.is_empty() {
            match self.mailbox.next_action(items) {
                NextAction::Deliver => {}
                NextAction::CatchUp(to_fetch) => {
                    self.catch_up(to_fetch, items);
                    self.mailbox.begin_stream_batch(items);
                }
                NextAction::Rest => return,
            }
        }
    }

    /// Ends the turn here; the next turn delivers the rest of the batch.
    fn continue_later(self: &Arc<Self>, executor: &Arc<dyn Executor>) {
        self.mailbox.pause_turn();
        send_turn(executor, Arc::clone(self));
    }

    /// Delivers everything, or as much as one turn may.
    fn run_turn(
        self: &Arc<Self>,
        batch: &SpinLock<Batch<E>>,
        executor: Option<&Arc<dyn Executor>>,
    ) -> RunOutcome {
        let mut batch = batch.lock();
        let mut quantum = Quantum::begin(executor);
        // A panic may have left items here while they were fetched from the
        // cache.
        if !batch.items.is_empty() && !self.mailbox.begin_batch(&batch.items) {
            batch.items.drop_all();
        }
        loop {
            let batch_len = batch.items.len();
            if batch.hand_out(&self.mailbox, self.local, &mut quantum) {
                return RunOutcome::OutOfTime;
            }
            if executor.is_some() && batch_len > 0 {
                batch.pace.await_more(batch_len, &self.mailbox);
            }
            match self.mailbox.next_action(&mut batch.items) {
                NextAction::Deliver => {}
                NextAction::CatchUp(to_fetch) => {
                    self.catch_up(to_fetch, &mut batch.items);
                    if !self.mailbox.begin_batch(&batch.items) {
                        batch.items.drop_all();
                    }
                }
                NextAction::Rest => {
                    batch.items.shrink_to(Queue::<E>::IDLE_CAPACITY);
                    return RunOutcome::Rested;
                }
            }
        }
    }

    fn catch_up(self: &Arc<Self>, to_fetch: ToFetch, items: &mut Items<E>) {
        let topic = self.topic.upgrade();
        if !self.mailbox.reads_cache() {
            topic
                .into_iter()
                .for_each(|topic| topic.catch_up(to_fetch, self, items));
            return self.mailbox.caught_up();
        }
        let len = items.len();
        if topic.is_some_and(|topic| topic.read(to_fetch, self, items)) {
            self.mailbox.read_on(to_fetch.shard);
        }
        self.mailbox.note_read(items.len() - len);
        if to_fetch.whole {
            self.mailbox.caught_up();
        }
    }

    /// No turn is on its way any more: the next change of any shard sends one.
    fn lose_turn(self: &Arc<Self>) {
        self.mailbox.lose_turn();
        if self.mailbox.reads_cache() {
            let topic = self.topic.upgrade();
            topic.into_iter().for_each(|topic| topic.stall(self));
        }
    }
}

impl<E: Event> Batch<E> {
    fn new(callback: Callback<E>) -> Self {
        Self {
            items: Items::new(),
            pace: AdaptiveSpin::new(),
            callback,
        }
    }

    /// Delivers what was taken; `true` if the turn is over before the end.
    fn hand_out(&mut self, mailbox: &Mailbox<E>, local: NodeId, quantum: &mut Quantum<'_>) -> bool {
        while !self.items.is_empty() {
            if quantum.is_over() {
                return true;
            }
            if !mailbox.claim(quantum.stride()) {
                self.items.drop_all();
            }
            let mut stride = Stride::new(mailbox, &mut self.items, quantum.stride());
            while let Some((queued, origin)) = stride.pop() {
                let queued = Held::new(queued);
                if mailbox.is_closed() {
                    stride.items.drop_all();
                    break;
                }
                if let Some(queued) = queued.get() {
                    (self.callback)(queued.as_delivery(origin.unwrap_or(local)));
                }
            }
        }
        false
    }
}

/// The next items of a batch, which have been claimed. Items that a panic
/// leaves are unclaimed again.
struct Stride<'a, E: Event> {
    mailbox: &'a Mailbox<E>,
    items: &'a mut Items<E>,
    /// The number of items.
    len: u64,
}

impl<'a, E: Event> Stride<'a, E> {
    fn new(mailbox: &'a Mailbox<E>, items: &'a mut Items<E>, len: u64) -> Self {
        Self {
            mailbox,
            items,
            len,
        }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<(Queued<E>, Option<NodeId>)> {
        self.len = self.len.checked_sub(1)?;
        self.items.pop()
    }
}

impl<E: Event> Drop for Stride<'_, E> {
    fn drop(&mut self) {
        let left_len = self.len.min(self.items.len() as u64);
        if left_len > 0 {
            self.mailbox.unclaim(self.items.len(), left_len);
        }
    }
}

/// Sends a turn. If the executor drops it later, it sends itself again; if the
/// executor refuses it, it is given up, and the next event sends another one.
fn send_turn<E: Event>(executor: &Arc<dyn Executor>, subscriber: Arc<Subscriber<E>>) {
    let refused = Arc::downgrade(&subscriber);
    let _sending = Sending::begin(&subscriber);
    let turn = DeliveryRun::new(subscriber);
    if let Err(Rejected { task, .. }) = executor.execute_unbounded(Task::new(move || turn.run())) {
        if let Some(subscriber) = refused.upgrade() {
            subscriber.mailbox.give_up_turn();
        }
        drop(task);
    }
}

/// While this lives, this thread is inside the executor that is about to take
/// the turn. What the executor publishes must not wait for that turn.
struct Sending<E: Event>(Weak<Subscriber<E>>);

impl<E: Event> Sending<E> {
    fn begin(subscriber: &Arc<Subscriber<E>>) -> Option<Self> {
        let mailbox = &subscriber.mailbox;
        mailbox.blocks().then(|| {
            mailbox.expect_sending();
            Self(Arc::downgrade(subscriber))
        })
    }
}

impl<E: Event> Drop for Sending<E> {
    fn drop(&mut self) {
        if let Some(subscriber) = self.0.upgrade() {
            subscriber.mailbox.sent();
            let mut panics = Panics::default();
            panics.drop(subscriber);
        }
    }
}

/// An executor with nothing to help with: a caller can only wait.
struct PlaceholderExecutor;

impl Executor for PlaceholderExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        // The thread may be a worker on which the others would have to run.
        blocking(wait);
    }
}

/// The right to run the consumer once; at most one exists per subscriber.
///
/// However it ends (refused, dropped in a queue, or by a panic of the
/// callback), the subscriber can be woken again.
struct DeliveryRun<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    started: bool,
}

impl<E: Event> DeliveryRun<E> {
    fn new(subscriber: Arc<Subscriber<E>>) -> Self {
        Self {
            subscriber,
            started: false,
        }
    }

    fn run(mut self) {
        self.started = true;
        let subscriber = &self.subscriber;
        let Consumer::Callback { executor, batch } = &subscriber.consumer else {
            return;
        };
        let mut panics = Panics::default();
        let _in_turn = in_turn();
        loop {
            subscriber.mailbox.begin_turn();
            let run = || subscriber.run_turn(batch, executor.as_ref());
            let outcome = panics.catch(run);
            match (outcome, executor) {
                (Some(RunOutcome::Rested), _) => break,
                (_, Some(executor)) => {
                    request_yield();
                    subscriber.continue_later(executor);
                    break;
                }
                // No other thread would deliver the rest.
                (_, None) => {}
            }
        }
    }
}

impl<E: Event> Drop for DeliveryRun<E> {
    fn drop(&mut self) {
        if self.started {
            return;
        }
        match &self.subscriber.consumer {
            Consumer::Callback {
                executor: Some(executor),
                ..
            } if self.subscriber.mailbox.may_send_again() => {
                send_turn(executor, Arc::clone(&self.subscriber));
            }
            _ => self.subscriber.lose_turn(),
        }
    }
}

#[must_use]
enum RunOutcome {
    /// There was nothing left to do.
    Rested,
    /// The time was up, so others run first.
    OutOfTime,
}

impl<E: Event> Turns for Subscriber<E> {
    fn runner(&self) -> Option<usize> {
        self.mailbox.runner()
    }
}

impl<E: Event> Deliveries for Subscriber<E> {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn end(&self) -> u64 {
        let Consumer::Stream { waker, .. } = &self.consumer else {
            return self.mailbox.end();
        };
        self.mailbox.end_stream();
        let waker = waker.lock().take();
        waker.into_iter().for_each(Waker::wake);
        0
    }
}
