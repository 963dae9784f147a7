use super::bh_timers;
use crate::{
    edge::{Callback, Data, Failure, Out, bh_drop_fn, bh_run_fn, guard, live, nanos},
    result::bh_result,
};
use busyhour::{clock::Instant, timer::DriverError};
use std::{
    ffi::c_void,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

/// Starts the thread that delivers due timers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_spawn_driver(timers: *mut bh_timers) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?;
        let driver = timers.timers.spawn_driver()?;
        *timers.driver() = Some(driver);
        Ok(())
    })
}

/// Ends the driver's thread and waits for it, at most `limit_ns`; timers stay. `BH_BUSY` if it is still inside of a callback, after
/// which it ends; `BH_NOT_FOUND` if this handle has started none. On the driver's own thread it does not wait. Another driver
/// cannot start: the program goes on with `bh_timers_run_due`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_stop_driver(timers: *mut bh_timers, limit_ns: u64) -> bh_result {
    guard(|| {
        let driver = live(timers, "timers")?.driver().take();
        let driver = driver.ok_or_else(|| Failure::not_found("this handle has no driver"))?;
        match driver.stop_within(Duration::from_nanos(limit_ns)) {
            true => Ok(()),
            false => Err(Failure::new(
                bh_result::BH_BUSY,
                "the driver is inside of a callback, and ends after it",
            )),
        }
    })
}

/// Passes what is due to its executors, in the order of the deadlines: the step of an event loop. It returns after about a
/// millisecond, with the rest still due. `out_count`, how many timers it passed on, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_run_due(timers: *mut bh_timers, out_count: *mut usize) -> bh_result {
    guard(|| {
        // The callbacks may free the handle.
        let timers = live(timers, "timers")?.timers.clone();
        Out::optional(out_count).write(timers.run_due(timers.clock().now()));
        Ok(())
    })
}

/// How many nanoseconds an event loop may sleep: 0 if a timer is due, `UINT64_MAX` if there is none, which is forever. The hook
/// of `bh_timers_on_earlier` says if the sleep must end before. A sleep in milliseconds is rounded up; README.md has the loop.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_next_wait(timers: *mut bh_timers, out_ns: *mut u64) -> bh_result {
    guard(|| {
        let out = Out::required(out_ns, "out_ns")?;
        // The hook may free the handle.
        let timers = live(timers, "timers")?.timers.clone();
        let wait = timers.next_wait();
        out.write(wait.map_or(u64::MAX, nanos));
        Ok(())
    })
}

/// When the earliest timer is due, by the clock of the service; `UINT64_MAX` if there is none. An event loop may sleep until
/// then, as it may by `bh_timers_next_wait`: the hook of `bh_timers_on_earlier` says if the sleep must end before.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_next_deadline(timers: *const bh_timers, out_ns: *mut u64) -> bh_result {
    guard(|| {
        let out = Out::required(out_ns, "out_ns")?;
        // The hook may free the handle.
        let timers = live(timers, "timers")?.timers.clone();
        // Announces the sleep. If an earlier timer is added before the next line, the hook has been called.
        let _announced = timers.next_wait();
        let deadline = timers.next_deadline();
        out.write(deadline.map_or(u64::MAX, Instant::as_nanos));
        Ok(())
    })
}

/// Calls `hook(data)` when a deadline was added that is earlier than what the last `bh_timers_next_wait` or
/// `bh_timers_next_deadline` said, once for each of these calls, on the thread that adds it. It must be quick and sticky, as a write to an eventfd is. `BH_EXISTS` if the service has a hook or a driver.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_on_earlier(
    timers: *mut bh_timers,
    hook: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let hook = Callback::new(hook, data).ok_or_else(|| Failure::null("hook"))?;
        let installed = live(timers, "timers")?
            .timers
            .on_earlier_deadline(move || hook.call());
        installed
            .then_some(())
            .ok_or_else(|| DriverError::Driven.into())
    })
}

/// The time by the clock of the service, in nanoseconds since its origin.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_now(timers: *const bh_timers, out_ns: *mut u64) -> bh_result {
    guard(|| {
        let out = Out::required(out_ns, "out_ns")?;
        out.write(live(timers, "timers")?.timers.clock().now().as_nanos());
        Ok(())
    })
}

/// Lets virtual time pass. What falls due runs with the next `bh_timers_run_due`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_advance(timers: *mut bh_timers, ns: u64) -> bh_result {
    guard(|| {
        let clock = live(timers, "timers")?.timers.clock();
        let time = clock.as_virtual();
        let time = time.ok_or_else(|| Failure::invalid("timers: their clock is the machine's"))?;
        time.advance(Duration::from_nanos(ns));
        Ok(())
    })
}

impl bh_timers {
    fn driver(&self) -> MutexGuard<'_, Option<busyhour::timer::Driver>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<DriverError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: DriverError) -> Self {
        let code = match &error {
            DriverError::Driven => bh_result::BH_EXISTS,
            DriverError::VirtualClock => bh_result::BH_INVALID,
            _ => bh_result::BH_SYSTEM,
        };
        Self::new(code, error.to_string())
    }
}
