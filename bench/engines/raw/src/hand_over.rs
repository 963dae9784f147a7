//! What a cache line costs on its way from one processor to another: two threads, each
//! kept on a processor of its own, count up by turns.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use core_affinity::CoreId;
use kit::{Args, Output, args::refuse};

/// Alone on its pair of lines.
#[derive(Default)]
#[repr(align(128))]
struct Turn(AtomicU64);

pub fn run(args: &Args) {
    let turns = args.number("turns");
    if turns < 4 || turns % 2 == 1 {
        refuse("turns is an even number from 4 on");
    }
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    let [first, second, ..] = *processors else {
        refuse("a hand-over needs two processors")
    };
    let turn = Turn::default();
    let spent = thread::scope(|scope| {
        scope.spawn(|| count(&turn, second, (1..turns).step_by(2)));
        // The other thread has begun when the first turn comes back.
        count(&turn, first, (0..2).step_by(2));
        turn.wait_for(2);
        let begin = Instant::now();
        count(&turn, first, (2..turns).step_by(2));
        turn.wait_for(turns);
        begin.elapsed()
    });
    let mut output = Output::default();
    output.figure("hand_over_ns", spent.as_nanos() as f64 / (turns - 2) as f64);
    output.check("turns", turn.0.load(Ordering::Relaxed));
    output.finish();
}

impl Turn {
    fn wait_for(&self, number: u64) {
        while self.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
    }
}

/// Takes these turns, each when the one before was taken.
fn count(turn: &Turn, processor: CoreId, numbers: impl Iterator<Item = u64>) {
    if !core_affinity::set_for_current(processor) {
        refuse("the system keeps no thread on a processor");
    }
    for number in numbers {
        turn.wait_for(number);
        turn.0.store(number + 1, Ordering::Release);
    }
}
