//! The components together: one runtime, real or simulated.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use busyhour::{clock::Instant, runtime::Runtime};

const LONG: Duration = Duration::from_secs(60);

/// Timers push into serializers, whose tasks set timers.
fn world(seed: u64) -> (u64, Vec<u64>) {
    let runtime = Runtime::simulated(seed);
    let simulation = runtime.simulation().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..10_u64 {
        let serializer = runtime
            .serializer(&format!("device {number}"))
            .build()
            .unwrap();
        let delay = Duration::from_millis(simulation.random_u64() % 1000);
        let (world, list) = (runtime.clone(), Arc::clone(&seen));
        let deliver = move || {
            let simulation = world.simulation().unwrap();
            simulation.trace_u64(number);
            list.lock().unwrap().push(number);
        };
        runtime.timers().after(delay, &serializer, deliver);
    }
    simulation.run_for(Duration::from_secs(1));
    let order = seen.lock().unwrap().clone();
    (simulation.trace_hash(), order)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(world(1), world(1));
    assert_ne!(world(1).1, world(2).1);
    assert_eq!(world(3).1.len(), 10);
}

#[test]
fn virtual_time_jumps_from_timer_to_timer() {
    let runtime = Runtime::simulated(7);
    let simulation = runtime.simulation().unwrap();
    let ticks = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ticks);
    let tick = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let hour = Duration::from_secs(3600);
    let _timer = runtime.timers().every(hour, runtime.pool(), tick);
    simulation.run_until(Instant::ZERO + 24 * hour);
    assert_eq!(ticks.load(Ordering::Relaxed), 24);
    assert_eq!(runtime.clock().now(), Instant::ZERO + 24 * hour);
}

#[test]
fn a_synchronous_push_in_a_simulation_lets_time_pass() {
    let runtime = Runtime::simulated(7);
    let serializer = runtime.serializer("held").build().unwrap();
    let suspension = serializer.suspend();
    let minute = Duration::from_secs(60);
    let resume = move || suspension.resume();
    runtime.timers().after(minute, runtime.pool(), resume);
    assert_eq!(serializer.push_wait(|| 5), Ok(5));
    assert_eq!(runtime.clock().now(), Instant::ZERO + minute);
}

#[test]
fn a_real_runtime_delivers_timers_and_ends() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let serializer = runtime.serializer("calls").build().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let tell = move || sender.send(()).unwrap();
    runtime
        .timers()
        .after(Duration::from_millis(1), &serializer, tell);
    receiver.recv().unwrap();
    assert_eq!(runtime.stats().serializers[0].name, "calls");
    assert!(runtime.shutdown(LONG).is_clean());
}
