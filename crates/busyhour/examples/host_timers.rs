//! Timers that the host drives, without a thread of their own: a loop of tokio waits for the next
//! deadline, or for an earlier one, and runs what is due. Beside them an interval as a stream.
//!
//!     cargo run --release --example host_timers

use busyhour::{
    pool::TaskPool,
    timer::{MissedTicks, Timers},
};
use futures_core::Stream;
use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Drives the timers until it is dropped. `earlier` is notified when a timer is added that is due
/// before all others, so that the loop does not sleep past it.
async fn drive(timers: Timers) {
    let earlier = Arc::new(Notify::new());
    let notified = Arc::clone(&earlier);
    timers.on_earlier_deadline(move || notified.notify_one());
    loop {
        timers.run_due(timers.clock().now());
        match timers.next_wait() {
            Some(Duration::ZERO) => tokio::task::yield_now().await,
            Some(wait) => {
                // Either of the two ends the wait; both may be early, and then nothing is due.
                let _either = tokio::time::timeout(wait, earlier.notified()).await;
            }
            None => earlier.notified().await,
        }
    }
}

async fn work(timers: &Timers, pool: &TaskPool) {
    let fired = Arc::new(AtomicU32::new(0));
    for millis in [3, 1, 2] {
        let fired = Arc::clone(&fired);
        timers.after(Duration::from_millis(millis), pool, move || {
            fired.fetch_add(1, Ordering::Relaxed);
        });
    }
    let ticks = timers.interval(Duration::from_millis(1));
    let mut ticks = pin!(ticks.missed(MissedTicks::Burst));
    while fired.load(Ordering::Relaxed) < 3 {
        let tick = poll_fn(|context| Pin::as_mut(&mut ticks).poll_next(context)).await;
        println!("a tick that was due at {tick:?}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (timers, pool) = (
        Timers::builder().build(),
        TaskPool::builder().workers(1).build()?,
    );
    let mut tokio = tokio::runtime::Builder::new_current_thread();
    tokio.enable_time().build()?.block_on(async {
        let driving = tokio::spawn(drive(timers.clone()));
        work(&timers, &pool).await;
        driving.abort();
    });
    println!("{} timers fired", timers.stats().expired);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main().unwrap();
    }
}
