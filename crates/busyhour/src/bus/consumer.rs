use super::{
    Delivery, Event,
    mailbox::{Errand, Mailbox},
    queue::Item,
    topic::Hub,
};
use crate::{
    sync::{Mutex, lock},
    task::{Executor, Rejected, Task},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

/// Which events a subscriber wants.
pub(super) enum Filter<E: Event> {
    All,
    Key { hash: u64, key: E::Key },
    Matching(Box<dyn Fn(&E) -> bool + Send + Sync>),
}

/// One subscriber: its mailbox, and the consumer that empties it.
pub(super) struct Subscriber<E: Event> {
    filter: Filter<E>,
    mailbox: Mailbox<E>,
    topic: Weak<Hub<E>>,
    /// Where turns run; none means on the thread that publishes.
    executor: Option<Arc<dyn Executor>>,
    consumer: Mutex<Consumer<E>>,
}

/// Touched only by the turn that is running.
struct Consumer<E: Event> {
    batch: VecDeque<Item<E>>,
    callback: Box<dyn FnMut(Delivery<'_, E>) + Send>,
}

impl<E: Event> Subscriber<E> {
    pub(super) fn new(
        topic: &Arc<Hub<E>>,
        filter: Filter<E>,
        mailbox: Mailbox<E>,
        executor: Option<Arc<dyn Executor>>,
        callback: Box<dyn FnMut(Delivery<'_, E>) + Send>,
    ) -> Self {
        let batch = VecDeque::new();
        Self {
            filter,
            mailbox,
            topic: Arc::downgrade(topic),
            executor,
            consumer: Mutex::new(Consumer { batch, callback }),
        }
    }

    pub(super) fn mailbox(&self) -> &Mailbox<E> {
        &self.mailbox
    }

    /// The one key it wants, with its hash.
    pub(super) fn key(&self) -> Option<(u64, &E::Key)> {
        match &self.filter {
            Filter::Key { hash, key } => Some((*hash, key)),
            Filter::All | Filter::Matching(_) => None,
        }
    }

    /// Whether it wants this event, once the index has found its key.
    #[inline]
    pub(super) fn wants(&self, event: &E) -> bool {
        match &self.filter {
            Filter::All | Filter::Key { .. } => true,
            Filter::Matching(wanted) => wanted(event),
        }
    }

    /// Sends the consumer on its way. No lock may be held.
    pub(super) fn wake(self: Arc<Self>) {
        let Some(executor) = self.executor.clone() else {
            return Turn::new(self).run();
        };
        let turn = Turn::new(self);
        // A turn that is refused, or dropped later, unschedules itself: the
        // next event sends another one.
        if let Err(Rejected { task, .. }) = executor.execute(Task::new(move || turn.run())) {
            drop(task);
        }
    }

    /// Hands out all there is; `true` when it stopped early to let others run.
    fn run_turn(self: &Arc<Self>) -> bool {
        let mut consumer = lock(&self.consumer);
        let mut delivered = 0;
        loop {
            delivered += consumer.hand_out(self);
            if delivered >= Turn::DELIVERIES_MAX && self.executor.is_some() {
                return true;
            }
            match self.mailbox.next_errand(&mut consumer.batch) {
                Errand::Deliver => {}
                Errand::CatchUp(shard) => self.catch_up(shard, &mut consumer.batch),
                Errand::Rest => return false,
            }
        }
    }

    fn catch_up(self: &Arc<Self>, shard: usize, batch: &mut VecDeque<Item<E>>) {
        if let Some(topic) = self.topic.upgrade() {
            topic.catch_up(shard, self, batch);
        }
        self.mailbox.caught_up();
    }
}

impl<E: Event> Consumer<E> {
    fn hand_out(&mut self, subscriber: &Subscriber<E>) -> usize {
        let mut delivered = 0;
        while let Some(item) = self.batch.pop_front() {
            if subscriber.mailbox.is_closed() {
                self.batch.clear();
                break;
            }
            (self.callback)(item.as_delivery());
            delivered += 1;
        }
        self.batch.shrink_to(Turn::DELIVERIES_MAX);
        subscriber.count_delivered(delivered);
        delivered
    }
}

impl<E: Event> Subscriber<E> {
    fn count_delivered(&self, count: usize) {
        if let (1.., Some(topic)) = (count, self.topic.upgrade()) {
            topic.count_delivered(count as u64);
        }
    }
}

/// The right to run the consumer once; there is at most one a subscriber.
///
/// However it ends, be it refused, dropped in a queue, or by a panic of the
/// callback, the subscriber is left so that it can be woken again.
struct Turn<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    state: TurnState,
}

#[derive(PartialEq)]
enum TurnState {
    Waiting,
    Running,
    Finished,
}

impl<E: Event> Turn<E> {
    fn new(subscriber: Arc<Subscriber<E>>) -> Self {
        Self {
            subscriber,
            state: TurnState::Waiting,
        }
    }

    fn run(mut self) {
        self.state = TurnState::Running;
        self.subscriber.mailbox.begin_turn();
        if !self.subscriber.run_turn() {
            self.state = TurnState::Finished;
        }
    }
}

impl Turn<()> {
    /// Deliveries after which a turn lets other tasks of its serializer run.
    const DELIVERIES_MAX: usize = 1024;
}

impl<E: Event> Drop for Turn<E> {
    fn drop(&mut self) {
        match self.state {
            TurnState::Waiting => self.subscriber.mailbox.lose_turn(),
            // Out of its time, or the callback panicked: the rest of the batch
            // is for the next turn.
            TurnState::Running => {
                self.subscriber.mailbox.pause_turn();
                Arc::clone(&self.subscriber).wake();
            }
            TurnState::Finished => {}
        }
    }
}
