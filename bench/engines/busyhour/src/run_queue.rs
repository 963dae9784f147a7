//! Picking and putting back.

use std::time::{Duration, Instant};

use busyhour::run_queue::{Class, Place, RunQueue, Standing, WorkerId};
use kit::{
    Args,
    run_queue::{Switches, time_picks},
};

pub fn run(args: &Args) {
    let rq = args.number("rq");
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut standings: Vec<Standing> = (0..rq).map(|_| Standing::new(Class::default())).collect();
    for (index, standing) in standings.iter_mut().enumerate() {
        queue.wake(index as u32, standing, Place::Back);
    }
    let begin = Instant::now();
    let (pick_ns, counts) = time_picks(rq, args.number("ms"), || {
        let entity = queue.pick().expect("all are runnable");
        queue.put_back(entity, &mut standings[entity as usize], TICK);
        entity as usize
    });
    Switches {
        counts,
        spent: begin.elapsed(),
    }
    .report(Some(pick_ns));
}

const TICK: Duration = Duration::from_micros(50);
