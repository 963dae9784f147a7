//! Seed 3, before: the run queue is a linked list; each pick scans all of it
//! for the greatest goodness, and a new epoch scans it once more.

use kit::{
    Args,
    run_queue::{time_picks, time_switches, time_turns},
};

/// The priority of an ordinary task, in ticks.
const PRIORITY: u32 = 20;

struct RunList {
    tasks: Vec<Task>,
    head: usize,
}

struct Task {
    counter: u32,
    next: Option<usize>,
}

impl RunList {
    fn new(rq: usize) -> Self {
        // The order of the links differs from the order in memory, as in a list that has
        // grown over time.
        let stride = (1..)
            .map(|step| rq * 5 / 8 + step)
            .find(|step| gcd(*step, rq) == 1)
            .unwrap_or(1);
        let mut tasks: Vec<Task> = (0..rq)
            .map(|_| Task {
                counter: PRIORITY,
                next: None,
            })
            .collect();
        for place in 0..rq - 1 {
            tasks[place * stride % rq].next = Some((place + 1) * stride % rq);
        }
        Self { tasks, head: 0 }
    }

    fn pick(&mut self) -> usize {
        loop {
            let (best, goodness) = self.scan();
            if goodness > 0 {
                self.tasks[best].counter -= 1;
                return best;
            }
            for task in &mut self.tasks {
                task.counter = task.counter / 2 + PRIORITY;
            }
        }
    }

    fn scan(&self) -> (usize, u32) {
        let (mut best, mut best_goodness) = (self.head, 0);
        let mut next = Some(self.head);
        while let Some(index) = next {
            let task = &self.tasks[index];
            let goodness = if task.counter == 0 {
                0
            } else {
                task.counter + PRIORITY
            };
            if goodness > best_goodness {
                (best, best_goodness) = (index, goodness);
            }
            next = task.next;
        }
        (best, best_goodness)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub fn run_busy(args: &Args) {
    let mut list = RunList::new(args.number("rq") as usize);
    time_turns(args, || list.pick()).report();
}

pub fn run(args: &Args) {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let mut list = RunList::new(rq as usize);
    let pick_ns = time_picks(args, || list.pick());
    time_switches(rq, ms, || list.pick()).report(pick_ns);
}
