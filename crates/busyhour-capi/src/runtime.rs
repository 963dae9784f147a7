//! All stations as one, real or simulated, and what they know about themselves.

mod simulation;
mod snapshot;

use crate::{
    buffers::bh_buffers,
    edge::{
        Failure, Out, Process, Threaded, give, guard, known_options, live, options, quietly,
        release, text,
    },
    pool::{
        SerializerOptions, bh_leftover_each_fn, bh_pool, bh_pool_options, bh_serializer,
        bh_serializer_options, bh_shutdown_report, bh_template, pool_builder, tell_leftovers,
    },
    result::bh_result,
    timers::{TimerIds, bh_timers},
};
use busyhour::runtime::{Runtime, RuntimeBuildError};
use std::{
    ffi::{c_char, c_void},
    sync::Arc,
    time::Duration,
};

/// A runtime: workers, timers, buffers and topics.
pub struct bh_runtime {
    pub(crate) runtime: Runtime,
    /// Of all handles on the timers.
    timer_ids: Arc<TimerIds>,
    is_simulated: bool,
    process: Process,
}

/// Options of a new runtime; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_runtime_options {
    /// `sizeof(bh_runtime_options)`
    pub size: usize,
    /// The most bytes that live buffers may hold together; default 1 GiB.
    pub buffer_budget_bytes: u64,
    /// The name of its pool and threads; default "busyhour".
    pub name: *const c_char,
    /// Worker threads; default: the processors that this process may use.
    pub workers: u32,
    /// Keeps a backtrace of where one in so many buffers was found; default: none.
    pub trace_one_in: u32,
    /// The other options of its pool; NULL: the defaults. `name` and `workers` above go before those in it.
    pub pool: *const bh_pool_options,
}

options!(bh_runtime_options, 40 {
    size,
    buffer_budget_bytes,
    name,
    workers,
    trace_one_in,
    pool,
});

impl Threaded for bh_runtime {
    fn process(&self) -> Process {
        self.process
    }
}

/// Starts a runtime with threads and the clock of the machine. `options` may be NULL. The callbacks in the options of the pool
/// belong to the library from this call on, whatever it returns.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_new(
    options: *const bh_runtime_options,
    out: *mut *mut bh_runtime,
) -> bh_result {
    guard(|| {
        let (options, read) = known_options(options, "options");
        let (pool, read_pool) = known_options(options.pool, "options.pool");
        let pool = pool_builder(&pool);
        read.and(read_pool)?;
        let out = Out::required(out, "out")?;
        let mut pool = pool?;
        if options.workers > 0 {
            pool = pool.workers(options.workers as usize);
        }
        if !options.name.is_null() {
            pool = pool.name(text(options.name, "options.name")?);
        }
        let mut builder = Runtime::builder().pool(pool);
        if options.buffer_budget_bytes > 0 {
            builder = builder.buffer_budget(options.buffer_budget_bytes);
        }
        if options.trace_one_in > 0 {
            builder = builder.trace_one_buffer_in(options.trace_one_in);
        }
        give(out, bh_runtime::new(builder.build()?, false));
        Ok(())
    })
}

/// Makes a runtime without threads: its time is virtual, and its order depends only on `seed`. The functions
/// `bh_simulation_…` drive it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_simulated(seed: u64, out: *mut *mut bh_runtime) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(out, bh_runtime::new(Runtime::simulated(seed), true));
        Ok(())
    })
}

/// Gives the handle up. What other handles lead to lives on; `bh_runtime_shutdown` ends it. The handle of a simulation ends it: as
/// nothing can run any more, what has not run is dropped.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_free(runtime: *mut bh_runtime) {
    quietly((), || {
        if live(runtime, "runtime").is_ok()
            && let Some(runtime) = release(runtime)
            && runtime.is_simulated
        {
            // A serializer with tasks keeps the pool, and is kept by it.
            let _nobody_asks = runtime.runtime.shutdown(Duration::ZERO);
        }
    });
}

/// A handle on the workers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_pool(runtime: *const bh_runtime, out: *mut *mut bh_pool) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(
            out,
            bh_pool::new(live(runtime, "runtime")?.runtime.pool().clone()),
        );
        Ok(())
    })
}

/// Makes a serializer in the runtime's pool, as `bh_serializer_new`, whose alerts also go to the topic of `bh_runtime_alerts`. It has
/// a name.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_serializer(
    runtime: *const bh_runtime,
    options: *const bh_serializer_options,
    out: *mut *mut bh_serializer,
) -> bh_result {
    guard(|| {
        let read = SerializerOptions::of(options);
        let out = Out::required(out, "out")?;
        let runtime = &live(runtime, "runtime")?.runtime;
        let made = read?.build_from(|name| runtime.serializer(name))?;
        give(out, bh_serializer::new(made));
        Ok(())
    })
}

/// Makes a template of serializers in the runtime's pool, as `bh_template_new`, whose alerts also go to the topic of
/// `bh_runtime_alerts`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_template(
    runtime: *const bh_runtime,
    options: *const bh_serializer_options,
    out: *mut *mut bh_template,
) -> bh_result {
    guard(|| {
        let read = SerializerOptions::of(options);
        let out = Out::required(out, "out")?;
        let runtime = &live(runtime, "runtime")?.runtime;
        let made = read?.template_from(|name| runtime.serializer(name))?;
        give(out, bh_template::new(made));
        Ok(())
    })
}

/// A handle on the timers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_timers(
    runtime: *const bh_runtime,
    out: *mut *mut bh_timers,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let runtime = live(runtime, "runtime")?;
        let ids = Arc::clone(&runtime.timer_ids);
        give(
            out,
            bh_timers::new(runtime.runtime.timers().clone(), ids, false),
        );
        Ok(())
    })
}

/// A handle on the buffers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_buffers(
    runtime: *const bh_runtime,
    out: *mut *mut bh_buffers,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(
            out,
            bh_buffers::new(live(runtime, "runtime")?.runtime.buffers().clone()),
        );
        Ok(())
    })
}

/// Shuts the runtime down within `limit_ns`: first its timers, then its pool, as `bh_pool_shutdown`. `out`, which may be NULL,
/// says what was left.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_shutdown(
    runtime: *mut bh_runtime,
    limit_ns: u64,
    out: *mut bh_shutdown_report,
) -> bh_result {
    guard(|| {
        let runtime = live(runtime, "runtime")?.runtime.clone();
        let report = runtime.shutdown(Duration::from_nanos(limit_ns));
        Out::optional(out).write((&report).into());
        Ok(())
    })
}

/// `bh_runtime_shutdown`, which then tells `each` by name what was left, as `bh_pool_shutdown_each`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_shutdown_each(
    runtime: *mut bh_runtime,
    limit_ns: u64,
    each: bh_leftover_each_fn,
    data: *mut c_void,
    out: *mut bh_shutdown_report,
) -> bh_result {
    tell_leftovers(each, data, out, || {
        let runtime = live(runtime, "runtime")?.runtime.clone();
        Ok(runtime.shutdown(Duration::from_nanos(limit_ns)))
    })
}

impl bh_runtime {
    fn new(runtime: Runtime, is_simulated: bool) -> Self {
        Self {
            runtime,
            timer_ids: Arc::default(),
            is_simulated,
            process: Process::current(),
        }
    }
}

impl From<RuntimeBuildError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: RuntimeBuildError) -> Self {
        match error {
            RuntimeBuildError::Pool(error) => error.into(),
            RuntimeBuildError::Buffers(error) => error.into(),
            RuntimeBuildError::Timers(error) => error.into(),
            error => Self::new(bh_result::BH_SYSTEM, error.to_string()),
        }
    }
}
