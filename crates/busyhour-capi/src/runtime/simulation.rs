use super::bh_runtime;
use crate::{
    edge::{Failure, Out, Outcome, bytes, guard, live},
    result::bh_result,
};
use busyhour::{
    clock::Instant,
    runtime::{Runtime, Simulation},
};
use std::{ffi::c_void, time::Duration};

/// Runs one task that is runnable now; if there is none, time jumps to the next timer. `out_ran`, 0 if there was no timer
/// either, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_step(runtime: *mut bh_runtime, out_ran: *mut i32) -> bh_result {
    simulate(runtime, |simulation| {
        Out::optional(out_ran).write(i32::from(simulation.step()));
        Ok(())
    })
}

/// Runs everything that can run at this instant; time stands still.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_run_until_idle(runtime: *mut bh_runtime) -> bh_result {
    simulate(runtime, |simulation| {
        simulation.run_until_idle();
        Ok(())
    })
}

/// Runs for so many nanoseconds of virtual time.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_run_for(runtime: *mut bh_runtime, ns: u64) -> bh_result {
    simulate(runtime, |simulation| {
        simulation.run_for(Duration::from_nanos(ns));
        Ok(())
    })
}

/// Runs until the clock shows `end_ns`, with the timers that are due then.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_run_until(runtime: *mut bh_runtime, end_ns: u64) -> bh_result {
    simulate(runtime, |simulation| {
        simulation.run_until(Instant::from_nanos(end_ns));
        Ok(())
    })
}

/// The next number of the seed's sequence, for the choices of the test itself.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_random(runtime: *mut bh_runtime, out: *mut u64) -> bh_result {
    simulate(runtime, |simulation| {
        Out::required(out, "out")?.write(simulation.random_u64());
        Ok(())
    })
}

/// Adds bytes to the trace.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_trace(
    runtime: *mut bh_runtime,
    data: *const c_void,
    len: usize,
) -> bh_result {
    simulate(runtime, |simulation| {
        simulation.trace(bytes(data, len, "data")?);
        Ok(())
    })
}

/// A hash of the trace, the number of tasks that ran and the time that passed: equal for equal runs.
#[unsafe(no_mangle)]
pub extern "C" fn bh_simulation_trace_hash(runtime: *mut bh_runtime, out: *mut u64) -> bh_result {
    simulate(runtime, |simulation| {
        Out::required(out, "out")?.write(simulation.trace_hash());
        Ok(())
    })
}

fn simulate(runtime: *const bh_runtime, body: impl FnOnce(&Simulation) -> Outcome) -> bh_result {
    guard(|| {
        // Tasks that run here may free the handle.
        let runtime: Runtime = live(runtime, "runtime")?.runtime.clone();
        let real = || {
            Failure::invalid(
                "the runtime has threads: bh_runtime_simulated makes one that has none",
            )
        };
        body(runtime.simulation().ok_or_else(real)?)
    })
}
