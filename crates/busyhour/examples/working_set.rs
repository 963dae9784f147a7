//! What a bonus for the same working set could give at most: entities that share 256 KiB
//! run one after the other, or in turn with all others. There is no scheduler in it: the
//! order is given, on two threads. Prints the time of a turn, the quickest of many rounds,
//! and the ratio of both.
//!
//!     cargo run --release --package busyhour --example working_set

use std::{hint::black_box, iter, thread, time::Instant};

fn main() {
    for touches in [1_000, 4_000] {
        for sets in [4, 64, 256] {
            let mut ratios = Vec::new();
            let mut times = [0.0; 2];
            for _ in 0..RUNS {
                times = [false, true].map(|is_grouped| on_two_threads(is_grouped, sets, touches));
                ratios.push(times[0] / times[1]);
            }
            ratios.sort_by(f64::total_cmp);
            println!(
                "{sets} sets, {touches} touches a turn: in turn {:.1} µs, set by set {:.1} µs; \
                 {:.2} times as long ({:.2}–{:.2})",
                times[0] / 1e3,
                times[1] / 1e3,
                ratios[RUNS / 2],
                ratios[0],
                ratios[RUNS - 1]
            );
        }
    }
}

/// Nanoseconds of a turn.
fn on_two_threads(is_grouped: bool, sets: usize, touches: usize) -> f64 {
    let threads = [(); 2].map(|()| thread::spawn(move || run(is_grouped, sets, touches)));
    let times = threads.map(|thread| thread.join().expect("it does not panic"));
    (times[0] + times[1]) / 2.0
}

fn run(is_grouped: bool, sets: usize, touches: usize) -> f64 {
    let mut memory: Vec<Vec<u64>> = (0..sets).map(|_| vec![1; SET_BYTES / 8]).collect();
    let order: Vec<usize> = match is_grouped {
        true => (0..sets)
            .flat_map(|set| iter::repeat_n(set, ENTITIES_A_SET))
            .collect(),
        false => (0..ENTITIES_A_SET).flat_map(|_| 0..sets).collect(),
    };
    let (mut random, mut quickest) = (7, f64::MAX);
    for _ in 0..TOUCHES / (touches * order.len()) + 2 {
        let begin = Instant::now();
        for set in &order {
            turn(&mut memory[*set], &mut random, touches);
        }
        quickest = quickest.min(begin.elapsed().as_nanos() as f64);
    }
    black_box(&memory);
    quickest / order.len() as f64
}

/// Writes to random cache lines.
fn turn(set: &mut [u64], random: &mut u64, touches: usize) {
    for _ in 0..touches {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let line = (*random >> 33) as usize % (set.len() / 8);
        set[line * 8] = set[line * 8].wrapping_add(*random);
    }
}

const SET_BYTES: usize = 256 << 10;
const ENTITIES_A_SET: usize = 4;
const RUNS: usize = 9;
/// Of one run.
const TOUCHES: usize = 8_000_000;
