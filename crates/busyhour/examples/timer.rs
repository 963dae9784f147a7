//! Timers: a pure queue in exact order, and the service that runs callbacks.
//!
//!     cargo run -p busyhour --example timer

use busyhour::{
    clock::Instant,
    pool::TaskPool,
    timer::{Cancel, TimerQueue, Timers},
};
use std::{error::Error, sync::mpsc, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    queue();
    service()
}

/// The queue has no clock: its owner passes the time.
fn queue() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let mut queue = TimerQueue::new();
    queue.add(at(60), "binding of 101 expires");
    let refreshed = queue.add(at(30), "binding of 102 expires");
    let gone = queue.add(at(45), "binding of 103 expires");
    queue.reschedule(refreshed, at(90));
    queue.cancel(gone);
    while let Some(now) = queue.next_deadline() {
        for (deadline, what) in queue.drain_due(now) {
            println!("{:?}: {what}", deadline - Instant::ZERO);
        }
    }
}

/// The service delivers into a serializer, so the callbacks need no lock.
fn service() -> Result<(), Box<dyn Error>> {
    let pool = TaskPool::builder().workers(2).build()?;
    let device = pool.serializer("device 101").build()?;
    let timers = Timers::builder().build();
    let _driver = timers.spawn_driver()?;

    let (sender, ticks) = mpsc::channel();
    let keepalive = timers.every(Duration::from_millis(20), &device, move || {
        // The receiver is gone once the ticks are counted.
        let _ = sender.send(());
    });
    let timeout = timers.after(Duration::from_secs(30), &device, || println!("timed out"));

    println!("{} keepalives", ticks.iter().take(3).count());
    let stopped = timers.cancel_and_wait(&keepalive);
    println!("keepalive stopped: {}", stopped != Cancel::Running);
    println!(
        "timeout prevented: {}",
        timers.cancel(&timeout) == Cancel::Prevented
    );
    println!("{} timers pending", timers.stats().pending_count);
    Ok(())
}
