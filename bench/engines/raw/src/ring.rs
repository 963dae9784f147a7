//! Turns one after the other, in a ring: nothing is chosen, only fetched and put back.

use std::collections::VecDeque;

use kit::{Args, run_queue::time_turns};

pub fn run(args: &Args) {
    let mut ring: VecDeque<usize> = (0..args.number("rq") as usize).collect();
    let next = || {
        let next = ring.pop_front().unwrap_or_default();
        ring.push_back(next);
        next
    };
    time_turns(args, next).report();
}
