//! A timer queue: deadlines in exact order, moved and cancelled by handle.
//!
//!     cargo run -p busyhour --example timer

use busyhour::{clock::Instant, timer::Queue};
use std::time::Duration;

fn main() {
    let mut queue = Queue::new();
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    queue.add(at(60), "binding of 101 expires");
    let refreshed = queue.add(at(30), "binding of 102 expires");
    let gone = queue.add(at(45), "binding of 103 expires");

    queue.reschedule(refreshed, at(90));
    queue.cancel(gone);

    while let Some(now) = queue.next_deadline() {
        for (deadline, what) in queue.drain_due(now) {
            println!("{:?} {what}", deadline - Instant::ZERO);
        }
    }
}
