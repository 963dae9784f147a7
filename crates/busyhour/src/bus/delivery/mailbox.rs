use super::{
    answers::Answers,
    change::ShardChange,
    consumer::Subscriber,
    item::{Item, Queued},
    items::Items,
    lag::{NextAction, Owed},
    offer::Offer,
    queue::Queue,
    room_waiters::RoomWaiters,
};
use crate::{
    bus::{Event, nodes::NodeId, panics::Panics},
    pool::{Turns, wait_for_turn},
    sync::{
        CachePadded, EventCount, SpinGuard, SpinLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        load_sequential_u64, load_sequential_usize, spin_loop, thread_token,
    },
    task::{Executor, HelpOutcome, Overflow},
};
use std::{mem, sync::Arc};

mod reader;
mod replay;

/// The items that wait for one subscriber, and whether a turn will take them.
///
/// Publishers and the consumer share one short lock. The consumer takes all
/// items at once and delivers them without the lock, so it costs the publishers
/// one acquisition per batch. Lock order: a shard, then a mailbox.
pub(in crate::bus) struct Mailbox<E: Event> {
    /// On cache lines of its own: the consumer reads the other fields at each
    /// event, and should not fetch this from the publishers.
    busy: CachePadded<Busy<E>>,
    /// Notified when room appears and when a turn ends, if a thread waits.
    event_count: EventCount,
    /// Threads that wait for the event count, and futures. It is not behind the
    /// lock, so that delivering need not take the lock from the publishers.
    pub(super) waiting_count: AtomicUsize,
    pub(super) room_waiters: SpinLock<RoomWaiters>,
    /// The items that the running turn has taken and not yet begun to deliver,
    /// with [`ENDED`] once nothing more is delivered.
    unclaimed: CachePadded<AtomicU64>,
    /// Items at the end of the batch that are from the cache; written under the
    /// lock.
    replayed: AtomicU64,
    closed: AtomicBool,
    /// Losses since the subscription began.
    lost: AtomicU64,
    capacity: usize,
    overflow: Overflow,
    conflates: bool,
    /// After a loss the subscriber is brought up to date from the cache.
    reseeds: bool,
    /// No event is queued: the subscriber reads each shard's changes from the cache.
    reads_cache: bool,
    /// How often in a row it has found few changes in a shard. Only the consumer uses it.
    meagre_reads: AtomicUsize,
}

/// The fields that publishers write at each event.
struct Busy<E: Event> {
    state: SpinLock<MailboxState<E>>,
    /// The queue's length, for publishers that wait for room.
    len: AtomicUsize,
    /// How many items the running turn last took, some of them delivered
    /// already. Written with the lock held.
    taken_len: AtomicUsize,
}

struct MailboxState<E: Event> {
    queue: Queue<E>,
    /// Nothing more is delivered.
    is_ended: bool,
    /// A consumer's turn is running or on its way.
    scheduled: bool,
    /// The thread that is handing out a batch now.
    runner: Option<usize>,
    /// The thread that sends the turn, or will once it has sent others.
    sender: Option<usize>,
    /// How many turns in a row were dropped without having run.
    turns_dropped: u32,
    owed: Owed,
    /// Items that turns have taken since the subscription began.
    taken: u64,
}

impl<E: Event> Mailbox<E> {
    /// How often a waiter looks before it sleeps, and the pauses in between:
    /// about as long as sleeping and waking take. A model need not try each
    /// number.
    const SPINS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 16 };
    const PAUSES: u32 = 4;

    /// How many turns in a row an executor may drop before the subscription
    /// waits for the next event.
    const TURNS_DROPPED_MAX: u32 = 16;

    pub(in crate::bus) fn new(
        capacity: usize,
        overflow: Overflow,
        conflates: bool,
        reseeds: bool,
    ) -> Self {
        Self {
            busy: CachePadded(Busy {
                state: SpinLock::new(MailboxState::new(conflates)),
                len: AtomicUsize::new(0),
                taken_len: AtomicUsize::new(0),
            }),
            event_count: EventCount::new(),
            waiting_count: AtomicUsize::new(0),
            room_waiters: SpinLock::new(RoomWaiters::default()),
            unclaimed: CachePadded(AtomicU64::new(0)),
            replayed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            capacity,
            overflow,
            conflates,
            reseeds,
            reads_cache: false,
            meagre_reads: AtomicUsize::new(0),
        }
    }

    /// Whether a newer item replaces one of its key.
    pub(in crate::bus) fn conflates(&self) -> bool {
        self.conflates
    }

    /// Asks which of the waiting items with this hash have the change's key.
    pub(in crate::bus) fn ask_waiting(
        &self,
        subscriber: &Arc<Subscriber<E>>,
        hash: u64,
        answers: &mut Answers<E>,
    ) {
        let state = self.busy.state.lock();
        for (number, item) in state.queue.of_hash(hash) {
            answers.ask_waiting(subscriber, number, item);
        }
    }

    /// Offers a change of `shard`. `has_same_key` knows which waiting item has
    /// the same key; user code answered that before.
    ///
    /// The item is built while the lock is held, directly in the queue. Built
    /// before, it would be copied in larger parts than it was stored, and the
    /// processor would wait until the stores have reached the cache; taking the
    /// lock is such a wait already.
    #[inline(always)]
    pub(in crate::bus) fn offer(
        &self,
        shard: usize,
        hash: u64,
        origin: Option<NodeId>,
        change: &mut ShardChange<'_, E>,
        has_same_key: impl Fn(usize) -> bool,
    ) -> Offer<E> {
        let mut state = self.busy.state.lock();
        if !self.has_room(&state) || state.queue.conflates() || self.is_closed() {
            return self.offer_carefully(state, shard, hash, (change, origin), has_same_key);
        }
        self.queue(&mut state, hash, (change.queued(), origin))
    }

    /// Whether one more item may wait, counting those that a turn has taken and
    /// not yet delivered. A publisher that waits for room has checked before; a
    /// publisher that cannot wait may exceed the capacity by as much again.
    #[inline(always)]
    fn has_room(&self, state: &MailboxState<E>) -> bool {
        let waiting = state.queue.len();
        let capacity = match self.blocks() {
            true => self.capacity.saturating_mul(2).saturating_add(BEYOND),
            false => self.capacity,
        };
        let has_room = waiting + self.taken_len() < capacity;
        !state.is_ended && (has_room || waiting + self.unclaimed_queued_len() < capacity)
    }

    #[inline(always)]
    fn taken_len(&self) -> usize {
        self.busy.taken_len.load(Ordering::Relaxed)
    }

    fn set_taken_len(&self, len: usize) {
        self.busy.taken_len.store(len, Ordering::Relaxed);
    }

    #[inline(always)]
    fn unclaimed_len(&self) -> usize {
        (load_sequential_u64(&self.unclaimed) & !ENDED) as usize
    }

    /// The unclaimed items without those from the cache, which are delivered
    /// last.
    #[inline(always)]
    fn unclaimed_queued_len(&self) -> usize {
        let unclaimed = self.unclaimed_len();
        unclaimed.saturating_sub(self.replayed.load(Ordering::Relaxed) as usize)
    }

    /// Whether nothing more is delivered, because the executor was shut down.
    pub(super) fn is_ended(&self) -> bool {
        self.unclaimed.load(Ordering::Acquire) & ENDED != 0
    }

    /// Sets how many items a turn has in hand; `false` if they must not be
    /// delivered any more.
    fn set_unclaimed(&self, len: usize) -> bool {
        let set = |unclaimed: u64| (unclaimed & ENDED == 0).then_some(len as u64);
        (self.unclaimed)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, set)
            .is_ok()
    }

    /// The same for a stream, which delivers what it has in hand even after the
    /// end.
    fn set_unclaimed_of_stream(&self, len: usize) {
        let set = |unclaimed: u64| Some(unclaimed & ENDED | len as u64);
        let _always = (self.unclaimed).fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
    }

    /// Counts items that a turn has just taken from the queue. The lock is
    /// still held, so that a thread that ends the deliveries finds each item in
    /// exactly one of the two places.
    fn take_in_hand(&self, state: &mut MailboxState<E>, len: usize) {
        state.taken += len as u64;
        self.set_taken_len(len);
        self.replayed.store(0, Ordering::Relaxed);
        // After the end only a stream still takes items, and it may.
        self.set_unclaimed_of_stream(len);
    }

    /// Called before a turn delivers a batch to which it has appended items
    /// that were not in the queue; `false` if nothing more is delivered.
    pub(super) fn begin_batch(&self, batch: &Items<E>) -> bool {
        let _state = self.count_replayed(batch);
        self.set_unclaimed(batch.len())
    }

    /// The same for a stream.
    pub(super) fn begin_stream_batch(&self, batch: &Items<E>) {
        let _state = self.count_replayed(batch);
        self.set_unclaimed_of_stream(batch.len());
    }

    fn count_replayed(&self, batch: &Items<E>) -> SpinGuard<'_, MailboxState<E>> {
        let mut state = self.busy.state.lock();
        let added_count = batch.len().saturating_sub(self.unclaimed_len()) as u64;
        state.taken += added_count;
        self.replayed.fetch_add(added_count, Ordering::Relaxed);
        state
    }

    /// Returns the claimed items that are still in the batch. If the deliveries
    /// ended since, they count as lost here, because no other thread has
    /// counted them.
    pub(super) fn unclaim(&self, batch_len: usize, claimed_len: u64) {
        if !self.set_unclaimed(batch_len) && !self.is_closed() {
            self.lost.fetch_add(claimed_len, Ordering::Relaxed);
        }
    }

    /// Claims items for delivery, whose room is then free; `false` if nothing
    /// more is delivered.
    pub(super) fn claim(&self, count: u64) -> bool {
        let rest = |unclaimed: u64| {
            let rest = (unclaimed & !ENDED).saturating_sub(count);
            Some(unclaimed & ENDED | rest)
        };
        let claimed = self
            .unclaimed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, rest);
        self.announce_room();
        claimed.is_ok_and(|unclaimed| unclaimed & ENDED == 0)
    }

    /// Ends deliveries for good; returns how many still waited, which are lost.
    pub(in crate::bus) fn end(&self) -> u64 {
        let mut state = self.busy.state.lock();
        let in_hand = self.unclaimed.swap(ENDED, Ordering::AcqRel);
        if in_hand & ENDED != 0 || self.is_closed() {
            return 0;
        }
        state.is_ended = true;
        // What the cache has instead of queued events is not lost: whoever subscribes finds it.
        state.owed = Owed::default();
        let abandoned = state.queue.discard();
        self.busy.len.store(0, Ordering::Relaxed);
        let count = in_hand + abandoned.len() as u64;
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.announce(state);
        drop(abandoned);
        count
    }

    /// Ends a stream: what waits can still be taken, and nothing more is added.
    pub(super) fn end_stream(&self) {
        let mut state = self.busy.state.lock();
        self.unclaimed.fetch_or(ENDED, Ordering::AcqRel);
        state.is_ended = true;
        self.announce(state);
    }

    #[inline(always)]
    fn queue(
        &self,
        state: &mut MailboxState<E>,
        hash: u64,
        (queued, origin): (Queued<E>, Option<NodeId>),
    ) -> Offer<E> {
        state.queue.push(hash, queued, origin);
        self.busy.len.store(state.queue.len(), Ordering::Relaxed);
        match state.schedule() {
            true => Offer::QueuedFirst,
            false => Offer::Queued,
        }
    }

    #[cold]
    fn offer_carefully(
        &self,
        mut state: SpinGuard<'_, MailboxState<E>>,
        shard: usize,
        hash: u64,
        (change, origin): (&mut ShardChange<'_, E>, Option<NodeId>),
        has_same_key: impl Fn(usize) -> bool,
    ) -> Offer<E> {
        if self.is_closed() {
            return Offer::Closed;
        }
        if state.is_ended {
            self.count_lost();
            return Offer::Refused { wake: false };
        }
        let queued = match state.queue.conflates() {
            true => {
                let item = change.to_item();
                match state.queue.replace(hash, item, origin, has_same_key) {
                    Ok(older) => {
                        let wake = state.schedule();
                        return Offer::Conflated { older, wake };
                    }
                    Err(item) => Queued::Shared(item),
                }
            }
            false => change.queued(),
        };
        match self.has_room(&state) {
            true => self.queue(&mut state, hash, (queued, origin)),
            false => self.overflow(&mut state, shard, hash, (queued, origin)),
        }
    }

    fn overflow(
        &self,
        state: &mut MailboxState<E>,
        shard: usize,
        hash: u64,
        (queued, origin): (Queued<E>, Option<NodeId>),
    ) -> Offer<E> {
        if self.reseeds {
            // If the queue conflates, the cache will provide the newest event.
            if !self.conflates {
                self.count_lost();
            }
            state.owed.behind.add(shard);
            let wake = state.schedule();
            return Offer::FellBehind { wake };
        }
        if self.overflow != Overflow::DropOldest {
            self.count_unheard(state);
            let wake = state.schedule();
            return Offer::Refused { wake };
        }
        // If the running turn has taken everything, nothing is dropped.
        let Some(oldest) = state.queue.pop_oldest() else {
            return self.queue(state, hash, (queued, origin));
        };
        self.count_unheard(state);
        state.queue.push(hash, queued, origin);
        let (oldest, wake) = (oldest.into_item(), state.schedule());
        Offer::DroppedOldest { oldest, wake }
    }

    /// Counts a loss that will be announced to the subscriber.
    fn count_unheard(&self, state: &mut MailboxState<E>) {
        self.count_lost();
        state.owed.lost += 1;
    }

    /// Counts a loss: of an item that was offered here, or of one that was not
    /// offered because the subscriber lags.
    pub(in crate::bus) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Losses since the subscription began.
    pub(in crate::bus) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Items that the consumer has begun to receive.
    pub(in crate::bus) fn delivered(&self) -> u64 {
        let state = self.busy.state.lock();
        state.taken.saturating_sub(self.unclaimed_len() as u64)
    }

    pub(in crate::bus) fn blocks(&self) -> bool {
        self.overflow == Overflow::Block
    }

    /// Whether a publisher must wait before it offers anything.
    #[inline(always)]
    pub(in crate::bus) fn is_full(&self) -> bool {
        // The publishers' own cache lines mostly answer this; the consumer's
        // line is fetched only if they do not.
        let queued_len = self.queued_len();
        queued_len + self.taken_len() >= self.capacity && self.is_still_full(queued_len)
    }

    #[cold]
    fn is_still_full(&self, queued_len: usize) -> bool {
        queued_len + self.unclaimed_queued_len() >= self.capacity && !self.is_ended()
    }

    /// Waits until there is room or the subscription ends; `false` if the wait
    /// would never end, because the consumer cannot run while the caller waits.
    ///
    /// `revive` sends a lost turn again and returns whether that helped.
    /// `turns` returns this subscription as the wait graph sees it, to find
    /// cycles.
    pub(in crate::bus) fn wait_for_room(
        &self,
        executor: &dyn Executor,
        turns: impl Fn() -> Arc<dyn Turns>,
        revive: impl Fn() -> bool,
    ) -> bool {
        let has_room = || !self.is_full() || self.is_closed();
        while !has_room() {
            if self.busy.state.lock().waits_for_caller() {
                return false;
            }
            match executor.assist() {
                HelpOutcome::Helped => {}
                HelpOutcome::Wait => {
                    let Ok(_waiting) = wait_for_turn(turns()) else {
                        return false;
                    };
                    let done = |state: &MailboxState<E>| has_room() || !state.scheduled;
                    executor.blocking(&mut || self.wait_until(done));
                    if !has_room() && !revive() {
                        return false;
                    }
                }
                HelpOutcome::WouldDeadlock => return false,
            }
        }
        true
    }

    /// Whether the caller must send a turn: items wait and no turn is on its
    /// way.
    pub(super) fn needs_turn(&self) -> bool {
        let mut state = self.busy.state.lock();
        state.queue.len() + self.unclaimed_len() > 0 && state.schedule()
    }

    /// The thread that runs the turn now.
    pub(super) fn runner(&self) -> Option<usize> {
        self.busy.state.lock().runner
    }

    /// Whether a turn is running or on its way.
    pub(super) fn is_scheduled(&self) -> bool {
        self.busy.state.lock().scheduled
    }

    fn wait_until(&self, is_reached: impl Fn(&MailboxState<E>) -> bool) {
        for _ in 0..Self::SPINS {
            if is_reached(&self.busy.state.lock()) {
                return;
            }
            (0..Self::PAUSES).for_each(|_| spin_loop());
        }
        self.waiting_count.fetch_add(1, Ordering::SeqCst);
        self.event_count
            .wait_until(|| is_reached(&self.busy.state.lock()));
        self.waiting_count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Releases the lock and wakes the threads that wait for the change.
    fn announce(&self, state: SpinGuard<'_, MailboxState<E>>) {
        drop(state);
        self.announce_room();
    }

    /// Wakes the threads that wait for the change, which was made with the lock
    /// held or is one of `unclaimed`.
    ///
    /// A thread counts itself before it looks. If it looks after a change under
    /// the lock, it sees the change; otherwise its count is seen here. The same
    /// holds for `unclaimed`: the count, the change and both looks have one
    /// order in all threads (`SeqCst`).
    fn announce_room(&self) {
        if load_sequential_usize(&self.waiting_count) > 0 {
            self.event_count.notify_all();
            self.wake_one();
        }
    }

    /// The caller will send the turn, perhaps after other subscribers' turns.
    pub(in crate::bus) fn expect_sending(&self) {
        self.busy.state.lock().sender = Some(thread_token());
    }

    /// The caller has sent the turn. Another thread may now send the next.
    pub(in crate::bus) fn sent(&self) {
        let mut state = self.busy.state.lock();
        state.sender = state.sender.filter(|sender| *sender != thread_token());
    }

    /// The consumer's turn begins on this thread.
    pub(super) fn begin_turn(&self) {
        let mut state = self.busy.state.lock();
        state.runner = Some(thread_token());
        state.turns_dropped = 0;
    }

    /// The consumer's turn yields; the next one is on its way.
    pub(super) fn pause_turn(&self) {
        let mut state = self.busy.state.lock();
        state.runner = None;
        self.announce(state);
    }

    /// Whether a turn that was dropped before it ran may be sent again;
    /// bounded, for executors that drop every task.
    pub(super) fn may_send_again(&self) -> bool {
        let mut state = self.busy.state.lock();
        state.turns_dropped = state.turns_dropped.saturating_add(1);
        state.turns_dropped <= Self::TURNS_DROPPED_MAX && !self.is_closed()
    }

    /// The turn that is on its way will be dropped and not sent again.
    pub(super) fn give_up_turn(&self) {
        self.busy.state.lock().turns_dropped = u32::MAX;
    }

    /// The turn that was on its way will not run.
    pub(super) fn lose_turn(&self) {
        let mut state = self.busy.state.lock();
        state.scheduled = false;
        state.turns_dropped = 0;
        self.announce(state);
    }

    /// What to do next; to deliver, it fills `batch`, which is empty.
    #[inline(always)]
    pub(super) fn next_action(&self, batch: &mut Items<E>) -> NextAction {
        let mut state = self.busy.state.lock();
        if self.is_closed() || self.is_ended() && state.queue.len() == 0 && state.owed.is_empty() {
            return self.rest(state);
        }
        // While events are published there may always be a shard to read.
        let is_told_first = self.reads_cache && state.owed.is_replay_over();
        let to_fetch = (!is_told_first).then(|| state.owed.behind.take());
        if let Some(to_fetch) = to_fetch.flatten() {
            self.set_taken_len(0);
            return NextAction::CatchUp(to_fetch);
        }
        self.take(&mut state, batch);
        if mem::take(&mut state.owed.replayed) {
            batch.push_notice(Item::Replayed);
        }
        if batch.is_empty() {
            return self.rest(state);
        }
        self.take_in_hand(&mut state, batch.len());
        self.announce(state);
        NextAction::Deliver
    }

    #[inline(always)]
    fn rest(&self, mut state: SpinGuard<'_, MailboxState<E>>) -> NextAction {
        state.scheduled = false;
        state.runner = None;
        self.set_taken_len(0);
        state.queue.relax();
        self.announce(state);
        NextAction::Rest
    }

    /// Takes what is queued; under a shard's lock, all that the shard has
    /// offered.
    pub(in crate::bus) fn take_all(&self, batch: &mut Items<E>) {
        let mut state = self.busy.state.lock();
        self.take(&mut state, batch);
        self.take_in_hand(&mut state, batch.len());
    }

    fn take(&self, state: &mut MailboxState<E>, batch: &mut Items<E>) {
        state.queue.take(batch);
        let lost = mem::take(&mut state.owed.lost);
        if lost > 0 && self.overflow == Overflow::DropOldest {
            batch.push_notice(Item::Lost(lost));
        } else if lost > 0 {
            batch.push(Queued::Shared(Item::Lost(lost)), None);
        }
        self.busy.len.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends deliveries. On return no callback is running, unless it is the
    /// caller's own, and none will run.
    pub(super) fn close(&self) {
        let mut state = self.busy.state.lock();
        self.closed.store(true, Ordering::Release);
        self.busy.len.store(0, Ordering::Relaxed);
        let abandoned = state.queue.discard();
        self.announce(state);
        let mut panics = Panics::default();
        panics.drop(abandoned);
        self.wait_until(|state| state.runner.is_none() || state.is_run_by_caller());
    }

    /// Whether no turn is running or on its way.
    pub(in crate::bus) fn is_idle(&self) -> bool {
        !self.busy.state.lock().scheduled
    }

    /// How many items may wait.
    pub(in crate::bus) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Items waiting in the queue.
    pub(in crate::bus) fn queued_len(&self) -> usize {
        self.busy.len.load(Ordering::Relaxed)
    }

    /// Items that wait, including those that a turn has taken already.
    pub(in crate::bus) fn len(&self) -> usize {
        self.queued_len() + self.unclaimed_len()
    }
}

impl<E: Event> MailboxState<E> {
    fn new(conflates: bool) -> Self {
        Self {
            queue: Queue::new(conflates),
            is_ended: false,
            scheduled: false,
            runner: None,
            sender: None,
            turns_dropped: 0,
            owed: Owed::default(),
            taken: 0,
        }
    }

    /// Marks a turn as on its way; returns whether the caller has to send it.
    /// If items wait already, that happens when the last turn was lost.
    #[inline(always)]
    fn schedule(&mut self) -> bool {
        !mem::replace(&mut self.scheduled, true)
    }

    fn is_run_by_caller(&self) -> bool {
        self.runner == Some(thread_token())
    }

    /// Whether no items can be taken until the caller goes on.
    fn waits_for_caller(&self) -> bool {
        self.is_run_by_caller() || self.sender == Some(thread_token())
    }
}

/// The bit of `unclaimed` that means that nothing more is delivered.
const ENDED: u64 = 1 << 63;
/// How many items beyond twice its capacity a blocking queue may hold.
const BEYOND: usize = 64;
