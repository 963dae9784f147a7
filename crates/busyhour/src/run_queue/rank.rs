use super::{Class, Priority, RealTimePriority, SAME_WORKER_BONUS, SchedState, WorkerId};

/// The rank of an entity in the total order of a queue: goodness, with used-up
/// entities distinguished by the goodness they will have.
///
/// From low to high: used-up entities by the goodness that the next epoch gives
/// them, normal ones by goodness, real-time ones by priority. So an epoch
/// raises every used-up rank by the same amount, which keeps their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u16);

/// The first rank above all used-up ones; what an epoch adds to a used-up rank.
const NORMAL: u16 = 2 * MAX_PRIORITY + BONUS + 1;
/// The first rank above all normal ones.
const REAL_TIME: u16 = NORMAL + 3 * MAX_PRIORITY + BONUS + 1;

const MAX_PRIORITY: u16 = Priority::MAX.get() as u16;
const BONUS: u16 = SAME_WORKER_BONUS as u16;

impl Rank {
    /// The rank that no entity has.
    pub(super) const NOBODY: Self = Self(0);
    /// The number of ranks, including the unused rank 0.
    pub(super) const COUNT: usize = (REAL_TIME + RealTimePriority::MAX.get() as u16 + 1) as usize;

    /// The rank of an entity in the queue of `worker`.
    #[inline(always)]
    pub(super) fn of(sched_state: &SchedState, worker: WorkerId) -> Self {
        match sched_state.class() {
            Class::RealTime(priority) => Self(REAL_TIME + u16::from(priority.get())),
            Class::Normal(_) if sched_state.counter() == 0 => {
                Self(sched_state.renewed_goodness(worker))
            }
            Class::Normal(_) => Self(NORMAL + sched_state.goodness(worker)),
        }
    }

    /// The rank of an entity that was just charged, so it last ran on the worker
    /// whose queue this is.
    #[inline(always)]
    pub(super) fn of_charged(sched_state: &SchedState) -> Self {
        if sched_state.real_time().is_some() || sched_state.counter() == 0 {
            return Self::of_charged_rarely(sched_state);
        }
        let priority = u16::from(sched_state.priority().get());
        Self(NORMAL + BONUS + priority + u16::from(sched_state.counter()))
    }

    /// The same for a real-time entity, and for one that is used up.
    #[cold]
    fn of_charged_rarely(sched_state: &SchedState) -> Self {
        match sched_state.real_time() {
            Some(priority) => Self(REAL_TIME + u16::from(priority.get())),
            None => Self(2 * u16::from(sched_state.priority().get()) + BONUS),
        }
    }

    pub(super) fn from_index(index: usize) -> Self {
        debug_assert!(0 < index && index < Self::COUNT);
        Self(index as u16)
    }

    #[inline(always)]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether the entity must wait for the next epoch.
    #[inline(always)]
    pub(super) fn is_used_up(self) -> bool {
        self.0 < NORMAL
    }

    /// The rank that a used-up entity has in the next epoch.
    pub(super) fn renewed(self) -> Self {
        debug_assert!(self.is_used_up());
        Self(self.0 + NORMAL)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::run_queue::sched_state::Tick;
    use std::{
        collections::{BTreeSet, HashMap},
        time::Duration,
    };

    const HERE: WorkerId = WorkerId::new(0);

    /// Every scheduling state a queue can meet, on its own worker or from another.
    fn sched_states() -> impl Iterator<Item = SchedState> {
        let normal = (1..=40).map(|priority| Class::Normal(Priority::new(priority)));
        let real_time = (0..=99).map(|priority| Class::RealTime(RealTimePriority::new(priority)));
        normal.chain(real_time).flat_map(|class| {
            (0..=2 * Priority::MAX.get()).flat_map(move |counter| {
                [HERE, WorkerId::new(1)].map(|ran_on| SchedState::fixture(class, counter, ran_on))
            })
        })
    }

    #[test]
    fn who_was_just_charged_has_the_rank_that_its_worker_gives_it() {
        for mut sched_state in sched_states() {
            sched_state.charge(HERE, 1, Tick::new(Duration::from_millis(1)));
            let rank = Rank::of(&sched_state, HERE);
            assert_eq!(Rank::of_charged(&sched_state), rank, "{sched_state:?}");
        }
    }

    #[test]
    fn ranks_order_as_goodness_does() {
        let all: BTreeSet<_> = sched_states()
            .map(|sched_state| {
                (
                    sched_state.goodness(HERE),
                    Rank::of(&sched_state, HERE).index(),
                )
            })
            .collect();
        for &(goodness, rank) in &all {
            assert!(rank < Rank::COUNT);
            assert_eq!(Rank::from_index(rank).is_used_up(), goodness == 0);
            for &(other_goodness, other_rank) in all.iter().filter(|(other, _)| *other > 0) {
                let expected = goodness.cmp(&other_goodness);
                assert_eq!(rank.cmp(&other_rank), expected);
            }
        }
    }

    #[test]
    fn a_used_up_rank_contains_priority_and_bonus_so_epochs_never_merge_two() {
        let mut seen = HashMap::new();
        for sched_state in sched_states().filter(|sched_state| sched_state.goodness(HERE) == 0) {
            let who = (sched_state.class(), sched_state.ran_on());
            let rank = Rank::of(&sched_state, HERE);
            assert_eq!(*seen.entry(rank.index()).or_insert(who), who);
        }
        assert_eq!(seen.len(), 80);
    }
}
