use super::{
    Event,
    queue::{Item, Queue},
};
use crate::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        lock, thread,
    },
    task::Overflow,
};
use std::{collections::VecDeque, mem, thread::ThreadId};

/// What waits for one subscriber, and whether somebody is on the way to take it.
///
/// Publishers and the consumer meet under one short lock. The consumer takes
/// everything at once and hands it out without the lock, so it costs the
/// publishers one visit a batch. Lock order: a shard, then a mailbox.
pub(super) struct Mailbox<E: Event> {
    state: Mutex<State<E>>,
    /// Signalled when room appears and when a turn ends.
    changed: Condvar,
    /// The queue's length, for publishers who wait for room.
    len: AtomicUsize,
    closed: AtomicBool,
    capacity: usize,
    overflow: Overflow,
    /// A loss is made good from the cache.
    reseeds: bool,
}

struct State<E: Event> {
    queue: Queue<E>,
    /// A consumer's turn is running or on its way.
    scheduled: bool,
    /// The thread that is handing out a batch now.
    runner: Option<ThreadId>,
    /// Shards whose changes have to be fetched from the cache.
    behind: VecDeque<usize>,
    /// Losses not yet announced.
    lost: u64,
    /// The consumer has something to announce although nothing is queued.
    announce_replayed: bool,
    blocked_publishers: usize,
}

/// What became of an item that was offered.
#[must_use]
pub(super) enum Offer {
    /// The subscription has ended.
    Closed,
    Queued,
    /// It replaced an older item of its key.
    Conflated,
    /// It was queued, and the oldest one was lost for it.
    DroppedOldest,
    /// It is lost.
    Refused,
    /// It is lost, and the shard has to be fetched from the cache.
    FellBehind,
}

/// What the consumer has to do next.
#[must_use]
pub(super) enum Errand {
    /// Hand out the batch.
    Deliver,
    /// Fetch this shard's changes from the cache.
    CatchUp(usize),
    /// Nothing: the turn has ended.
    Rest,
}

impl<E: Event> Mailbox<E> {
    pub(super) fn new(capacity: usize, overflow: Overflow, conflates: bool, reseeds: bool) -> Self {
        Self {
            state: Mutex::new(State {
                queue: Queue::new(conflates),
                scheduled: false,
                runner: None,
                behind: VecDeque::new(),
                lost: 0,
                announce_replayed: false,
                blocked_publishers: 0,
            }),
            changed: Condvar::new(),
            len: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            capacity,
            overflow,
            reseeds,
        }
    }

    /// Offers an item of `shard`; `true` beside the outcome means that the
    /// caller must wake the consumer.
    pub(super) fn offer(&self, shard: usize, hash: u64, item: Item<E>) -> (Offer, bool) {
        let mut state = lock(&self.state);
        if self.is_closed() {
            return (Offer::Closed, false);
        }
        let Some(item) = state.queue.replace(hash, item) else {
            return (Offer::Conflated, false);
        };
        let offer = if state.queue.len() < self.capacity || self.blocks() {
            state.queue.push(hash, item);
            Offer::Queued
        } else {
            self.overflow(&mut state, shard, hash, item)
        };
        self.len.store(state.queue.len(), Ordering::Relaxed);
        (offer, !mem::replace(&mut state.scheduled, true))
    }

    fn overflow(&self, state: &mut State<E>, shard: usize, hash: u64, item: Item<E>) -> Offer {
        if self.reseeds {
            state.behind.push_back(shard);
            return Offer::FellBehind;
        }
        state.lost += 1;
        if self.overflow != Overflow::DropOldest {
            return Offer::Refused;
        }
        let oldest = state.queue.pop_oldest();
        state.queue.push(hash, item);
        drop(oldest);
        Offer::DroppedOldest
    }

    pub(super) fn blocks(&self) -> bool {
        self.overflow == Overflow::Block
    }

    /// A publisher has to wait before it may offer anything.
    pub(super) fn is_full(&self) -> bool {
        self.len.load(Ordering::Relaxed) >= self.capacity
    }

    /// Waits until there is room or the subscription ends; `false` when only
    /// the caller itself, which is the consumer, could make room.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut state = lock(&self.state);
        if state.is_run_by_caller() {
            return false;
        }
        state.blocked_publishers += 1;
        while self.is_full() && !self.is_closed() {
            state = wait(&self.changed, state);
        }
        state.blocked_publishers -= 1;
        true
    }

    /// Lets the consumer fetch these shards and then announce that it did;
    /// `true` when the caller must wake it.
    pub(super) fn order_replay(&self, shards: impl Iterator<Item = usize>) -> bool {
        let mut state = lock(&self.state);
        state.behind.extend(shards);
        state.announce_replayed = true;
        !mem::replace(&mut state.scheduled, true)
    }

    /// The consumer's turn begins on this thread.
    pub(super) fn begin_turn(&self) {
        lock(&self.state).runner = Some(thread::current().id());
    }

    /// The consumer's turn is interrupted; another one is on its way.
    pub(super) fn pause_turn(&self) {
        lock(&self.state).runner = None;
        self.changed.notify_all();
    }

    /// The turn that was on its way will not come.
    pub(super) fn lose_turn(&self) {
        lock(&self.state).scheduled = false;
    }

    /// What to do next; fills `batch`, which is empty, when that is to deliver.
    pub(super) fn next_errand(&self, batch: &mut VecDeque<Item<E>>) -> Errand {
        let mut state = lock(&self.state);
        if self.is_closed() {
            return self.rest(&mut state);
        }
        if let Some(shard) = state.behind.pop_front() {
            return Errand::CatchUp(shard);
        }
        self.take(&mut state, batch);
        if mem::take(&mut state.announce_replayed) {
            batch.push_front(Item::Replayed);
        }
        if batch.is_empty() {
            return self.rest(&mut state);
        }
        Errand::Deliver
    }

    fn rest(&self, state: &mut State<E>) -> Errand {
        state.scheduled = false;
        state.runner = None;
        state.queue.relax();
        self.changed.notify_all();
        Errand::Rest
    }

    /// Takes what is queued. With the lock of a shard held, everything of that
    /// shard that was offered so far is in the batch.
    pub(super) fn take_all(&self, batch: &mut VecDeque<Item<E>>) {
        self.take(&mut lock(&self.state), batch);
    }

    fn take(&self, state: &mut State<E>, batch: &mut VecDeque<Item<E>>) {
        state.queue.take(batch);
        let lost = mem::take(&mut state.lost);
        if lost > 0 && self.overflow == Overflow::DropOldest {
            batch.push_front(Item::Lost(lost));
        } else if lost > 0 {
            batch.push_back(Item::Lost(lost));
        }
        self.len.store(0, Ordering::Relaxed);
        if state.blocked_publishers > 0 {
            self.changed.notify_all();
        }
    }

    /// A shard was fetched; once none is left to fetch, that is announced.
    pub(super) fn caught_up(&self) {
        lock(&self.state).announce_replayed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends deliveries. On return no callback is running, unless it is the
    /// caller's own, and none will run.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        self.closed.store(true, Ordering::Release);
        self.len.store(0, Ordering::Relaxed);
        let abandoned = state.queue.discard();
        self.changed.notify_all();
        while state.runner.is_some() && !state.is_run_by_caller() {
            state = wait(&self.changed, state);
        }
        drop(state);
        drop(abandoned);
    }

    /// Items waiting.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

impl<E: Event> State<E> {
    fn is_run_by_caller(&self) -> bool {
        self.runner == Some(thread::current().id())
    }
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar
        .wait(guard)
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
