//! The timer queue against a naive list, operation by operation, and with extreme
//! deadlines.

#[path = "../../../fuzz/any_bytes.rs"]
mod any_bytes;
#[path = "model/timer_queue.rs"]
mod model;

use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use model::{Operation, run};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Deadlines that are often equal, that are spread, and the smallest and
/// largest ones.
fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..50u64,
        4 => 0..60_000_000_000u64,
        2 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn operation(adds: u32) -> impl Strategy<Value = Operation> {
    prop_oneof![
        adds => deadline().prop_map(Operation::Add),
        2 => any::<usize>().prop_map(Operation::Cancel),
        2 => (any::<usize>(), deadline()).prop_map(|(n, at)| Operation::Reschedule(n, at)),
        2 => deadline().prop_map(Operation::PopDue),
        1 => deadline().prop_map(Operation::HoldDue),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(64) as u32))]

    #[test]
    fn a_small_queue_agrees_with_a_list(
        operations in prop::collection::vec(operation(5), 1..200)
    ) {
        run(operations);
    }

    #[test]
    fn a_growing_queue_agrees_with_a_list(
        operations in prop::collection::vec(operation(20), 500..1500)
    ) {
        run(operations);
    }
}

#[test]
fn operations_of_any_bytes_agree_with_a_list() {
    any_bytes::hold_for("timer_queue", scaled(200) as usize, model::hold);
}

/// The next number after the last one; the same in each run.
fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 20
}

/// The number of cases: more in a long run, and fewer where each case costs
/// more.
fn scaled(count: u64) -> u64 {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(1)
    };
    (count * number("BUSYHOUR_TEST_SCALE") / number("BUSYHOUR_TEST_DIVISOR")).max(1)
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// The queue beside an ordered map, which is fast enough for large queues.
#[derive(Default)]
struct Large {
    queue: TimerQueue<u64>,
    map: BTreeMap<(u64, u64), QueueHandle>,
    sequence: u64,
}

impl Large {
    fn add(&mut self, deadline: u64) -> (u64, u64) {
        self.sequence += 1;
        let key = (deadline, self.sequence);
        let handle = self.queue.add(at(deadline), self.sequence);
        self.map.insert(key, handle);
        key
    }

    fn cancel(&mut self, key: (u64, u64)) {
        let handle = self.map.remove(&key).unwrap();
        assert_eq!(self.queue.cancel(handle), Some(key.1));
        assert_eq!(self.queue.cancel(handle), None);
    }

    fn pop(&mut self) {
        let popped = self.queue.pop_due(Instant::FAR_FUTURE);
        let expected = self.map.pop_first().map(|(key, _)| key);
        assert_eq!(popped.map(|(at, value)| (at.as_nanos(), value)), expected);
    }

    fn check(&self) {
        let first = self.map.first_key_value().map(|(key, _)| at(key.0));
        assert_eq!(self.queue.next_deadline(), first);
        assert_eq!(self.queue.len(), self.map.len());
    }

    fn drain(mut self) {
        while !self.map.is_empty() {
            self.pop();
            self.check();
        }
        assert_eq!(self.queue.pop_due(Instant::FAR_FUTURE), None);
        assert_eq!(self.queue.iter().count(), 0);
    }
}

#[test]
fn a_large_queue_agrees_with_a_map() {
    let (mut large, mut random, mut now) = (Large::default(), 7, 0);
    for round in 0..scaled(60_000) {
        match next(&mut random) % 8 {
            0..=4 => {
                let spread = [60, 1_000, 60_000_000_000][round as usize % 3];
                large.add(now + next(&mut random) % spread);
            }
            5 => large.pop(),
            _ => {
                let from = (now + next(&mut random) % 60_000_000_000, 0);
                let found = large.map.range(from..).next().map(|(key, _)| *key);
                found.into_iter().for_each(|key| large.cancel(key));
            }
        }
        now = large.map.first_key_value().map_or(now, |(key, _)| key.0);
        large.check();
    }
    large.drain();
}

#[test]
fn decreasing_deadlines_agree_with_a_map() {
    let mut large = Large::default();
    large.add(u64::MAX);
    // A pop in between makes the queue sort its entries.
    for n in (1..scaled(20_000)).rev() {
        large.add(n * 1_000);
        if n % 1_000 == 0 {
            large.pop();
        }
        large.check();
    }
    large.drain();
}

#[test]
fn timeouts_that_are_all_cancelled_agree_with_a_map() {
    let mut large = Large::default();
    let mut waiting = std::collections::VecDeque::new();
    for now in 0..scaled(30_000) {
        waiting.push_back(large.add(now + 60_000));
        if waiting.len() > 500 {
            waiting
                .pop_front()
                .into_iter()
                .for_each(|key| large.cancel(key));
        }
        large.check();
    }
    large.drain();
}

/// While nobody asks for the first timer, the queue may leave it unknown.
#[test]
fn timers_that_are_cancelled_before_anybody_asks_for_the_first_agree_with_a_map() {
    let mut random = 3;
    for round in 0..scaled(600) {
        let mut large = Large::default();
        let count = [3, 40, 300, 3_000][round as usize % 4];
        let spread = [2, 1_000, 60_000_000_000][round as usize % 3];
        for _ in 0..count {
            large.add(100 + next(&mut random) % spread);
        }
        for _ in 0..count / 3 {
            match next(&mut random) % 16 {
                0 => _ = large.add(next(&mut random) % 200),
                1 => large.pop(),
                _ => large
                    .map
                    .keys()
                    .next()
                    .copied()
                    .into_iter()
                    .for_each(|key| large.cancel(key)),
            }
            if next(&mut random) % 50 == round % 50 {
                large.check();
            }
        }
        large.check();
        large.drain();
    }
}

#[test]
fn a_timer_before_all_others_is_first_after_the_last_sorted_one_was_cancelled() {
    let mut large = Large::default();
    let [_, sorted] = [10, 20].map(|deadline| large.add(deadline));
    large.pop();
    let _handles = [30, 25].map(|deadline| large.add(deadline));
    large.cancel(sorted);
    large.add(5);
    large.check();
    large.drain();
}

/// Timers that wait in ranges of slots: whole chunks of slots are emptied and
/// filled again while older and newer timers with the same deadlines wait.
#[test]
fn timers_in_slots_that_empty_and_fill_again_agree_with_a_map() {
    for step in [1, 7, 1024, 3000] {
        let (mut large, mut random) = (Large::default(), step);
        let mut keys: Vec<(u64, u64)> = Vec::new();
        for round in 0..scaled(40) {
            let spread = [1, 5, 1_000_000][round as usize % 3];
            // Of more than some thousands the slots are listed.
            let count = next(&mut random) % (3_000 + step * 3);
            let deadlines = (0..count).map(|_| 100 + next(&mut random) % spread);
            let deadlines: Vec<u64> = deadlines.collect();
            keys.extend(deadlines.into_iter().map(|deadline| large.add(deadline)));
            // Neighbours, a part of them, or all, so that chunks become empty,
            // sparse, or stay full.
            let from = next(&mut random) as usize % keys.len().max(1);
            let until = keys.len().min(from + next(&mut random) as usize % 5_000);
            let stays = next(&mut random) % step.min(50) + 1;
            let cancelled = keys.drain(from..until).collect::<Vec<_>>();
            for (key, place) in cancelled.into_iter().zip(1..) {
                match place % stays {
                    0 if stays > 1 => keys.push(key),
                    _ => large.cancel(key),
                }
                if place % 64 == 0 {
                    large.check();
                }
            }
            keys.sort_unstable_by_key(|key| key.1);
            if round % 5 == 4 {
                (0..keys.len() / 3).for_each(|_| large.pop());
                keys.retain(|key| large.map.contains_key(key));
            }
            large.check();
        }
        large.drain();
    }
}

/// The same while the old timers of these slots are in a list, which was made
/// when the first of many timers was due.
#[test]
fn later_timers_in_the_slots_of_earlier_ones_wait_for_their_own_time() {
    for cancelled in [1_024..2_048, 1_024..3_500, 0..5_990] {
        let mut large = Large::default();
        let keys: Vec<(u64, u64)> = (0..6_000).map(|n| large.add(n * 7 % 1_000)).collect();
        large.pop();
        for key in &keys[cancelled] {
            if large.map.contains_key(key) {
                large.cancel(*key);
            }
        }
        // As late as the latest of the list, later, and in its middle.
        for n in 0..4_000 {
            large.add([999, 5_000, 1_000, 500][n % 4] + n as u64 % 3);
            large.check();
        }
        (0..1_000).for_each(|_| large.pop());
        (0..2_000).for_each(|n| {
            large.add(998 + n % 4);
        });
        large.drain();
    }
}

/// Few timers are sorted at once when the first is due, unless some were added before others
/// that were sorted already.
#[test]
fn timers_that_are_sorted_at_once_agree_with_a_map() {
    let mut random = 11;
    let (mut large, mut now) = (Large::default(), 0);
    for round in 0..scaled(112) {
        let count = [39, 40, 128, 129, 700, 1_024, 1_025][round as usize % 7];
        let spread = [60_000_000_000, 500, 1, 1 << 50][round as usize / 7 % 4];
        let mut keys: Vec<(u64, u64)> = Vec::new();
        for n in 0..count {
            let late = if n % 100 == 99 { spread * 1_000 } else { 0 };
            keys.push(large.add(now + late + next(&mut random) % spread));
        }
        for _ in 0..next(&mut random) % 3 * count / 4 {
            match next(&mut random) % 8 {
                0 if round % 3 == 0 => _ = large.add(now + next(&mut random) % spread / 2),
                1 => {
                    let key = keys.swap_remove(next(&mut random) as usize % keys.len());
                    if large.map.contains_key(&key) {
                        large.cancel(key);
                    }
                }
                _ => large.pop(),
            }
            large.check();
        }
        if round % 2 == 0 {
            while !large.map.is_empty() {
                large.pop();
                large.check();
            }
        }
        now = large.map.last_key_value().map_or(0, |(key, _)| key.0);
    }
    large.drain();
}

#[test]
fn timers_at_one_instant_run_in_the_order_they_were_added() {
    // Ten million at BUSYHOUR_TEST_SCALE=100.
    let count = scaled(100_000);
    let mut queue = TimerQueue::new();
    (0..count).for_each(|n| {
        queue.add(at(5), n);
    });
    for n in 0..count {
        assert_eq!(queue.pop_due(at(5)), Some((at(5), n)));
        // A timer that a callback adds at the same instant runs after the
        // others.
        if n % 4 == 0 && n < count / 2 {
            queue.add(at(5), count + n / 4);
        }
    }
    for n in count..count + count.div_ceil(2).div_ceil(4) {
        assert_eq!(queue.pop_due(at(5)), Some((at(5), n)));
    }
    assert!(queue.is_empty());
}

#[test]
fn the_smallest_and_largest_instants_are_valid_deadlines() {
    let mut queue = TimerQueue::new();
    let never = queue.add(Instant::FAR_FUTURE, "never");
    assert_eq!(queue.next_deadline(), Some(Instant::FAR_FUTURE));
    let overflown = at(u64::MAX - 5) + std::time::Duration::from_secs(1);
    queue.add(overflown, "as late");
    let origin = queue.add(Instant::ZERO, "at once");
    assert_eq!(queue.next_deadline(), Some(Instant::ZERO));
    assert_eq!(queue.cancel(origin), Some("at once"));
    assert_eq!(queue.pop_due(at(u64::MAX - 1)), None);
    assert_eq!(queue.cancel(never), Some("never"));
    let last = queue.pop_due(Instant::FAR_FUTURE);
    assert_eq!(last, Some((Instant::FAR_FUTURE, "as late")));
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn an_old_handle_names_nothing_however_often_its_slot_is_reused() {
    let mut queue = TimerQueue::new();
    let mut old = Vec::new();
    for n in 0..10_000u64 {
        let handle = queue.add(at(n % 7), n);
        assert!(queue.reschedule(handle, at(n % 5)));
        assert!(!old.contains(&handle));
        assert!(old.iter().all(|&handle| queue.get(handle).is_none()));
        match n % 2 {
            0 => assert_eq!(queue.cancel(handle), Some(n)),
            _ => assert_eq!(queue.pop_due(at(9)), Some((at(n % 5), n))),
        }
        assert_eq!(queue.cancel(handle), None);
        assert!(!queue.reschedule(handle, at(1)));
        old.push(handle);
        old.truncate(100);
    }
}

#[test]
fn remaining_values_are_dropped_with_the_queue() {
    let value = std::sync::Arc::new(());
    let mut queue = TimerQueue::new();
    let handles: Vec<QueueHandle> = (0..5_000)
        .map(|n| queue.add(at(n), value.clone()))
        .collect();
    handles
        .iter()
        .step_by(2)
        .for_each(|&handle| drop(queue.cancel(handle)));
    assert_eq!(queue.drain_due(at(999)).count(), 500);
    assert_eq!(std::sync::Arc::strong_count(&value), 2_001);
    drop(queue);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}
