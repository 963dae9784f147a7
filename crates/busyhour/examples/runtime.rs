//! One runtime wires all components; a simulated one runs the same code in
//! virtual time, and the same seed always runs the same way.

use std::{error::Error, time::Duration};

use busyhour::runtime::Runtime;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let sum = runtime.pool().push_wait(|| (1..=10).sum::<i32>())?;
    println!("a real runtime adds up to {sum}");
    assert!(runtime.shutdown(Duration::from_secs(5)).is_clean());

    for seed in [1, 1, 2] {
        println!("seed {seed}: trace {:016x}", simulate(seed)?);
    }
    Ok(())
}

/// A minute in which three devices call at random moments.
fn simulate(seed: u64) -> Result<u64, Box<dyn Error>> {
    let runtime = Runtime::simulated(seed);
    let simulation = runtime.simulation().ok_or("a simulated runtime")?;
    for device in 0..3 {
        let serializer = runtime.serializer(&format!("device {device}")).build()?;
        let delay = Duration::from_millis(simulation.random_u64() % 60_000);
        let world = runtime.clone();
        let call = move || {
            if let Some(simulation) = world.simulation() {
                simulation.trace_u64(device);
                simulation.trace_u64(world.clock().now().as_nanos());
            }
        };
        runtime.timers().after(delay, &serializer, call);
    }
    simulation.run_for(Duration::from_secs(60));
    Ok(simulation.trace_hash())
}
