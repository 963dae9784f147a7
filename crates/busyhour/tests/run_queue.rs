//! The run queue against the naive scan of Linux 2.2, in every mode and across
//! changes of the mode; and the promise of the policy that no entity starves.
//!
//! `BUSYHOUR_TEST_SCALE=50 cargo test --test run_queue` runs it for longer.

#[path = "model/run_queue.rs"]
mod model;

use busyhour::run_queue::{
    Class, Mode, Priority, QueueEnd, RealTimePriority, RunQueue, SchedState, Thresholds, WorkerId,
};
use model::{Driver, Operation};
use proptest::{collection::vec, prelude::*};
use std::time::Duration;

proptest! {
    #[test]
    fn short_histories_agree_with_the_naive_scan(
        entity_count in 1..40_usize,
        history in vec(any::<u64>(), 0..400),
    ) {
        let mut driver = Driver::new(entity_count);
        for bits in history {
            driver.apply(Operation::decode(bits, entity_count));
            driver.check();
        }
    }
}

#[test]
fn long_histories_agree_with_the_naive_scan_in_every_mode() {
    let always_short = drive(16, 1_000_000);
    assert_eq!(always_short.long, 0);

    let to_and_fro = drive(160, 1_000_000);
    assert!(to_and_fro.turns_of_mode > 1_000, "{to_and_fro:?}");

    let mostly_long = drive(600, 1_000_000);
    assert!(mostly_long.long > 900_000, "{mostly_long:?}");
}

#[test]
fn no_threshold_changes_the_order() {
    for (sorted_max, sorted_again) in [(1, 0), (2, 1), (3, 0), (17, 16), (64, 0), (64, 63)] {
        let thresholds = Thresholds::new(sorted_max, sorted_again).unwrap();
        let mut driver = Driver::with_thresholds(600, thresholds);
        let mut random = Random(sorted_max as u64);
        for step in 0..50_000 * scale() {
            driver.apply(Operation::decode(random.next(), 600));
            if step % 1_000 == 0 {
                driver.check();
            }
        }
        assert!(
            driver.met.picks > 0 && driver.met.turns_of_mode > 0,
            "{:?}",
            driver.met
        );
    }
}

#[test]
fn the_structure_changes_at_the_given_lengths() {
    for (sorted_max, sorted_again) in [(1, 0), (5, 2), (64, 63)] {
        let thresholds = Thresholds::new(sorted_max, sorted_again).unwrap();
        let worker = WorkerId::new(0);
        let mut queue = RunQueue::with_thresholds(worker, TURN, thresholds);
        for len in 1..=sorted_max + 3 {
            queue.wake(len, &mut SchedState::default(), QueueEnd::Back);
            assert_eq!(queue.mode() == Mode::Sorted, len <= sorted_max, "{len}");
        }
        for len in (0..sorted_max + 3).rev() {
            assert!(queue.pick().is_some());
            assert_eq!(queue.mode() == Mode::Sorted, len <= sorted_again, "{len}");
        }
    }
}

/// Applies random operations, and compares the whole state from time to time.
fn drive(entity_count: usize, operations: u64) -> model::Met {
    let mut driver = Driver::new(entity_count);
    let mut random = Random(entity_count as u64);
    for step in 0..operations * scale() {
        driver.apply(Operation::decode(random.next(), entity_count));
        if step % 1_000 == 0 {
            driver.check();
        }
    }
    driver.check();
    let met = &driver.met;
    assert!(met.picks > 0 && met.epochs > 0 && met.forks > 0);
    driver.met
}

#[test]
fn equal_entities_share_the_worker_evenly() {
    for count in [2, 3, 16, 17, 500] {
        let turns = take_turns(&vec![(20, 30_000); count], 200 * count);
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(most - least <= 1, "{least}..{most} turns among {count}");
    }
}

#[test]
fn time_is_shared_in_proportion_to_priority_not_to_turns() {
    let entities = [(10, 90_000), (20, 30_000), (40, 3_000)];
    let turns = take_turns(&entities, 1_000_000);
    let shares = [0, 1, 2].map(|index| {
        let (priority, turn_ns) = entities[index];
        turns[index] as f64 * turn_ns as f64 / f64::from(priority)
    });
    for share in shares {
        assert!((0.95..1.05).contains(&(share / shares[1])), "{shares:?}");
    }
}

#[test]
fn turns_too_short_to_measure_starve_no_entity() {
    let turns = take_turns(&[(1, 0), (40, 0), (40, 0)], 300_000);
    assert!(turns[0] > 1_000, "{turns:?}");
}

#[test]
fn no_entity_waits_longer_than_two_epochs_of_the_others() {
    const TICK_NS: u64 = 100_000;
    let entities: Vec<_> = (1..=40)
        .map(|p| (p, TICK_NS / 4 * u64::from(p % 7)))
        .collect();
    // Twice the ticks of an epoch, which are twice the priority; and in each
    // epoch one turn that began late.
    let bound = |&(priority, turn_ns): &(u8, u64)| 4 * u64::from(priority) * TICK_NS + 2 * turn_ns;
    let bound_ns: u64 = entities.iter().map(bound).sum();

    let mut waited_ns = vec![0; entities.len()];
    take_turns_watched(&entities, 500_000, |picked| {
        for (entity, waited_ns) in waited_ns.iter_mut().enumerate() {
            *waited_ns = if entity == picked {
                0
            } else {
                *waited_ns + entities[picked].1
            };
            assert!(*waited_ns <= bound_ns, "{entity} waited for {waited_ns} ns");
        }
    });
}

/// Linux 2.2 halves the parent's counter for the child: otherwise whoever
/// creates others has as much time as it likes.
#[test]
fn a_used_up_entity_gets_its_turn_beside_any_number_of_children() {
    // 20 ticks are halved four times. Children of a higher priority come first
    // in the next epoch, too.
    for (priority, children) in [(Priority::DEFAULT, 5), (Priority::MAX, 11)] {
        assert_eq!(children_before_its_turn(Class::Normal(priority)), children);
    }
}

/// Each child creates the next one before it is charged.
fn children_before_its_turn(class: Class) -> u32 {
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut parent = SchedState::default();
    let mut used_up = used_up(&mut queue);
    queue.wake(0, &mut used_up, QueueEnd::Back);
    for child in 1..100_000 {
        let mut sched_state = queue.fork(&mut parent, class);
        queue.wake(child, &mut sched_state, QueueEnd::Back);
        queue.charge(&mut parent, TURN);
        if queue.pick() == Some(0) {
            return child;
        }
        parent = sched_state;
    }
    panic!("no turn beside 100,000 children");
}

#[test]
fn a_used_up_entity_gets_its_turn_beside_any_number_of_newcomers() {
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut used_up = used_up(&mut queue);
    queue.wake(0, &mut used_up, QueueEnd::Back);
    for newcomer in 1..100_000 {
        let mut sched_state = SchedState::default();
        queue.wake(newcomer, &mut sched_state, QueueEnd::Back);
        if queue.pick() == Some(0) {
            return assert_eq!(newcomer, RunQueue::<u32>::NEWCOMERS_PER_EPOCH);
        }
        queue.charge(&mut sched_state, TURN);
    }
    panic!("no turn beside 100,000 newcomers");
}

/// A tick of the default length.
const TURN: Duration = Duration::from_micros(100);

/// An entity that has used up its counter.
fn used_up(queue: &mut RunQueue<u32>) -> SchedState {
    let mut sched_state = SchedState::default();
    queue.wake(0, &mut sched_state, QueueEnd::Back);
    assert_eq!(queue.pick(), Some(0));
    queue.charge(&mut sched_state, 20 * TURN);
    assert_eq!(sched_state.counter(), 0);
    sched_state
}

/// Bursts of entities that nobody created, more than an epoch admits.
#[test]
fn newcomers_beyond_those_of_an_epoch_agree_with_the_naive_scan() {
    let entity_count = 3_000;
    let mut driver = Driver::new(entity_count);
    for burst in 0..4 {
        for entity in 0..entity_count {
            driver.apply(Operation::Replace(entity));
            driver.apply(Operation::Wake(entity, burst % 2, QueueEnd::Back));
        }
        driver.check();
        for entity in 0..entity_count {
            driver.apply(Operation::Pick(burst % 2));
            driver.apply(Operation::Sleep((entity * 7) % entity_count, 30_000));
        }
        (0..entity_count).for_each(|entity| driver.apply(Operation::Sleep(entity, 30_000)));
        driver.check();
    }
    assert!(driver.met.epochs > 0);
}

#[test]
fn an_entity_that_wakes_is_picked_before_busy_equal_ones() {
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut sched_states = vec![SchedState::default(); 1_000];
    let sleeper = 0;
    queue.charge(&mut sched_states[sleeper], Duration::ZERO);
    for (entity, sched_state) in sched_states.iter_mut().enumerate().skip(1) {
        queue.wake(entity, sched_state, QueueEnd::Back);
    }
    for _ in 0..100 {
        for _ in 0..50_000 {
            let entity = queue.pick().unwrap();
            queue.put_back(
                entity,
                &mut sched_states[entity],
                Duration::from_micros(250),
            );
        }
        queue.wake(sleeper, &mut sched_states[sleeper], QueueEnd::Back);
        assert_eq!(queue.pick(), Some(sleeper));
        queue.charge(&mut sched_states[sleeper], Duration::from_micros(5));
    }
}

#[test]
fn a_priority_is_the_given_one_or_the_nearest() {
    for value in 0..=u8::MAX {
        assert_eq!(Priority::new(value).get(), value.clamp(1, 40));
        assert_eq!(RealTimePriority::new(value).get(), value.min(99));
    }
    assert_eq!(Class::default(), Class::Normal(Priority::new(20)));
    assert_eq!(Priority::default().get(), 20);
}

#[test]
fn a_scheduling_state_names_the_worker_it_last_ran_on() {
    let [home, away] = [3, 4].map(|worker| RunQueue::new(WorkerId::new(worker)));
    let (mut home, mut away, mut sched_state) = (home, away, SchedState::default());
    assert_eq!(sched_state.ran_on(), None);
    home.wake((), &mut sched_state, QueueEnd::Back);
    assert_eq!(
        sched_state.ran_on(),
        Some(WorkerId::new(3)),
        "its first queue"
    );
    assert!(home.remove(&(), &mut sched_state).is_some());
    away.wake((), &mut sched_state, QueueEnd::Back);
    assert_eq!(
        sched_state.ran_on(),
        Some(WorkerId::new(3)),
        "until it runs"
    );
    assert!(away.pick().is_some());
    away.charge(&mut sched_state, Duration::from_micros(5));
    assert_eq!(sched_state.ran_on(), Some(WorkerId::new(4)));
    assert_eq!([home.worker(), away.worker()], [3, 4].map(WorkerId::new));
}

#[test]
fn a_burst_returns_its_memory_and_keeps_the_order() {
    let mut queue = RunQueue::new(WorkerId::new(0));
    for entity in 0..100_000_u32 {
        queue.wake(entity, &mut SchedState::default(), QueueEnd::Back);
    }
    assert_eq!((queue.mode(), queue.len()), (Mode::Bucketed, 100_000));
    assert!((0..100_000).all(|entity| queue.pick() == Some(entity)));
    assert_eq!((queue.mode(), queue.pick()), (Mode::Sorted, None));
}

/// Lets entities take turns, and counts the turns of each.
fn take_turns(entities: &[(u8, u64)], turn_count: usize) -> Vec<u64> {
    let mut turns = vec![0; entities.len()];
    take_turns_watched(entities, turn_count, |entity| turns[entity] += 1);
    turns
}

/// Lets entities of a priority and a run time in nanoseconds take turns.
fn take_turns_watched(entities: &[(u8, u64)], turn_count: usize, mut watch: impl FnMut(usize)) {
    let mut queue = RunQueue::new(WorkerId::new(0));
    let class = |priority| Class::Normal(Priority::new(priority));
    let mut sched_states: Vec<_> = entities
        .iter()
        .map(|&(priority, _)| SchedState::new(class(priority)))
        .collect();
    for (entity, sched_state) in sched_states.iter_mut().enumerate() {
        queue.wake(entity, sched_state, QueueEnd::Back);
    }
    for _ in 0..turn_count {
        let entity = queue.pick().unwrap();
        watch(entity);
        let ran = Duration::from_nanos(entities[entity].1);
        queue.put_back(entity, &mut sched_states[entity], ran);
    }
}

fn scale() -> u64 {
    std::env::var("BUSYHOUR_TEST_SCALE").map_or(1, |scale| scale.parse().expect("a number"))
}

/// SplitMix64: the same history for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
