use super::{bh_pool, bh_serializer};
use crate::{
    edge::{Callback, Data, Failure, Out, guard, live},
    result::bh_result,
};
use busyhour::stats::{PoolStats, SerializerStats, WorkerStats};
use std::ffi::{CString, c_char, c_void};

/// What a pool holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_pool_stats {
    /// Workers with a thread.
    pub worker_count: u64,
    /// Workers that sleep.
    pub idle_worker_count: u64,
    /// Tasks that wait.
    pub queued_len: u64,
    /// The most that have waited.
    pub queued_high_water: u64,
    /// Tasks that were pushed.
    pub pushed: u64,
    /// Tasks that ran.
    pub processed: u64,
    /// Pushes that were refused.
    pub rejected: u64,
    /// Tasks that were dropped before they ran.
    pub dropped: u64,
    /// Tasks that one worker took from another.
    pub stolen: u64,
    /// How long the first waiting task has waited.
    pub oldest_waiting_ns: u64,
    /// How often the queue has risen above its high watermark.
    pub alerts_raised: u64,
}

/// What a worker holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_worker_stats {
    /// Its number, with which its thread's name ends; a later worker takes over the number and the counters.
    pub number: u64,
    /// Tasks and serializers that wait for it.
    pub queued_len: u64,
    /// The most that have waited.
    pub queued_high_water: u64,
    /// Tasks that it ran.
    pub processed: u64,
    /// Tasks that it took from other workers.
    pub stolen: u64,
    /// How often it chose what to run next.
    pub switches: u64,
    /// Not 0: it sleeps.
    pub is_idle: u32,
    /// Not 0: it runs a task.
    pub is_running: u32,
    /// How long it took to choose, measured in one of 1,024 switches.
    pub choosing_ns: u64,
    /// How long it has been busy, choosing included.
    pub busy_ns: u64,
    /// The number of epochs of its run queue, modulo 2^32.
    pub epoch: u32,
    /// Not 0: its run queue has a list for each goodness.
    pub is_bucketed: u32,
}

/// Is told of one worker; a result of 0 ends the list. The struct is valid until it returns.
pub type bh_worker_each_fn =
    Option<unsafe extern "C-unwind" fn(stats: *const bh_worker_stats, data: *mut c_void) -> i32>;

/// What a serializer holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_serializer_stats {
    /// Its name; valid only inside of `bh_pool_list`, otherwise NULL.
    pub name: *const c_char,
    /// Tasks that wait.
    pub queued_len: u64,
    /// The most that have waited.
    pub queued_high_water: u64,
    /// Tasks that ran.
    pub processed: u64,
    /// Pushes that were refused.
    pub rejected: u64,
    /// Tasks that were dropped before they ran.
    pub dropped: u64,
    /// Tasks that a newer one of the same key replaced.
    pub conflated: u64,
    /// How long the first waiting task has waited.
    pub oldest_waiting_ns: u64,
    /// How long the task that runs has run.
    pub running_for_ns: u64,
    /// The high watermark; 0: none.
    pub high_watermark: u64,
    /// The low watermark.
    pub low_watermark: u64,
    /// Suspensions that are not freed.
    pub suspend_count: u64,
    /// Not 0: too many wait.
    pub is_high: u32,
}

/// Is told of one serializer; a result of 0 ends the list. The struct and its text are valid until it returns.
pub type bh_serializer_each_fn = Option<
    unsafe extern "C-unwind" fn(stats: *const bh_serializer_stats, data: *mut c_void) -> i32,
>;

/// What the pool holds now and what it has done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_get_stats(pool: *const bh_pool, out: *mut bh_pool_stats) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(pool, "pool")?.pool.stats()).into());
        Ok(())
    })
}

/// Tells `each` of every named serializer, in the order of their names, on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_list(
    pool: *const bh_pool,
    each: bh_serializer_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each = Callback::new(each, Data::new(data, None));
        let each = each.ok_or_else(|| Failure::null("each"))?;
        let all = live(pool, "pool")?.pool.serializer_stats();
        for stats in &all {
            let name = CString::new(stats.name.as_str()).unwrap_or_default();
            let seen = bh_serializer_stats {
                name: name.as_ptr(),
                ..stats.into()
            };
            if each.call_with(&raw const seen) == 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Tells `each` of every worker with a thread, in the order of their numbers, on this thread, until it returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_list_workers(
    pool: *const bh_pool,
    each: bh_worker_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each: Callback<WorkerCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        for worker in live(pool, "pool")?.pool.worker_stats() {
            let seen = bh_worker_stats::from(&worker);
            if each.call_with(&raw const seen) == 0 {
                break;
            }
        }
        Ok(())
    })
}

type WorkerCall = unsafe extern "C-unwind" fn(*const bh_worker_stats, *mut c_void) -> i32;

/// What the serializer holds now and what it has done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_get_stats(
    serializer: *const bh_serializer,
    out: *mut bh_serializer_stats,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(serializer, "serializer")?.serializer.stats()).into());
        Ok(())
    })
}

impl From<&WorkerStats> for bh_worker_stats {
    fn from(stats: &WorkerStats) -> Self {
        Self {
            number: stats.number,
            queued_len: stats.queued_len,
            queued_high_water: stats.queued_high_water,
            processed: stats.processed,
            stolen: stats.stolen,
            switches: stats.switches,
            is_idle: u32::from(stats.is_idle),
            is_running: u32::from(stats.is_running),
            choosing_ns: stats.choosing_ns,
            busy_ns: stats.busy_ns,
            epoch: stats.epoch,
            is_bucketed: u32::from(stats.is_bucketed),
        }
    }
}

impl From<&PoolStats> for bh_pool_stats {
    fn from(stats: &PoolStats) -> Self {
        Self {
            worker_count: stats.worker_count,
            idle_worker_count: stats.idle_worker_count,
            queued_len: stats.queued_len,
            queued_high_water: stats.queued_high_water,
            pushed: stats.pushed,
            processed: stats.processed,
            rejected: stats.rejected,
            dropped: stats.dropped,
            stolen: stats.stolen,
            oldest_waiting_ns: stats.oldest_waiting_ns,
            alerts_raised: stats.alerts_raised,
        }
    }
}

impl From<&SerializerStats> for bh_serializer_stats {
    fn from(stats: &SerializerStats) -> Self {
        Self {
            name: std::ptr::null(),
            queued_len: stats.queued_len,
            queued_high_water: stats.queued_high_water,
            processed: stats.processed,
            rejected: stats.rejected,
            dropped: stats.dropped,
            conflated: stats.conflated,
            oldest_waiting_ns: stats.oldest_waiting_ns,
            running_for_ns: stats.running_for_ns,
            high_watermark: stats.high_watermark.unwrap_or(0),
            low_watermark: stats.low_watermark.unwrap_or(0),
            suspend_count: stats.suspend_count,
            is_high: u32::from(stats.is_high),
        }
    }
}
