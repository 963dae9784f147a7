use super::{Event, Message, bell::Bell, queue::Queue};
use crate::{
    sync::{
        SpinGuard, SpinLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        spin_loop, thread_token,
    },
    task::{Assistance, Executor, Overflow},
};
use std::{collections::VecDeque, mem};

/// What waits for one subscriber, and whether somebody is on the way to take it.
///
/// Publishers and the consumer meet under one short lock. The consumer takes
/// everything at once and hands it out without the lock, so it costs the
/// publishers one visit a batch. Lock order: a shard, then a mailbox.
pub(super) struct Mailbox<E: Event> {
    state: SpinLock<State<E>>,
    /// Rung when room appears and when a turn ends, if somebody waits.
    bell: Bell,
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
    runner: Option<usize>,
    /// Shards whose changes have to be fetched from the cache.
    behind: VecDeque<usize>,
    /// Losses not yet announced.
    lost: u64,
    /// The consumer has something to announce although nothing is queued.
    announce_replayed: bool,
    /// Threads that wait for the bell.
    waiting_count: usize,
}

/// What became of an item that was offered.
#[must_use]
pub(super) enum Offer<E: Event> {
    Queued,
    /// The same, and the caller must wake the consumer.
    QueuedFirst,
    /// The subscription has ended.
    Closed,
    /// It replaced this older item of its key.
    Conflated(Message<E>),
    /// It was queued, and the oldest one was lost for it.
    DroppedOldest(Option<Message<E>>),
    /// It is lost.
    Refused,
    /// It is lost, and the shard has to be fetched from the cache.
    FellBehind {
        wake: bool,
    },
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
    /// Looks before a waiter goes to sleep, and pauses between two of them:
    /// some microseconds, about what going to sleep and being woken costs.
    const SPINS: u32 = 16;
    const PAUSES: u32 = 4;

    pub(super) fn new(capacity: usize, overflow: Overflow, conflates: bool, reseeds: bool) -> Self {
        Self {
            state: SpinLock::new(State {
                queue: Queue::new(conflates),
                scheduled: false,
                runner: None,
                behind: VecDeque::new(),
                lost: 0,
                announce_replayed: false,
                waiting_count: 0,
            }),
            bell: Bell::new(),
            len: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            capacity,
            overflow,
            reseeds,
        }
    }

    /// Offers an item of `shard`.
    #[inline(always)]
    pub(super) fn offer(&self, shard: usize, hash: u64, item: Message<E>) -> Offer<E> {
        let mut state = self.state.lock();
        let has_room = state.queue.len() < self.capacity || self.blocks();
        if !has_room || state.queue.conflates() || self.is_closed() {
            return self.offer_carefully(state, shard, hash, item);
        }
        self.queue(&mut state, hash, item)
    }

    #[inline(always)]
    fn queue(&self, state: &mut State<E>, hash: u64, item: Message<E>) -> Offer<E> {
        state.queue.push(hash, item);
        self.len.store(state.queue.len(), Ordering::Relaxed);
        if mem::replace(&mut state.scheduled, true) {
            Offer::Queued
        } else {
            Offer::QueuedFirst
        }
    }

    #[cold]
    fn offer_carefully(
        &self,
        mut state: SpinGuard<'_, State<E>>,
        shard: usize,
        hash: u64,
        item: Message<E>,
    ) -> Offer<E> {
        if self.is_closed() {
            return Offer::Closed;
        }
        match state.queue.replace(hash, item) {
            Ok(older) => Offer::Conflated(older),
            Err(item) if state.queue.len() < self.capacity || self.blocks() => {
                self.queue(&mut state, hash, item)
            }
            Err(item) => self.overflow(&mut state, shard, hash, item),
        }
    }

    fn overflow(
        &self,
        state: &mut State<E>,
        shard: usize,
        hash: u64,
        item: Message<E>,
    ) -> Offer<E> {
        if self.reseeds {
            state.behind.push_back(shard);
            let wake = !mem::replace(&mut state.scheduled, true);
            return Offer::FellBehind { wake };
        }
        state.lost += 1;
        if self.overflow != Overflow::DropOldest {
            return Offer::Refused;
        }
        let oldest = state.queue.pop_oldest();
        state.queue.push(hash, item);
        Offer::DroppedOldest(oldest)
    }

    pub(super) fn blocks(&self) -> bool {
        self.overflow == Overflow::Block
    }

    /// A publisher has to wait before it may offer anything.
    pub(super) fn is_full(&self) -> bool {
        self.len.load(Ordering::Relaxed) >= self.capacity
    }

    /// Waits until there is room or the subscription ends; `false` when that
    /// is hopeless, because the consumer cannot run while the caller waits.
    pub(super) fn wait_for_room(&self, executor: &dyn Executor) -> bool {
        let has_room = || !self.is_full() || self.is_closed();
        while !has_room() {
            if self.state.lock().is_run_by_caller() {
                return false;
            }
            match executor.assist() {
                Assistance::Helped => {}
                Assistance::Wait => self.wait_until(|_| has_room()),
                Assistance::Hopeless => return false,
            }
        }
        true
    }

    fn wait_until(&self, is_reached: impl Fn(&State<E>) -> bool) {
        for _ in 0..Self::SPINS {
            if is_reached(&self.state.lock()) {
                return;
            }
            (0..Self::PAUSES).for_each(|_| spin_loop());
        }
        self.state.lock().waiting_count += 1;
        self.bell.wait_until(|| is_reached(&self.state.lock()));
        self.state.lock().waiting_count -= 1;
    }

    /// Leaves the lock and wakes whoever waits for what changed.
    fn announce(&self, state: SpinGuard<'_, State<E>>) {
        let is_awaited = state.waiting_count > 0;
        drop(state);
        if is_awaited {
            self.bell.ring();
        }
    }

    /// Lets the consumer fetch these shards and then announce that it did;
    /// `true` when the caller must wake it.
    pub(super) fn order_replay(&self, shards: impl Iterator<Item = usize>) -> bool {
        let mut state = self.state.lock();
        state.behind.extend(shards);
        state.announce_replayed = true;
        !mem::replace(&mut state.scheduled, true)
    }

    /// The consumer's turn begins on this thread.
    pub(super) fn begin_turn(&self) {
        self.state.lock().runner = Some(thread_token());
    }

    /// The consumer's turn is interrupted; another one is on its way.
    pub(super) fn pause_turn(&self) {
        let mut state = self.state.lock();
        state.runner = None;
        self.announce(state);
    }

    /// The turn that was on its way will not come.
    pub(super) fn lose_turn(&self) {
        self.state.lock().scheduled = false;
    }

    /// What to do next; fills `batch`, which is empty, when that is to deliver.
    pub(super) fn next_errand(&self, batch: &mut VecDeque<Message<E>>) -> Errand {
        let mut state = self.state.lock();
        if self.is_closed() {
            return self.rest(state);
        }
        if let Some(shard) = state.behind.pop_front() {
            return Errand::CatchUp(shard);
        }
        self.take(&mut state, batch);
        if mem::take(&mut state.announce_replayed) {
            batch.push_front(Message::Replayed);
        }
        if batch.is_empty() {
            return self.rest(state);
        }
        self.announce(state);
        Errand::Deliver
    }

    /// Waits a little for more, some microseconds at most: after a large batch
    /// more is probably on its way, and a consumer who rests has to be woken.
    pub(super) fn linger(&self) {
        for _ in 0..Self::SPINS {
            if self.len() > 0 {
                return;
            }
            (0..Self::PAUSES).for_each(|_| spin_loop());
        }
    }

    fn rest(&self, mut state: SpinGuard<'_, State<E>>) -> Errand {
        state.scheduled = false;
        state.runner = None;
        state.queue.relax();
        self.announce(state);
        Errand::Rest
    }

    /// Takes what is queued. With the lock of a shard held, everything of that
    /// shard that was offered so far is in the batch.
    pub(super) fn take_all(&self, batch: &mut VecDeque<Message<E>>) {
        let mut state = self.state.lock();
        self.take(&mut state, batch);
        self.announce(state);
    }

    fn take(&self, state: &mut State<E>, batch: &mut VecDeque<Message<E>>) {
        state.queue.take(batch);
        let lost = mem::take(&mut state.lost);
        if lost > 0 && self.overflow == Overflow::DropOldest {
            batch.push_front(Message::Lost(lost));
        } else if lost > 0 {
            batch.push_back(Message::Lost(lost));
        }
        self.len.store(0, Ordering::Relaxed);
    }

    /// A shard was fetched; once none is left to fetch, that is announced.
    pub(super) fn caught_up(&self) {
        self.state.lock().announce_replayed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends deliveries. On return no callback is running, unless it is the
    /// caller's own, and none will run.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        self.closed.store(true, Ordering::Release);
        self.len.store(0, Ordering::Relaxed);
        let abandoned = state.queue.discard();
        self.announce(state);
        drop(abandoned);
        self.wait_until(|state| state.runner.is_none() || state.is_run_by_caller());
    }

    /// Whether no turn is running or on its way.
    pub(super) fn is_idle(&self) -> bool {
        !self.state.lock().scheduled
    }

    /// Items waiting.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

impl<E: Event> State<E> {
    fn is_run_by_caller(&self) -> bool {
        self.runner == Some(thread_token())
    }
}
