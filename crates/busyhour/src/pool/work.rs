//! A worker's day: switch, run, search, sleep.

use std::{hint::spin_loop, sync::atomic::Ordering};

use super::{
    inbound::CHUNK_LEN,
    local::Loot,
    patrol::Patrol,
    phase::Phase,
    shared::Shared,
    shift::Shift,
    worker::{Seat, Worker},
};

impl Shared {
    /// Until the pool is sealed, or this worker is one too many.
    pub(super) fn work(&self) {
        let Some(seat) = Seat::of(self) else { return };
        let mut day = Day {
            shared: self,
            seat,
            patrol: Patrol::new(self.workers.len(), self.clock.now()),
            shift: Shift::begin(self, seat),
        };
        seat.worker.is_at_work.store(true, Ordering::SeqCst);
        while !self.is_sealed() && (day.turn() || day.find_work()) {}
        day.shift.end();
        seat.worker.is_at_work.store(false, Ordering::SeqCst);
    }

    /// Whether any queue shows work. Exact only after a heavy fence.
    pub(super) fn any_work(&self) -> bool {
        self.workers.iter().any(|worker| worker.waiting_len() > 0)
    }
}

/// One worker at work.
struct Day<'a> {
    shared: &'a Shared,
    seat: Seat<'a>,
    shift: Shift<'a>,
    patrol: Patrol,
}

impl Day<'_> {
    /// Runs whoever is next; `false` when nobody is.
    #[inline]
    fn turn(&mut self) -> bool {
        self.shift.begin_turn();
        if self.shift.is_fresh() && self.patrol.is_due(self.shift.now(), self.shift.turns()) {
            self.go_on_patrol();
        }
        if self.seat.worker.inbound.len() > 0 {
            self.take_from_inbound();
        }
        self.shift.run_next()
    }

    /// A chunk is as long as four turns of the lane: a long lane takes one every
    /// fourth turn, so that neither it nor the inbound queue grows for the other.
    /// Entities compete with the lane and do not wait for that.
    fn take_from_inbound(&self) {
        let inbound = &self.seat.worker.inbound;
        if self.shift.turns().is_multiple_of(4) || self.seat.worker.lane_len() < CHUNK_LEN {
            self.take_over(inbound.take());
        } else if inbound.token_len() > 0 {
            self.take_over(inbound.take_tokens());
        }
    }

    fn take_over(&self, loot: Loot) {
        let refused = self.seat.local(|local| local.take_over(loot));
        if !refused.is_empty() {
            self.shared.drop_loot(refused);
        }
    }

    /// Takes work away from workers that are stuck in a long task: nobody else
    /// would, as long as everybody is busy.
    #[cold]
    fn go_on_patrol(&mut self) {
        self.patrol.begin(self.shift.now(), self.shift.turns());
        let own_number = self.seat.worker.number;
        for worker in &self.shared.workers {
            if worker.number != own_number && self.patrol.finds_stuck(worker) {
                self.relieve(worker);
            }
        }
    }

    fn relieve(&self, stuck: &Worker) {
        let mut loot = stuck.inbound.take();
        if loot.is_empty() {
            let given = stuck.try_as_stranger(|local| local.give_half());
            loot = given.unwrap_or_default();
        }
        self.carry_home(loot);
    }

    fn carry_home(&self, loot: Loot) {
        let tallier = self.seat.tallier();
        tallier.add(|tally| &tally.stolen, loot.len() as u64);
        self.take_over(loot);
    }

    /// Searches, then sleeps, then searches again; `false` to end the day.
    #[cold]
    fn find_work(&mut self) -> bool {
        self.shared.sleepers.begin_search();
        let found = self.search_or_sleep();
        if self.shared.sleepers.end_search() && self.shared.any_work() {
            self.shared.wake_one(None);
        }
        self.shift.restart();
        found
    }

    fn search_or_sleep(&self) -> bool {
        loop {
            if self.shared.phase.get() == Phase::Sealed {
                return false;
            }
            if self.search() {
                return true;
            }
            if !self.sleep() {
                return false;
            }
        }
    }

    /// Looks at everybody's queues a few times in a few microseconds: somebody
    /// may be about to push, and parking costs more. It does not yield its
    /// processor between: on a busy machine it might not get it back for long,
    /// and as long as it searches nobody else is woken.
    fn search(&self) -> bool {
        (0..SEARCH_ROUNDS).any(|round| {
            (0..round * SPINS_PER_ROUND).for_each(|_| spin_loop());
            self.victims().any(|victim| self.steal(victim))
        })
    }

    /// All workers, beginning with oneself.
    fn victims(&self) -> impl Iterator<Item = &Worker> {
        let (before, from_here) = self.shared.workers.split_at(self.seat.worker.number);
        from_here.iter().chain(before)
    }

    fn steal(&self, victim: &Worker) -> bool {
        if victim.waiting_len() == 0 {
            return false;
        }
        let mut loot = victim.inbound.take();
        let is_own = victim.number == self.seat.worker.number;
        if loot.is_empty() && !is_own {
            loot = victim.as_stranger(|local| local.give_half());
        }
        let found = is_own || !loot.is_empty();
        match is_own {
            true => self.take_over(loot),
            false => self.carry_home(loot),
        }
        found
    }

    /// Sleeps until woken; `false` to end the day.
    fn sleep(&self) -> bool {
        let (shared, worker) = (self.shared, self.seat.worker);
        let asleep = shared.sleepers.fall_asleep(worker.number);
        if shared.any_work() || shared.phase.get() == Phase::Sealed {
            self.wake_up();
            return true;
        }
        shared.after_falling_asleep(asleep);
        worker.settle_to_sleep(true);
        let has_left = self.sleep_until_woken();
        worker.settle_to_sleep(false);
        !has_left
    }

    /// Whether it leaves for want of work instead.
    fn sleep_until_woken(&self) -> bool {
        let (shared, worker) = (self.shared, self.seat.worker);
        while !worker.park(shared.idle_timeout()) {
            if shared.has_spare_worker() && shared.sleepers.rouse(worker.number) {
                return self.retire();
            }
        }
        false
    }

    /// Is searching again, of its own accord or because somebody was faster.
    fn wake_up(&self) {
        let worker = self.seat.worker;
        if !self.shared.sleepers.rouse(worker.number) {
            while !worker.park(None) {}
        }
    }

    /// Leaves for want of work, unless there is some after all.
    fn retire(&self) -> bool {
        let (crew, worker) = (&self.shared.crew, self.seat.worker);
        if !crew.may_leave(worker.number, self.shared.counts.minimum) {
            return false;
        }
        let leaves = worker.inbound.close_if_empty();
        if !leaves {
            crew.stay(worker.number);
        }
        leaves
    }
}

const SEARCH_ROUNDS: usize = 6;
const SPINS_PER_ROUND: usize = 4;
