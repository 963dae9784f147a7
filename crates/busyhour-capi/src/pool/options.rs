use crate::{
    edge::{
        Callback, Data, Failure, Outcome, bh_drop_fn, bh_run_fn, numbers, optional_text, options,
    },
    result::bh_result,
};
use busyhour::{
    pool::{PoolBuildError, Selector, TaskPool, TaskPoolBuilder},
    task::Watermark,
};
use std::{
    ffi::{c_char, c_void},
    time::Duration,
};

/// Options of a new pool; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_pool_options {
    /// `sizeof(bh_pool_options)`
    pub size: usize,
    /// Its name, and that of its threads; default "busyhour".
    pub name: *const c_char,
    /// Workers at the start; default: the processors that this process may use; `UINT32_MAX`: none, if `minimum` is none too.
    pub workers: u32,
    /// The fewest workers; default: as many as at the start. `UINT32_MAX`: none, so that the last one ends as well when it has
    /// been idle, and a push to a pool without workers starts some. If the system refuses their threads, the push fails with
    /// `BH_SHUT_DOWN`, and a serializer that was to run drops its tasks and counts them.
    pub minimum: u32,
    /// The most workers; default: as many as at the start. It is set if those are none.
    pub maximum: u32,
    /// Workers that are added each time the pool grows; default 1.
    pub auto_increment: u32,
    /// A push lets the pool grow if more tasks than this wait; default 200.
    pub growth_threshold: u64,
    /// How long a worker above the minimum may be idle; default 20 s, `UINT64_MAX`: for ever.
    pub idle_timeout_ns: u64,
    /// How many plain tasks may wait; default 2^20. A push counts those of all workers only if the one that it goes to has its
    /// share of them, so that while workers take tasks from each other more may wait, but never twice as many and 256 for each
    /// worker that is about to take some.
    pub capacity: u64,
    /// How a push from outside chooses a worker: a `bh_selector`.
    pub selector: u32,
    /// The number of `processors`.
    pub processor_count: u32,
    /// Processors for the workers, in turns; NULL: the system decides.
    pub processors: *const u32,
    /// So many waiting tasks are too many; 0: no watermarks.
    pub high_watermark: u64,
    /// So many are few enough again.
    pub low_watermark: u64,
    /// Is told of both.
    pub on_alert: bh_pool_alert_fn,
    /// The data of `on_alert`.
    pub on_alert_data: *mut c_void,
    /// Frees the data of `on_alert`.
    pub on_alert_drop: bh_drop_fn,
    /// Called on the thread of each worker before its first task.
    pub on_thread_start: bh_run_fn,
    /// The data of `on_thread_start`.
    pub on_thread_start_data: *mut c_void,
    /// Frees the data of `on_thread_start`.
    pub on_thread_start_drop: bh_drop_fn,
    /// Called on the thread of each worker after its last task.
    pub on_thread_stop: bh_run_fn,
    /// The data of `on_thread_stop`.
    pub on_thread_stop_data: *mut c_void,
    /// Frees the data of `on_thread_stop`.
    pub on_thread_stop_drop: bh_drop_fn,
    /// A worker with more runnable entities than this has a list for each goodness instead of one sorted list; at
    /// most 64, default 16. With it `sorted_again` counts, too.
    pub sorted_max: u32,
    /// With so many it has one sorted list again; less than `sorted_max`, default 8.
    pub sorted_again: u32,
}

options!(bh_pool_options, 168 {
    size,
    name,
    workers,
    minimum,
    maximum,
    auto_increment,
    growth_threshold,
    idle_timeout_ns,
    capacity,
    selector,
    processor_count,
    processors,
    high_watermark,
    low_watermark,
    on_alert,
    on_alert_data,
    on_alert_drop,
    on_thread_start,
    on_thread_start_data,
    on_thread_start_drop,
    on_thread_stop,
    on_thread_stop_data,
    on_thread_stop_drop,
    sorted_max,
    sorted_again,
});

/// How a push from outside of a pool chooses a worker.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_selector {
    /// Always the same worker for the same pushing thread.
    BH_SELECTOR_DEFAULT = 0,
    /// The worker with the fewest waiting tasks.
    BH_SELECTOR_LEAST_FULL = 1,
    /// One worker after the other.
    BH_SELECTOR_SEQUENTIAL = 2,
}

/// Is told that so many tasks wait in the pool: too many if `is_high` is not 0, otherwise few enough again. It runs on the
/// pushing thread or on a worker, and must be short.
pub type bh_pool_alert_fn =
    Option<unsafe extern "C-unwind" fn(is_high: i32, queued_len: usize, data: *mut c_void)>;

pub(crate) fn builder(given: &bh_pool_options) -> Outcome<TaskPoolBuilder> {
    // First, so that their data is freed whatever happens.
    let start = hook(
        given.on_thread_start,
        given.on_thread_start_data,
        given.on_thread_start_drop,
    );
    let stop = hook(
        given.on_thread_stop,
        given.on_thread_stop_data,
        given.on_thread_stop_drop,
    );
    let alert = Data::new(given.on_alert_data, given.on_alert_drop);
    let alert = Callback::new(given.on_alert, alert);
    let mut builder = sizes(TaskPool::builder(), given).selector(selector(given.selector)?);
    if let Some(name) = optional_text(given.name, "options.name")? {
        builder = builder.name(name);
    }
    let count = given.processor_count as usize;
    let processors = numbers(given.processors, count, "options.processors")?;
    if count > 0 {
        let processors: Vec<usize> = processors.iter().map(|&number| number as usize).collect();
        builder = builder.affinity(&processors);
    }
    if let Some(start) = start {
        builder = builder.on_thread_start(move || start.call());
    }
    if let Some(stop) = stop {
        builder = builder.on_thread_stop(move || stop.call());
    }
    let (low, high) = (number(given.low_watermark), number(given.high_watermark));
    Ok(match (high, alert) {
        (0, _) => builder,
        (_, None) => builder.watermarks(low, high),
        (_, Some(hook)) => builder.on_alert(low, high, move |alert| {
            hook.call_with_two(i32::from(alert.mark == Watermark::High), alert.queued_len);
        }),
    })
}

fn sizes(mut builder: TaskPoolBuilder, given: &bh_pool_options) -> TaskPoolBuilder {
    if given.workers > 0 {
        builder = builder.workers(workers_or_none(given.workers));
    }
    if given.minimum > 0 {
        builder = builder.minimum(workers_or_none(given.minimum));
    }
    if given.maximum > 0 {
        builder = builder.maximum(given.maximum as usize);
    }
    if given.auto_increment > 0 {
        builder = builder.auto_increment(given.auto_increment as usize);
    }
    if given.growth_threshold > 0 {
        builder = builder.growth_threshold(number(given.growth_threshold));
    }
    if given.idle_timeout_ns > 0 {
        builder = builder.idle_timeout(Duration::from_nanos(given.idle_timeout_ns));
    }
    if given.capacity > 0 {
        builder = builder.capacity(number(given.capacity));
    }
    if given.sorted_max > 0 {
        let (most, again) = (given.sorted_max as usize, given.sorted_again as usize);
        builder = builder.run_queue_thresholds(most, again);
    }
    builder
}

/// Zero is the default already.
fn workers_or_none(given: u32) -> usize {
    match given {
        u32::MAX => 0,
        count => count as usize,
    }
}

fn selector(given: u32) -> Outcome<Selector> {
    const DEFAULT: u32 = bh_selector::BH_SELECTOR_DEFAULT as u32;
    const LEAST_FULL: u32 = bh_selector::BH_SELECTOR_LEAST_FULL as u32;
    const SEQUENTIAL: u32 = bh_selector::BH_SELECTOR_SEQUENTIAL as u32;
    match given {
        DEFAULT => Ok(Selector::Default),
        LEAST_FULL => Ok(Selector::LeastFull),
        SEQUENTIAL => Ok(Selector::Sequential),
        other => Err(Failure::invalid(format!(
            "options.selector: {other} is no bh_selector"
        ))),
    }
}

fn hook(
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> Option<Callback<crate::edge::RunCall>> {
    Callback::new(run, Data::new(data, drop))
}

/// A number that memory bounds anyway.
pub(super) fn number(given: u64) -> usize {
    usize::try_from(given).unwrap_or(usize::MAX)
}

impl From<PoolBuildError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: PoolBuildError) -> Self {
        let code = match error {
            PoolBuildError::Thread(_) => bh_result::BH_SYSTEM,
            _ => bh_result::BH_INVALID,
        };
        Self::new(code, error.to_string())
    }
}
