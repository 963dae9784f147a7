//! Which shards of a table have something due, and when that is worked on.
//!
//! A million contacts may end at one instant. Nobody waits for what the server does then: a contact that has ended is none, whoever
//! asks. But all who register meanwhile need the processor that it works on, and each of the threads that a registration goes
//! through may wait for it. So the work has its turns: after [`TURN`] it rests for as long as it has worked, at most for
//! [`REST_MAX`], and so has some half of one processor. A few that are due together are done in one turn, without a rest.
//!
//! This is pure: it is given the time, and says what to do next.

use busyhour::clock::Instant;
use std::{collections::VecDeque, time::Duration};

/// The shards that wait, each at most once.
#[derive(Debug, Default)]
pub(in crate::server) struct DueShards {
    waiting: VecDeque<usize>,
    /// For each shard, whether it waits.
    waits: Vec<bool>,
    /// Somebody is going to ask for the [`next`](Self::next).
    is_under_way: bool,
    /// When this turn began.
    turn_began: Option<Instant>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum DueStep {
    /// Some of the work of this shard, and ask again.
    Work(usize),
    /// Ask again after this time.
    Rest(Duration),
    /// Nothing until something is [added](DueShards::add).
    Nothing,
}

impl DueShards {
    /// Something is due in a shard. Whether the caller has to see to it that somebody asks for the next step.
    #[must_use]
    pub(in crate::server) fn add(&mut self, shard: usize) -> bool {
        self.put_back(shard);
        !std::mem::replace(&mut self.is_under_way, true)
    }

    /// More is due in a shard that is worked on.
    pub(in crate::server) fn put_back(&mut self, shard: usize) {
        if self.waits.len() <= shard {
            self.waits.resize(shard + 1, false);
        }
        if !std::mem::replace(&mut self.waits[shard], true) {
            self.waiting.push_back(shard);
        }
    }

    /// What to do at this time.
    pub(in crate::server) fn next(&mut self, now: Instant) -> DueStep {
        let worked = now - *self.turn_began.get_or_insert(now);
        if worked >= TURN && !self.waiting.is_empty() {
            self.turn_began = None;
            return DueStep::Rest(worked.min(REST_MAX));
        }
        match self.waiting.pop_front() {
            Some(shard) => {
                self.waits[shard] = false;
                DueStep::Work(shard)
            }
            None => {
                (self.is_under_way, self.turn_began) = (false, None);
                DueStep::Nothing
            }
        }
    }
}

/// Much less than what an operating system lets a thread run before others that are ready, which is 3 to 4 ms.
const TURN: Duration = Duration::from_micros(500);
/// After a turn in which the whole machine stood still.
const REST_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn few_are_done_without_a_rest_and_the_first_has_to_begin() {
        let mut due = DueShards::default();
        assert!(due.add(7));
        assert!(!due.add(3) && !due.add(7), "somebody works already");
        assert_eq!(due.next(at_us(0)), DueStep::Work(7));
        assert_eq!(due.next(at_us(300)), DueStep::Work(3));
        assert_eq!(due.next(at_us(5_000)), DueStep::Nothing);
        assert!(due.add(3));
        assert_eq!(due.next(at_us(5_000)), DueStep::Work(3), "a new turn");
    }

    #[test]
    fn many_have_half_of_the_time_and_take_turns() {
        let mut due = DueShards::default();
        let (mut now_us, mut worked_us, mut order) = (0, 0, Vec::new());
        assert!(due.add(0));
        (1..4).for_each(|shard| assert!(!due.add(shard)));
        while now_us < 100_000 {
            match due.next(at_us(now_us)) {
                DueStep::Work(shard) => {
                    due.put_back(shard);
                    order.push(shard);
                    (now_us, worked_us) = (now_us + 300, worked_us + 300);
                }
                DueStep::Rest(rest) => now_us += rest.as_micros() as u64,
                DueStep::Nothing => panic!("there is more"),
            }
        }
        assert!((48_000..=52_000).contains(&worked_us), "{worked_us}");
        assert!(order.iter().copied().eq((0..4).cycle().take(order.len())));
    }

    #[test]
    fn a_machine_that_stood_still_does_not_rest_for_as_long() {
        let mut due = DueShards::default();
        let _begins = due.add(1);
        assert!(!due.add(2));
        assert_eq!(due.next(at_us(0)), DueStep::Work(1));
        assert_eq!(due.next(at_us(9_000_000)), DueStep::Rest(REST_MAX));
        assert_eq!(due.next(at_us(9_020_000)), DueStep::Work(2));
    }
}
