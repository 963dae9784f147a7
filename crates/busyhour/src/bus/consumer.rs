use super::{
    Delivery, Event,
    lock::Lock,
    mailbox::{Errand, Mailbox},
    queue::{Item, Queue},
    topic::Hub,
};
use crate::task::{Executor, Rejected, Task};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Weak},
};

pub(super) type Callback<E> = Box<dyn FnMut(Delivery<'_, E>) + Send>;

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
    consumer: Lock<Consumer<E>>,
}

/// Touched only by the turn that is running.
struct Consumer<E: Event> {
    batch: VecDeque<Item<E>>,
    callback: Callback<E>,
}

impl<E: Event> Subscriber<E> {
    pub(super) fn new(
        topic: &Arc<Hub<E>>,
        filter: Filter<E>,
        mailbox: Mailbox<E>,
        executor: Option<Arc<dyn Executor>>,
        callback: Callback<E>,
    ) -> Self {
        let batch = VecDeque::new();
        Self {
            filter,
            mailbox,
            topic: Arc::downgrade(topic),
            executor,
            consumer: Lock::new(Consumer { batch, callback }),
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

    /// Waits until the mailbox has room; `false` when that is hopeless.
    pub(super) fn wait_for_room(&self) -> bool {
        match &self.executor {
            Some(executor) => self.mailbox.wait_for_room(executor),
            // The publisher who found it empty is emptying it now.
            None => self.mailbox.wait_for_room(&Publisher),
        }
    }

    /// Ends the turn here; the rest of the batch is for the next one.
    fn continue_later(self: &Arc<Self>) {
        self.mailbox.pause_turn();
        if self.executor.is_some() {
            Arc::clone(self).wake();
        } else {
            self.mailbox.lose_turn();
        }
    }

    /// Hands out all there is, or as much as one turn may.
    fn run_turn(self: &Arc<Self>) -> Outcome {
        let mut consumer = self.consumer.lock();
        let mut delivered = 0;
        loop {
            let batch_len = consumer.hand_out(self);
            if batch_len >= LARGE_BATCH_LEN {
                self.mailbox.linger();
            }
            delivered += batch_len;
            if delivered >= DELIVERIES_MAX && self.executor.is_some() {
                return Outcome::OutOfTime;
            }
            match self.mailbox.next_errand(&mut consumer.batch) {
                Errand::Deliver => {}
                Errand::CatchUp(shard) => self.catch_up(shard, &mut consumer.batch),
                Errand::Rest => {
                    consumer.batch.shrink_to(Queue::<E>::IDLE_CAPACITY);
                    return Outcome::Rested;
                }
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
        delivered
    }
}

/// Runs turns on the thread that publishes, at once.
struct Publisher;

impl Executor for Publisher {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// The right to run the consumer once; there is at most one a subscriber.
///
/// However it ends, be it refused, dropped in a queue, or by a panic of the
/// callback, the subscriber is left so that it can be woken again.
struct Turn<E: Event> {
    subscriber: Arc<Subscriber<E>>,
    started: bool,
}

impl<E: Event> Turn<E> {
    fn new(subscriber: Arc<Subscriber<E>>) -> Self {
        Self {
            subscriber,
            started: false,
        }
    }

    fn run(mut self) {
        self.started = true;
        let subscriber = &self.subscriber;
        subscriber.mailbox.begin_turn();
        match catch_unwind(AssertUnwindSafe(|| subscriber.run_turn())) {
            Ok(Outcome::Rested) => {}
            Ok(Outcome::OutOfTime) => subscriber.continue_later(),
            Err(panic) => {
                subscriber.continue_later();
                resume_unwind(panic);
            }
        }
    }
}

impl<E: Event> Drop for Turn<E> {
    fn drop(&mut self) {
        if !self.started {
            self.subscriber.mailbox.lose_turn();
        }
    }
}

#[must_use]
enum Outcome {
    /// There was nothing left to do.
    Rested,
    /// Others should run first.
    OutOfTime,
}

/// Deliveries after which a turn lets other tasks of its serializer run.
const DELIVERIES_MAX: usize = 1024;

/// Deliveries of a batch after which more of them are to be expected at once.
const LARGE_BATCH_LEN: usize = 8;
