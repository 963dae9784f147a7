//! Seed 3, after: the scan is shorter. Runnable tasks are in lists by their
//! remaining counter, and only the highest list that is not empty is scanned.
//! With few tasks, this is slower than one list.

use std::collections::VecDeque;

use kit::{
    Args,
    run_queue::{time_picks, time_switches, time_turns},
};

const PRIORITY: usize = 20;
const COUNTER_MAX: usize = 2 * PRIORITY;

struct RunBuckets {
    buckets: Vec<VecDeque<usize>>,
}

impl RunBuckets {
    fn new(rq: usize) -> Self {
        let mut buckets = vec![VecDeque::new(); COUNTER_MAX + 1];
        buckets[PRIORITY].extend(0..rq);
        Self { buckets }
    }

    fn pick(&mut self) -> usize {
        loop {
            for counter in (1..=COUNTER_MAX).rev() {
                if let Some(task) = self.buckets[counter].pop_front() {
                    self.buckets[counter - 1].push_back(task);
                    return task;
                }
            }
            let used_up = std::mem::take(&mut self.buckets[0]);
            self.buckets[PRIORITY] = used_up;
        }
    }
}

pub fn run_busy(args: &Args) {
    let mut buckets = RunBuckets::new(args.number("rq") as usize);
    time_turns(args, || buckets.pick()).report();
}

pub fn run(args: &Args) {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let mut buckets = RunBuckets::new(rq as usize);
    let pick_ns = time_picks(args, || buckets.pick());
    time_switches(rq, ms, || buckets.pick()).report(pick_ns);
}
