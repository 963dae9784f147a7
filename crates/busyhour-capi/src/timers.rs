//! Timers: callbacks with a deadline, driven by a thread of their own or by the program's event loop.

mod add;
mod cancel;
mod drive;
mod ids;
mod label;
mod list;

use crate::{
    edge::{
        Failure, Out, Process, Threaded, give, guard, live, options, quietly, read_options, release,
    },
    result::bh_result,
};
use busyhour::{
    clock::{Clock, UnixTime},
    timer::{AddError, Driver, TimerHandle, Timers},
};
pub(crate) use ids::TimerIds;
pub use list::bh_timers_stats;
use std::sync::{Arc, Mutex};

/// A timer service.
pub struct bh_timers {
    pub(crate) timers: Timers,
    /// The thread that runs what is due, if this handle started it.
    driver: Mutex<Option<Driver>>,
    /// Of all handles on the service.
    ids: Arc<TimerIds>,
    /// Whether the service ends with this handle.
    owns: bool,
    process: Process,
}

/// Identifies a timer. It may be copied and kept; `{{0, 0}}` is no timer. It never identifies a later one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_timer {
    /// Of no meaning to the program.
    pub bits: [u64; 2],
}

/// Options of a new timer service; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_timers_options {
    /// `sizeof(bh_timers_options)`
    pub size: usize,
    /// How many timers may wait; default 134 million.
    pub capacity: u64,
    /// The number of shards, each with a lock; default: twice the processors. With one shard, timers with equal deadlines
    /// run in the order in which they were added by whatever thread.
    pub shards: u32,
    /// Not 0: time is virtual. It begins at 0 and passes with `bh_timers_advance` only.
    pub virtual_time: u32,
}

options!(bh_timers_options, 24 {
    size,
    capacity,
    shards,
    virtual_time
});

impl Threaded for bh_timers {
    fn process(&self) -> Process {
        self.process
    }
}

/// Makes a timer service. `options` may be NULL. Nothing runs until `bh_timers_spawn_driver`, or unless the program calls
/// `bh_timers_run_due`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_new(
    options: *const bh_timers_options,
    out: *mut *mut bh_timers,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let options = read_options(options, "options")?;
        let mut builder = Timers::builder();
        if options.virtual_time != 0 {
            builder = builder.clock(Clock::simulated(UnixTime::default()));
        }
        if options.capacity > 0 {
            builder = builder.capacity(usize::try_from(options.capacity).unwrap_or(usize::MAX));
        }
        if options.shards > 0 {
            builder = builder.shards(options.shards as usize);
        }
        give(out, bh_timers::new(builder.build(), Arc::default(), true));
        Ok(())
    })
}

/// Gives the handle up. The handle that `bh_timers_new` returned closes the service: waiting timers are dropped, and the
/// driver's thread ends after the callback that it may be inside of. A handle of `bh_runtime_timers` closes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_free(timers: *mut bh_timers) {
    quietly((), || {
        if live(timers, "timers").is_ok() {
            drop(release(timers));
        }
    });
}

/// Drops all timers that have not begun, and refuses new ones. Periodic timers that are running stop after the current run.
/// `out_count`, how many were dropped, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_close(timers: *mut bh_timers, out_count: *mut usize) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        Out::optional(out_count).write(timers.close());
        Ok(())
    })
}

impl bh_timers {
    pub(crate) fn new(timers: Timers, ids: Arc<TimerIds>, owns: bool) -> Self {
        Self {
            timers,
            driver: Mutex::new(None),
            ids,
            owns,
            process: Process::current(),
        }
    }
}

impl Drop for bh_timers {
    fn drop(&mut self) {
        if self.owns {
            self.timers.close();
        }
    }
}

impl bh_timer {
    fn new(handle: TimerHandle) -> Self {
        let bits = handle.to_bits();
        Self { bits }
    }

    fn handle(self) -> TimerHandle {
        TimerHandle::from_bits(self.bits)
    }
}

impl From<AddError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: AddError) -> Self {
        let code = match error {
            AddError::Closed => bh_result::BH_SHUT_DOWN,
            _ => bh_result::BH_FULL,
        };
        Self::new(code, error.to_string())
    }
}
