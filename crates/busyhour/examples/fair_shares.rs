//! Equal entities that yield in a loop on one worker: prints how equal their
//! shares are, and how long an entity waited for its turn at most.
//!
//! It is the program that Linux schedulers of the time were compared with (N
//! threads around `sched_yield`), with its count of active threads mended: they
//! begin together, and the clock starts when the last of them is there.
//!
//! `cargo run --release --package busyhour --example fair_shares`

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use busyhour::{
    pool::{JoinError, TaskPool, yield_now},
    run_queue::Class,
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("entities      turns  mean/entity  deviation  zero work   worst wait   a round");
    for entities in [2, 3, 4, 30, 100, 200, 1_000, 10_000] {
        report(&run(entities)?);
    }
    Ok(())
}

/// What one entity saw.
struct Share {
    turns: u64,
    longest_wait: Duration,
}

fn run(entities: usize) -> Result<Vec<Share>, Box<dyn Error>> {
    let pool = TaskPool::builder().workers(1).build()?;
    let stop = Arc::new(AtomicBool::new(false));
    // The worker is kept busy until all are queued.
    let (open, gate) = mpsc::channel::<()>();
    pool.push(move || gate.recv().unwrap_or(()))?;
    let yielders: Vec<_> = (0..entities)
        .map(|_| pool.spawn_as(Class::default(), yield_until(Arc::clone(&stop))))
        .collect();
    drop(open);
    thread::sleep(SPAN);
    stop.store(true, Ordering::Relaxed);
    let shares: Result<Vec<Share>, JoinError> =
        yielders.into_iter().map(|yielder| yielder.wait()).collect();
    Ok(shares?)
}

/// Counts its turns, and the longest time between two.
async fn yield_until(stop: Arc<AtomicBool>) -> Share {
    let mut share = Share {
        turns: 0,
        longest_wait: Duration::ZERO,
    };
    let mut last_turn = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        share.turns += 1;
        yield_now().await;
        let now = Instant::now();
        share.longest_wait = share.longest_wait.max(now - last_turn);
        last_turn = now;
    }
    share
}

fn report(shares: &[Share]) {
    let total: u64 = shares.iter().map(|share| share.turns).sum();
    let mean = total as f64 / shares.len() as f64;
    let squares = shares
        .iter()
        .map(|share| (share.turns as f64 - mean).powi(2));
    let deviation = (squares.sum::<f64>() / shares.len() as f64).sqrt();
    let zero_work = shares.iter().filter(|share| share.turns == 0).count();
    let worst = shares.iter().map(|share| share.longest_wait).max();
    println!(
        "{:8} {total:10} {mean:12.0} {:8.2} % {zero_work:10} {:9.3} ms {:6.3} ms",
        shares.len(),
        deviation * 100.0 / mean.max(1.0),
        worst.unwrap_or_default().as_secs_f64() * 1e3,
        SPAN.as_secs_f64() * 1e3 / mean.max(1.0),
    );
}

const SPAN: Duration = Duration::from_secs(1);
