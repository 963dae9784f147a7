//! The run queue: which entity runs next, and why a heavy one does not starve
//! light ones.
//!
//! `cargo run --example run_queue`

use busyhour::run_queue::{
    Class, Priority, QueueEnd, RealTimePriority, RunQueue, SchedState, WorkerId,
};
use std::time::Duration;

struct Entity {
    name: &'static str,
    run_time: Duration,
    sched_state: SchedState,
    turns: u32,
}

fn entity(name: &'static str, class: Class, run_time_us: u64) -> Entity {
    Entity {
        name,
        run_time: Duration::from_micros(run_time_us),
        sched_state: SchedState::new(class),
        turns: 0,
    }
}

fn main() {
    let mut entities = [
        entity("heavy", Class::Normal(Priority::DEFAULT), 1000),
        entity("light", Class::Normal(Priority::DEFAULT), 50),
        entity("favoured", Class::Normal(Priority::MAX), 50),
        entity("alarm", Class::RealTime(RealTimePriority::new(1)), 10),
    ];
    let mut queue = RunQueue::new(WorkerId::new(0));
    for (index, entity) in entities.iter_mut().enumerate() {
        queue.wake(index, &mut entity.sched_state, QueueEnd::Back);
    }
    for _ in 0..10_000 {
        let Some(index) = queue.pick() else { break };
        let entity = &mut entities[index];
        entity.turns += 1;
        if entity.name == "alarm" {
            queue.charge(&mut entity.sched_state, entity.run_time);
        } else {
            queue.put_back(index, &mut entity.sched_state, entity.run_time);
        }
    }
    println!("after {} epochs:", queue.epoch());
    for Entity {
        name,
        run_time,
        turns,
        ..
    } in entities
    {
        println!(
            "{name:>9}: {turns:>5} turns, {:>7.1?} in all",
            run_time * turns
        );
    }
}
