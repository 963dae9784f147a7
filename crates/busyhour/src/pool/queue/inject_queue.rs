//! The queue in which other threads leave work for a worker. See README.md,
//! "The inject queue".

use std::{collections::VecDeque, mem};

use super::{
    fifo::{CHUNK_LEN, TaskFifo},
    local::WorkBatch,
};
use crate::{
    pool::entity::Token,
    sync::{
        SpinLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Task,
};

/// The inject queue of one worker.
///
/// What each push writes is on one cache line: the fields up to `Injected::tasks`. Only while
/// more waits than ever did, it writes `high_water` as well.
#[derive(Default)]
#[repr(C)]
pub(in crate::pool) struct InjectQueue {
    /// The number of waiting items; written under the lock, so that a thread
    /// can see without it whether there is anything to take.
    len: AtomicUsize,
    /// The number of tasks ever pushed.
    pushed: AtomicU64,
    queue: SpinLock<Injected>,
    /// How many of the items are entities.
    token_len: AtomicUsize,
    /// Whether it accepts pushes; written under the lock, a hint for selectors.
    is_open: AtomicBool,
    high_water: AtomicUsize,
    /// No fewer tasks than ever waited in the worker's FIFO.
    fifo_len_max: AtomicUsize,
}

#[derive(Default)]
#[repr(C)]
struct Injected {
    tasks: TaskFifo,
    state: InjectState,
    /// Full chunks, older than `tasks`.
    full: VecDeque<TaskFifo>,
    /// The memory of the next chunk, if there is any.
    spare: TaskFifo,
    tokens: Vec<Token>,
}

/// Whether a push is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum InjectState {
    /// The slot has no worker.
    #[default]
    InjectClosed,
    Open,
    /// The pool is shut down: closed for good.
    Sealed,
}

/// The worker has left.
pub(in crate::pool) struct InjectClosed<T>(pub(in crate::pool) T);

impl InjectQueue {
    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(in crate::pool) fn token_len(&self) -> usize {
        self.token_len.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }

    /// The number of tasks ever pushed, not counting those of entities.
    pub(in crate::pool) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::SeqCst)
    }

    /// At most as many tasks as wait here and in the worker's FIFO. A thread that
    /// pushes reads no line for it that the worker writes again and again.
    #[inline(always)]
    pub(in crate::pool) fn task_len_max(&self) -> usize {
        self.len() + self.fifo_len_max.load(Ordering::Relaxed)
    }

    /// Tells those who push that so many tasks may wait in the worker's FIFO.
    pub(in crate::pool) fn expect_in_fifo(&self, len_max: usize) {
        self.fifo_len_max.store(len_max, Ordering::Relaxed);
    }

    /// Queues the task that `make` creates in its place; returns how many items
    /// wait, or `make` if the worker has left.
    #[inline(always)]
    pub(in crate::pool) fn push<M: FnOnce() -> Task>(
        &self,
        make: M,
    ) -> Result<usize, InjectClosed<M>> {
        let mut queue = self.queue.lock();
        if queue.state != InjectState::Open {
            return Err(InjectClosed(make));
        }
        if queue.tasks.len() >= CHUNK_LEN {
            queue.begin_chunk();
        }
        queue.tasks.push(make);
        // Called only under the lock, so no read-modify-write is needed.
        let pushed = self.pushed.load(Ordering::Relaxed) + 1;
        self.pushed.store(pushed, Ordering::Relaxed);
        Ok(self.publish(1))
    }

    pub(in crate::pool) fn push_token(&self, token: Token) -> Result<usize, InjectClosed<Token>> {
        let mut queue = self.queue.lock();
        if queue.state != InjectState::Open {
            return Err(InjectClosed(token));
        }
        queue.tokens.push(token);
        self.token_len.store(queue.tokens.len(), Ordering::Relaxed);
        Ok(self.publish(1))
    }

    #[inline(always)]
    fn publish(&self, more: usize) -> usize {
        let len = self.len() + more;
        if len > self.high_water.load(Ordering::Relaxed) {
            self.high_water.store(len, Ordering::Relaxed);
        }
        self.len.store(len, Ordering::Relaxed);
        len
    }

    /// Takes the oldest chunk of tasks, and all entities.
    pub(in crate::pool) fn take(&self) -> WorkBatch {
        let mut queue = self.queue.lock();
        let tasks = match queue.full.pop_front() {
            Some(chunk) => chunk,
            None => {
                let spare = mem::take(&mut queue.spare);
                mem::replace(&mut queue.tasks, spare)
            }
        };
        self.hand_out(&mut queue, tasks)
    }

    /// Takes all entities; they do not wait behind plain tasks.
    pub(in crate::pool) fn take_tokens(&self) -> WorkBatch {
        let mut queue = self.queue.lock();
        self.hand_out(&mut queue, TaskFifo::new())
    }

    /// Keeps the memory of a chunk whose tasks were taken, for those that will be pushed.
    pub(in crate::pool) fn give_back(&self, mut emptied: TaskFifo) {
        if !emptied.is_vacant_chunk() {
            return;
        }
        emptied.rewind();
        let mut queue = self.queue.lock();
        let place = match queue.tasks.has_memory() {
            true => &mut queue.spare,
            false => &mut queue.tasks,
        };
        let other = mem::replace(place, emptied);
        drop(queue);
        drop(other);
    }

    fn hand_out(&self, queue: &mut Injected, tasks: TaskFifo) -> WorkBatch {
        let mut batch = WorkBatch {
            tasks,
            tokens: Vec::new(),
        };
        // Who pushes reads the line of these.
        if !queue.tokens.is_empty() {
            batch.tokens = mem::take(&mut queue.tokens);
            self.token_len.store(0, Ordering::Relaxed);
        }
        debug_assert!(batch.len() <= self.len());
        self.len.store(self.len() - batch.len(), Ordering::Relaxed);
        batch
    }

    pub(in crate::pool) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Opens the queue for a worker that is about to start, unless it is
    /// sealed.
    pub(in crate::pool) fn open(&self) {
        let mut queue = self.queue.lock();
        if queue.state == InjectState::InjectClosed {
            self.turn(&mut queue, InjectState::Open);
        }
    }

    /// Closes an empty queue; `false` if it is not empty.
    pub(in crate::pool) fn close_if_empty(&self) -> bool {
        let mut queue = self.queue.lock();
        if queue.state == InjectState::Open && self.len() == 0 {
            self.turn(&mut queue, InjectState::InjectClosed);
        }
        queue.state != InjectState::Open
    }

    /// Closes the queue; its items can still be taken.
    pub(in crate::pool) fn close(&self) {
        let mut queue = self.queue.lock();
        if queue.state == InjectState::Open {
            self.turn(&mut queue, InjectState::InjectClosed);
        }
    }

    /// Closes the queue for good; its items can still be taken.
    pub(in crate::pool) fn seal(&self) {
        self.turn(&mut self.queue.lock(), InjectState::Sealed);
    }

    fn turn(&self, queue: &mut Injected, state: InjectState) {
        queue.state = state;
        self.is_open
            .store(state == InjectState::Open, Ordering::Relaxed);
    }
}

/// What each push writes, on 64-bit machines.
#[cfg(all(target_pointer_width = "64", not(any(loom, shuttle))))]
const _: () = {
    assert!(mem::offset_of!(InjectQueue, queue) == 16 && mem::offset_of!(Injected, tasks) == 0);
    assert!(size_of::<TaskFifo>() == 40);
};

impl Injected {
    /// Sets a full chunk aside, so that no push moves earlier items.
    #[cold]
    fn begin_chunk(&mut self) {
        let chunk = match self.spare.has_memory() {
            true => mem::take(&mut self.spare),
            false => self.tasks.vacant_chunk(),
        };
        let full = mem::replace(&mut self.tasks, chunk);
        self.full.push_back(full);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::pool::queue::CHUNK_LEN;

    #[test]
    fn the_memory_of_a_chunk_comes_back_for_the_next_one() {
        let queue = InjectQueue::default();
        queue.open();
        let push = || assert!(queue.push(|| Task::new(|| ())).is_ok());
        let take_and_give_back = || {
            let mut chunk = queue.take().tasks;
            let len = chunk.len();
            while chunk.take().is_some() {}
            queue.give_back(chunk);
            len
        };
        (0..CHUNK_LEN).for_each(|_| push());
        assert_eq!(take_and_give_back(), CHUNK_LEN);
        assert!(queue.queue.lock().tasks.is_vacant_chunk());
        (0..=CHUNK_LEN).for_each(|_| push());
        assert_eq!(take_and_give_back(), CHUNK_LEN);
        assert_eq!(queue.len(), 1);
        assert!(queue.queue.lock().spare.is_vacant_chunk());
        assert_eq!(queue.take().tasks.len(), 1);
        assert!(queue.queue.lock().tasks.has_memory(), "the spare one");
    }
}
