//! A worker's loop: switch, run, search, sleep.

use std::{cell::Cell, hint::spin_loop, sync::atomic::Ordering, time::Instant as MachineInstant};

use super::{
    coalescing::Coalescing,
    stuck_rescue::StuckRescue,
    turn_runner::TurnRunner,
    worker_thread::{CurrentWorker, Worker},
};
use crate::{
    pool::{
        queue::{CHUNK_LEN, WorkBatch},
        shared::Shared,
        sleep::AfterSearch,
    },
    sync::fences,
};

/// The loop of one worker.
pub(super) struct WorkerLoop<'a> {
    shared: &'a Shared,
    current: CurrentWorker<'a>,
    turn_runner: TurnRunner<'a>,
    rescue: StuckRescue,
    /// Whether a queue has been searched, which may have been empty by then.
    has_searched_queue: Cell<bool>,
    coalescing: Coalescing,
    /// The turn in which tasks were last taken from the inject queue.
    taken_at: Cell<u64>,
}

impl<'a> WorkerLoop<'a> {
    /// Runs until the pool is sealed, or the worker on this thread is no longer
    /// needed.
    pub(super) fn run(shared: &'a Shared) {
        let Some(current) = CurrentWorker::of(shared) else {
            return;
        };
        let mut worker_loop = Self {
            shared,
            current,
            rescue: StuckRescue::new(shared.workers.len(), shared.clock.now()),
            turn_runner: TurnRunner::begin(shared, current),
            has_searched_queue: Cell::new(false),
            coalescing: Coalescing::default(),
            taken_at: Cell::new(0),
        };
        current.worker.is_at_work.store(true, Ordering::SeqCst);
        while !shared.is_sealed() && (worker_loop.turn() || worker_loop.find_work()) {}
        worker_loop.turn_runner.end();
        current.worker.is_at_work.store(false, Ordering::SeqCst);
    }

    /// Runs the next entity; `false` when there is none.
    #[inline]
    fn turn(&mut self) -> bool {
        self.turn_runner.begin_turn();
        if self.turn_runner.is_fresh() {
            return self.turn_after_a_reading();
        }
        if self.current.worker.inject_queue.len() > 0 {
            self.take_injected();
        }
        self.turn_runner.run_next()
    }

    /// What is done now and then is done here, so that it costs other turns
    /// nothing.
    #[cold]
    fn turn_after_a_reading(&mut self) -> bool {
        let (now, turns) = (self.turn_runner.now(), self.turn_runner.turns());
        if self.rescue.is_due(now, turns) {
            self.rescue_stuck();
        }
        if self.current.worker.inject_queue.len() > 0 {
            self.take_injected();
        }
        let worker = self.current.worker;
        self.shared.look_at_marks_again(|| worker.waiting_len());
        self.turn_runner.run_next_and_publish()
    }

    /// Takes work from the inject queue. A chunk is as long as four turns of the
    /// FIFO: beside a long FIFO one is taken every fifth turn, so that neither of
    /// the two grows at the other's expense. A chunk takes the place of an empty
    /// FIFO; behind other tasks it would be copied, which only a few tasks are
    /// meanwhile. Entities compete with the FIFO and need not wait for that.
    #[cold]
    fn take_injected(&self) {
        let worker = self.current.worker;
        let (fifo_len, turns) = (worker.fifo_len(), self.turn_runner.turns());
        let are_few = fifo_len < CHUNK_LEN && worker.inject_queue.len() <= FEW_TASKS;
        let is_due = turns.wrapping_sub(self.taken_at.get()) >= TURNS_BETWEEN_CHUNKS;
        if fifo_len == 0 || are_few || is_due {
            self.taken_at.set(turns);
            let is_idle = fifo_len == 0 && !worker.others_wait();
            self.take_tasks(is_idle && !self.turn_runner.holds_an_entity());
        } else if worker.inject_queue.token_len() > 0 {
            self.while_moving(|| self.take_over(worker.inject_queue.take_tokens()));
        } else {
            return;
        }
        self.after_moving();
    }

    /// Takes tasks from the inject queue, and those that come within a moment if there
    /// is nothing else to run.
    fn take_tasks(&self, is_idle: bool) {
        let inject_queue = &self.current.worker.inject_queue;
        let seen = inject_queue.len();
        if is_idle {
            self.coalescing.wait(seen);
        }
        self.while_moving(|| {
            let batch = inject_queue.take();
            if is_idle {
                self.coalescing.learn(seen, batch.tasks.len());
            }
            self.take_over(batch);
        });
    }

    /// Work on its way is in no queue, so a worker that looked meanwhile may
    /// have fallen asleep, and a push may have counted too little to add one.
    /// So a move is followed by what follows a push, unless this worker runs
    /// all that it has next. After a search, `end_search` does that.
    #[inline]
    fn after_moving(&self) {
        let in_hand = usize::from(self.turn_runner.holds_an_entity());
        let len = self.current.worker.waiting_len() + in_hand;
        let workers = &self.shared.workers;
        if len > 1 && workers.sleepers.should_wake() {
            workers.wake_one(None);
        } else if workers.is_long(len) && workers.may_grow() {
            // A push writes its length, then counts those of the others.
            fences::heavy();
            self.shared.grow_after_search();
        }
    }

    fn while_moving<R>(&self, run: impl FnOnce() -> R) -> R {
        let worker = &self.current.worker;
        self.shared.while_moving(|| worker.waiting_len(), run)
    }

    fn take_over(&self, batch: WorkBatch) {
        let left = self.current.local(|local| local.take_over(batch));
        match left.is_empty() {
            true => self.current.worker.inject_queue.give_back(left.tasks),
            false => self.shared.thread_context().abandon(left),
        }
    }

    /// Takes work from workers that are stuck in a long task: while all workers
    /// are busy, no other worker would.
    #[cold]
    fn rescue_stuck(&mut self) {
        self.rescue
            .begin(self.turn_runner.now(), self.turn_runner.turns());
        let own_number = self.current.worker.number;
        for worker in self.shared.workers.iter() {
            if worker.number != own_number && self.rescue.finds_stuck(worker) {
                self.while_moving(|| self.relieve(worker));
                self.after_moving();
            }
        }
    }

    fn relieve(&self, stuck: &Worker) {
        let mut batch = stuck.inject_queue.take();
        if batch.is_empty() {
            let given = stuck.try_as_remote(|local| local.give_half());
            batch = given.unwrap_or_default();
        }
        self.carry_home(batch);
    }

    fn carry_home(&self, batch: WorkBatch) {
        let metrics = self.current.metrics();
        metrics.add(|metrics| &metrics.stolen, batch.len() as u64);
        self.take_over(batch);
    }

    /// Searches, then sleeps, then searches again; `false` to end the loop.
    #[cold]
    fn find_work(&mut self) -> bool {
        self.current.publish_mode();
        self.shared.look_at_marks();
        self.shared.workers.sleepers.begin_search();
        let found = self.search_or_sleep();
        self.end_search(found);
        self.turn_runner.restart();
        found
    }

    fn end_search(&self, found: bool) {
        let workers = &self.shared.workers;
        match workers.sleepers.end_search(workers.may_grow()) {
            AfterSearch::Wake if self.leaves_work(found) => workers.wake_one(None),
            AfterSearch::Grow => self.shared.grow_after_search(),
            _ => {}
        }
    }

    /// Whether there is more than what this worker runs next; if it ends instead, anything is more.
    fn leaves_work(&self, goes_on: bool) -> bool {
        let (own, workers) = (self.current.worker, &self.shared.workers);
        if !goes_on {
            return workers.any_work();
        }
        let in_hand = usize::from(self.turn_runner.holds_an_entity());
        let others = workers.iter().filter(|it| it.number != own.number);
        own.waiting_len() + in_hand > 1 || others.map(Worker::waiting_len).any(|len| len > 0)
    }

    fn search_or_sleep(&self) -> bool {
        loop {
            if self.shared.is_sealed() {
                return false;
            }
            if self.search() || self.must_look_again() {
                return true;
            }
            if !self.sleep() {
                return false;
            }
        }
    }

    /// Looks at all queues a few times within a few microseconds, since some
    /// thread may be about to push, and parking costs more. It does not yield
    /// its processor in between: on a busy machine it might not get it back for
    /// long, and while it searches no other worker is woken.
    fn search(&self) -> bool {
        (0..SEARCH_ROUNDS).any(|round| {
            (0..round * SPINS_PER_ROUND).for_each(|_| spin_loop());
            self.victims().any(|victim| self.steal(victim))
        })
    }

    /// All workers, starting with this one.
    fn victims(&self) -> impl Iterator<Item = &Worker> {
        let (before, from_here) = self.shared.workers.split_at(self.current.worker.number);
        from_here.iter().chain(before)
    }

    fn steal(&self, victim: &Worker) -> bool {
        if victim.waiting_len() == 0 || self.is_soon_run_by(victim) {
            return false;
        }
        self.has_searched_queue.set(true);
        self.while_moving(|| self.move_from(victim))
    }

    /// Whether all that waits at another worker is one thing, which that worker takes
    /// itself within a fraction of a microsecond: then to steal it costs more than it
    /// saves. See README.md, "Falling asleep".
    fn is_soon_run_by(&self, victim: &Worker) -> bool {
        let takes_it = || {
            (0..SPINS_PER_ROUND).for_each(|_| spin_loop());
            victim.waiting_len() == 0
        };
        victim.number != self.current.worker.number
            && victim.waiting_len() == 1
            && (0..LOOKS_AT_ONE).any(|_| takes_it())
    }

    fn move_from(&self, victim: &Worker) -> bool {
        let mut batch = victim.inject_queue.take();
        let is_own = victim.number == self.current.worker.number;
        if batch.is_empty() && !is_own {
            batch = victim.as_remote(|local| local.give_half());
        }
        let found = is_own || !batch.is_empty();
        match is_own {
            true => self.take_over(batch),
            false => self.carry_home(batch),
        }
        found
    }

    /// Whether somebody could not count what waits because this worker searched a
    /// queue: then it looks at the marks once more before it sleeps.
    fn must_look_again(&self) -> bool {
        self.has_searched_queue.take() && self.shared.is_count_awaited()
    }

    /// Sleeps until woken; `false` to end the loop.
    fn sleep(&self) -> bool {
        let (shared, worker) = (self.shared, self.current.worker);
        let asleep = shared.workers.sleepers.fall_asleep(worker.number);
        if shared.workers.any_work() || shared.is_sealed() {
            self.wake_up();
            return true;
        }
        let lifecycle = &shared.lifecycle;
        lifecycle.after_falling_asleep(asleep, &shared.workers);
        worker.settle_to_sleep(true);
        let has_left = self.sleep_until_woken();
        worker.settle_to_sleep(false);
        !has_left
    }

    /// Whether this worker ends instead, for lack of work.
    fn sleep_until_woken(&self) -> bool {
        let (shared, worker) = (self.shared, self.current.worker);
        loop {
            let (timeout, since) = (shared.workers.idle_timeout(), MachineInstant::now());
            if worker.park(timeout) {
                return false;
            }
            // Parking ends at once after an `unpark` that came late, or that a task has left.
            let is_idle = timeout.is_some_and(|timeout| since.elapsed() >= timeout / 2);
            let is_spare = is_idle && shared.workers.has_spare();
            if is_spare && shared.workers.sleepers.rouse(worker.number) {
                return self.retire();
            }
        }
    }

    /// Searches again, of its own accord or because another thread woke it
    /// first.
    fn wake_up(&self) {
        let worker = self.current.worker;
        if !self.shared.workers.sleepers.rouse(worker.number) {
            while !worker.park(None) {}
        }
    }

    /// Ends for lack of work, unless there is some after all.
    fn retire(&self) -> bool {
        let (worker_slots, worker) = (&self.shared.workers.slots, self.current.worker);
        if !worker_slots.may_leave(worker.number, self.shared.workers.counts.minimum) {
            return false;
        }
        let leaves = worker.inject_queue.close_if_empty();
        if !leaves {
            worker_slots.stay(worker.number);
        }
        leaves
    }
}

/// One more than the turns of a chunk, so that one that is alone has ended by then.
const TURNS_BETWEEN_CHUNKS: u64 = 5;
/// So few that to copy them costs no more than another look at the inject queue.
const FEW_TASKS: usize = 32;
const SEARCH_ROUNDS: usize = 6;
const SPINS_PER_ROUND: usize = 4;
/// How often a worker looks at one thing that waits elsewhere before it steals it.
const LOOKS_AT_ONE: usize = 6;
