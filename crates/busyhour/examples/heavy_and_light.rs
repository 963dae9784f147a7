//! A serializer that is always full of one-millisecond tasks, beside a thousand
//! light ones, on two workers: prints how long the light ones wait.
//!
//! `cargo run --release --package busyhour --example heavy_and_light`

use std::{
    error::Error,
    hint::black_box,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use busyhour::{pool::TaskPool, serializer::Serializer};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = TaskPool::builder().workers(2).build()?;
    let stop = Arc::new(AtomicBool::new(false));
    let heavy = pool.serializer("heavy").build()?;
    (0..10).for_each(|_| load(&heavy, &stop));

    let light: Vec<_> = (0..1000).map(|_| pool.ephemeral()).collect();
    let waits = Arc::new(Mutex::new(Vec::new()));
    let begin = Instant::now();
    for device in light.iter().cycle() {
        if begin.elapsed() > SPAN {
            break;
        }
        let (pushed, waits) = (Instant::now(), Arc::clone(&waits));
        device.push(move || waits.lock().unwrap().push(pushed.elapsed()))?;
        thread::sleep(Duration::from_micros(20));
    }
    stop.store(true, Ordering::Relaxed);
    pool.shutdown(Duration::from_secs(10));
    report(&mut waits.lock().unwrap());
    let turns = pool.stats().wait_ns;
    println!(
        "turns as the pool saw them: p99 ≤ {} ns",
        turns.quantile_ns(0.99)
    );
    Ok(())
}

/// A task of a millisecond that pushes the next one.
fn load(heavy: &Serializer, stop: &Arc<AtomicBool>) {
    let (next, stop) = (heavy.clone(), Arc::clone(stop));
    let _refused_at_the_end = heavy.push(move || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(1) {
            black_box(0);
        }
        if !stop.load(Ordering::Relaxed) {
            load(&next, &stop);
        }
    });
}

fn report(waits: &mut [Duration]) {
    waits.sort_unstable();
    let at = |share: usize| waits.get(waits.len() * share / 1000).copied();
    println!(
        "{} light tasks; p50 {:?}, p99 {:?}, p99.9 {:?}, worst {:?}",
        waits.len(),
        at(500).unwrap_or_default(),
        at(990).unwrap_or_default(),
        at(999).unwrap_or_default(),
        waits.last().copied().unwrap_or_default(),
    );
}

const SPAN: Duration = Duration::from_secs(5);
