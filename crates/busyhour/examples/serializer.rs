//! A serializer keeps the order; its bound and what it loses are declared.

use std::{error::Error, time::Duration};

use busyhour::{pool::TaskPool, task::Overflow};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = TaskPool::builder().workers(2).build()?;
    let calls = pool.serializer("calls").build()?;
    for number in 1..=3 {
        calls.push(move || println!("call {number}, in order"))?;
    }

    let states = pool
        .serializer("states")
        .capacity(100)
        .overflow(Overflow::Conflate)
        .build()?;
    let suspension = states.suspend();
    for level in 0..10 {
        states.push_keyed(1, move || println!("only the last level: {level}"))?;
    }
    suspension.resume();

    // Waits until everything pushed before has run.
    calls.push_wait(|| ())?;
    states.push_wait(|| ())?;
    for stats in pool.serializer_stats() {
        println!(
            "{:8} processed {}, conflated {}, high watermark {}",
            stats.name, stats.processed, stats.conflated, stats.queued_high_water
        );
    }
    assert!(pool.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}
