//! Tasks on workers: pools, and serializers that keep an order.

mod group;
mod leftovers;
mod options;
mod report;
mod serializer;
mod serializer_options;
mod spawn;
mod stats;
mod suspension;
mod template;

use crate::{
    edge::{
        Callback, Data, Failure, Out, Process, Threaded, bh_drop_fn, bh_run_fn, give, guard,
        known_options, live, quietly, release, text,
    },
    result::bh_result,
};
use busyhour::{
    pool::{PushError, TaskPool, WaitError},
    task::Executor,
};
use group::bh_group;
pub use leftovers::bh_leftover_each_fn;
pub(crate) use leftovers::tell_leftovers;
pub use options::bh_pool_options;
pub(crate) use options::builder as pool_builder;
pub use report::bh_shutdown_report;
pub use serializer::bh_serializer;
pub(crate) use serializer::class;
pub(crate) use serializer_options::{SerializerOptions, bh_serializer_options, overflow};
pub use stats::bh_pool_stats;
use std::{
    ffi::{c_char, c_void},
    time::Duration,
};
pub(crate) use template::bh_template;

/// A pool of worker threads.
pub struct bh_pool {
    pub(crate) pool: TaskPool,
    process: Process,
}

impl Threaded for bh_pool {
    fn process(&self) -> Process {
        self.process
    }
}

/// Starts a pool. `options` may be NULL. The callbacks in the options belong to the library from this call on, whatever it
/// returns: their data is freed with the pool, or at once if the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_new(
    options: *const bh_pool_options,
    out: *mut *mut bh_pool,
) -> bh_result {
    guard(|| {
        let (options, read) = known_options(options, "options");
        let builder = options::builder(&options);
        read?;
        let out = Out::required(out, "out")?;
        give(out, bh_pool::new(builder?.build()?));
        Ok(())
    })
}

/// Gives the handle up. When the last one is freed (each serializer and executor holds one), queued tasks still run, and
/// then the workers end in the background. `bh_pool_shutdown` waits for the end.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_free(pool: *mut bh_pool) {
    quietly((), || {
        if live(pool, "pool").is_ok() {
            drop(release(pool));
        }
    });
}

/// Runs `run(data)` on a worker. `drop` frees `data` after the run, or at once if the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_push(
    pool: *mut bh_pool,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let pool = &live(pool, "pool")?.pool;
        let pushed = pool.push(move || run.call());
        pushed.map_err(|error| pool_refused(pool, error))
    })
}

/// Runs `run(data)` on a worker and waits for its end. Inside a task of the pool it runs at once, on this thread. After any
/// failure (`BH_STALLED`: nothing in a simulation can run it) `run` has not run and will not, and `drop` has run. So `data`
/// may be on the stack of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_push_wait(
    pool: *mut bh_pool,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let pool = live(pool, "pool")?.pool.clone();
        let waited = pool.push_wait(move || run.call());
        waited.map_err(|error| not_waited(error, |error| pool_refused(&pool, error)))
    })
}

/// Runs `run(data)`, which may block, at once on this thread. If this thread is a worker, another one runs the waiting tasks
/// meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_blocking(
    pool: *mut bh_pool,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let pool = live(pool, "pool")?.pool.clone();
        pool.blocking(|| run.call());
        Ok(())
    })
}

/// Shuts the pool down within `limit_ns`: pushes from outside are refused, what is queued runs, then the workers end, and
/// what is left is dropped. `out`, which may be NULL, says what was left.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_shutdown(
    pool: *mut bh_pool,
    limit_ns: u64,
    out: *mut bh_shutdown_report,
) -> bh_result {
    guard(|| {
        let pool = live(pool, "pool")?.pool.clone();
        let report = pool.shutdown(Duration::from_nanos(limit_ns));
        Out::optional(out).write((&report).into());
        Ok(())
    })
}

/// The living serializer with this name, as a new handle; `BH_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_find_serializer(
    pool: *const bh_pool,
    name: *const c_char,
    out: *mut *mut bh_serializer,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let name = text(name, "name")?;
        let found = live(pool, "pool")?.pool.find_serializer(name);
        let none = || Failure::not_found(format!("no serializer is named {name:?}"));
        give(out, bh_serializer::new(found.ok_or_else(none)?));
        Ok(())
    })
}

/// How many serializers of the pool are above their high watermark; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_alert_count(pool: *const bh_pool) -> usize {
    quietly(0, || {
        live(pool, "pool").map_or(0, |pool| pool.pool.alert_count())
    })
}

/// Lets the high water of every named serializer begin again.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_reset_high_waters(pool: *mut bh_pool) -> bh_result {
    guard(|| {
        live(pool, "pool")?.pool.reset_high_waters();
        Ok(())
    })
}

impl bh_pool {
    pub(crate) fn new(pool: TaskPool) -> Self {
        let process = Process::current();
        Self { pool, process }
    }
}

/// Why a pool did not take a task. If its queue is full, it says which pool.
#[cold]
#[inline(never)]
fn pool_refused(pool: &TaskPool, error: PushError) -> Failure {
    refused(error, || {
        format!("the queue of the pool {:?} is full", Executor::name(pool))
    })
}

/// Why a queue did not take a task; `full` says which queue is full.
fn refused(error: PushError, full: impl FnOnce() -> String) -> Failure {
    match error {
        PushError::ShutDown => Failure::new(bh_result::BH_SHUT_DOWN, error.to_string()),
        _ => Failure::new(bh_result::BH_FULL, full()),
    }
}

/// Why a synchronous push has not run its task; `refused` says it of one that no queue took.
#[cold]
#[inline(never)]
fn not_waited(error: WaitError, refused: impl FnOnce(PushError) -> Failure) -> Failure {
    let code = match error {
        WaitError::Push(error) => return refused(error),
        WaitError::Deadlock(_) => bh_result::BH_DEADLOCK,
        WaitError::Panicked => bh_result::BH_PANICKED,
        WaitError::Stalled => bh_result::BH_STALLED,
        _ => bh_result::BH_DROPPED,
    };
    Failure::new(code, error.to_string())
}
