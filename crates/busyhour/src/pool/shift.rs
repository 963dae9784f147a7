//! Running whoever is next, by a thread that has a place.

use super::{
    context,
    entity::Token,
    local::Runnable,
    meter::{Meter, next_allowance_log2},
    shared::Shared,
    turn::Turn,
    worker::Seat,
};
use crate::clock::Instant;

/// Turns in a row, at one place.
pub(super) struct Shift<'a> {
    shared: &'a Shared,
    seat: Seat<'a>,
    meter: Meter<'a>,
    lane_allowance_log2: u8,
    turns: u32,
    /// Who ran last and has more to do.
    last: Option<Runnable>,
    /// What it is charged.
    ran_ns: u64,
}

impl<'a> Shift<'a> {
    pub(super) fn begin(shared: &'a Shared, seat: Seat<'a>) -> Self {
        Self {
            shared,
            seat,
            meter: Meter::new(&shared.clock, &seat.worker.published),
            lane_allowance_log2: 0,
            turns: seat.worker.published.turns(),
            last: None,
            ran_ns: 0,
        }
    }

    /// The last look at the clock.
    #[inline(always)]
    pub(super) fn now(&self) -> Instant {
        self.meter.now()
    }

    /// Whether the clock was read just before the turn that begins.
    #[inline(always)]
    pub(super) fn is_fresh(&self) -> bool {
        self.meter.is_fresh()
    }

    /// Turns begun at this place.
    #[inline(always)]
    pub(super) fn turns(&self) -> u32 {
        self.turns
    }

    /// Forgets time that nobody ran in.
    pub(super) fn restart(&mut self) {
        self.meter.restart();
    }

    /// Counts on, before [`run_next`](Self::run_next).
    #[inline(always)]
    pub(super) fn begin_turn(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        self.seat.worker.published.set_turns(self.turns);
    }

    /// Runs whoever is next; `false` when nobody is.
    #[inline]
    pub(super) fn run_next(&mut self) -> bool {
        context::forget_give_way();
        let (last, ran_ns) = (self.last.take(), self.ran_ns);
        let next = self.seat.local(|local| local.switch(last, ran_ns));
        match next {
            Some(Runnable::Lane) => self.run_lane(),
            Some(Runnable::Entity(token)) => self.run_entity(token),
            None => return false,
        }
        true
    }

    fn run_lane(&mut self) {
        let allowance = 1 << self.lane_allowance_log2;
        let ran = self.shared.run_lane(self.seat, allowance, &self.meter);
        let is_exhausted = ran == allowance;
        self.ran_ns = self.meter.end_turn(is_exhausted);
        if is_exhausted {
            self.lane_allowance_log2 = next_allowance_log2(self.lane_allowance_log2, self.ran_ns);
        }
        self.last = Some(Runnable::Lane);
    }

    fn run_entity(&mut self, token: Token) {
        let allowance_log2 = token.with_share(|share| share.allowance_log2);
        let mut turn = Turn::on_worker(self.seat, &mut self.meter, allowance_log2);
        let Some(token) = token.run(&mut turn) else {
            return;
        };
        let is_exhausted = turn.is_exhausted();
        self.ran_ns = self.meter.end_turn(is_exhausted);
        if is_exhausted {
            let next = next_allowance_log2(allowance_log2, self.ran_ns);
            token.with_share(|share| share.allowance_log2 = next);
        }
        self.last = Some(Runnable::Entity(token));
    }

    /// Leaves nothing in this worker's hands. If the pool is sealed, the
    /// shutdown finds it in the queue or has been there already.
    pub(super) fn end(&mut self) {
        if let Some(Runnable::Entity(token)) = self.last.take()
            && let Err(token) = self.seat.local(|local| local.put_back(token, self.ran_ns))
        {
            self.shared.abandon(&token);
        }
    }
}
