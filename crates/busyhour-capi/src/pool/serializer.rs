use super::{
    bh_pool, not_waited, refused,
    serializer_options::{SerializerOptions, bh_serializer_options},
};
use crate::{
    edge::{
        Callback, Data, Failure, Out, Process, Threaded, bh_drop_fn, bh_run_fn, copy_text, give,
        guard, live, quietly, release,
    },
    result::bh_result,
};
use busyhour::{
    pool::PushError,
    run_queue::{Class, Priority, RealTimePriority},
    serializer::Serializer,
};
use std::ffi::{c_char, c_void};

/// A queue whose tasks run one at a time, in order, on any worker.
pub struct bh_serializer {
    pub(crate) serializer: Serializer,
    process: Process,
}

impl Threaded for bh_serializer {
    fn process(&self) -> Process {
        self.process
    }
}

/// Makes a serializer in a pool. `options` may be NULL: then it has no name and no list shows it. The callback in the
/// options belongs to the library from this call on, whatever it returns.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_new(
    pool: *mut bh_pool,
    options: *const bh_serializer_options,
    out: *mut *mut bh_serializer,
) -> bh_result {
    guard(|| {
        let made = SerializerOptions::of(options);
        let out = Out::required(out, "out")?;
        let pool = &live(pool, "pool")?.pool;
        give(out, bh_serializer::new(made?.build(pool)?));
        Ok(())
    })
}

/// Gives the handle up. The serializer lives until its last handle is freed and its last task has run.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_free(serializer: *mut bh_serializer) {
    quietly((), || {
        if live(serializer, "serializer").is_ok() {
            drop(release(serializer));
        }
    });
}

/// Another handle on the same serializer.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_clone(
    serializer: *const bh_serializer,
    out: *mut *mut bh_serializer,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let serializer = live(serializer, "serializer")?.serializer.clone();
        give(out, bh_serializer::new(serializer));
        Ok(())
    })
}

/// The serializer whose task runs on this thread, as a new handle; `BH_NOT_FOUND` outside of a task.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_current(out: *mut *mut bh_serializer) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let current = Serializer::current();
        let none = || Failure::not_found("no serializer's task runs on this thread");
        give(out, bh_serializer::new(current.ok_or_else(none)?));
        Ok(())
    })
}

/// Queues `run(data)` behind everything pushed before. `drop` frees `data` after the run, when an overflow policy or a
/// shutdown drops the task, or at once if the call fails. Waits for room if the policy is `BH_OVERFLOW_BLOCK`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_push(
    serializer: *mut bh_serializer,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let serializer = &live(serializer, "serializer")?.serializer;
        let pushed = serializer.push(move || run.call());
        pushed.map_err(|error| serializer_refused(serializer, error))
    })
}

/// Like `bh_serializer_push`, but never waits: `BH_FULL` instead.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_try_push(
    serializer: *mut bh_serializer,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let serializer = &live(serializer, "serializer")?.serializer;
        let pushed = serializer.try_push(move || run.call());
        pushed.map_err(|error| serializer_refused(serializer, error.into()))
    })
}

/// Like `bh_serializer_push`; with `BH_OVERFLOW_CONFLATE` the task replaces a waiting one with the same key.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_push_keyed(
    serializer: *mut bh_serializer,
    key: u64,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let serializer = &live(serializer, "serializer")?.serializer;
        let pushed = serializer.push_keyed(key, move || run.call());
        pushed.map_err(|error| serializer_refused(serializer, error))
    })
}

/// Queues `run(data)` and waits until it has run. `BH_DEADLOCK` if the wait would never end, for example because a task waits
/// for its own serializer; `BH_STALLED` if nothing in a simulation can run it. After any failure `run` has not run and will
/// not, and `drop` has run. So `data` may be on the stack of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_push_wait(
    serializer: *mut bh_serializer,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let serializer = live(serializer, "serializer")?.serializer.clone();
        let waited = serializer.push_wait(move || run.call());
        waited.map_err(|error| not_waited(error, |error| serializer_refused(&serializer, error)))
    })
}

/// Moves the serializer to another priority: 1 to 40, or 100 to 199 for real time (100 is the lowest).
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_set_priority(
    serializer: *mut bh_serializer,
    priority: u32,
) -> bh_result {
    guard(|| {
        let class = class(priority)?;
        live(serializer, "serializer")?.serializer.set_class(class);
        Ok(())
    })
}

/// The number of waiting tasks, without the one that runs; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_len(serializer: *const bh_serializer) -> usize {
    quietly(0, || {
        live(serializer, "serializer").map_or(0, |handle| handle.serializer.len())
    })
}

/// 1 if no task waits and none runs, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_is_idle(serializer: *const bh_serializer) -> i32 {
    quietly(0, || {
        live(serializer, "serializer").map_or(0, |handle| i32::from(handle.serializer.is_idle()))
    })
}

/// 1 if both handles are of the same serializer, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_is_same(
    one: *const bh_serializer,
    other: *const bh_serializer,
) -> i32 {
    quietly(0, || match (live(one, "one"), live(other, "other")) {
        (Ok(one), Ok(other)) => i32::from(one.serializer == other.serializer),
        _ => 0,
    })
}

/// Copies the name to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length of the whole name.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_name(
    serializer: *const bh_serializer,
    text: *mut c_char,
    size: usize,
) -> usize {
    quietly(0, || {
        let name = live(serializer, "serializer").map_or("", |handle| handle.serializer.name());
        copy_text(name, text, size)
    })
}

/// Copies the label of the task that runs to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length
/// of the whole label: 0 if no task runs or it has no label.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_running(
    serializer: *const bh_serializer,
    text: *mut c_char,
    size: usize,
) -> usize {
    quietly(0, || {
        let running = live(serializer, "serializer")
            .ok()
            .and_then(|handle| handle.serializer.stats().running);
        copy_text(&running.unwrap_or_default(), text, size)
    })
}

/// Moves the watermarks of a serializer that was made with some: above `high` too many tasks wait, and at `low` few enough
/// again. If it is beyond one of them now, an alert follows at once. `BH_NOT_FOUND` if it was made without.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_set_watermarks(
    serializer: *mut bh_serializer,
    low: u64,
    high: u64,
) -> bh_result {
    guard(|| {
        // An alert may free the handle.
        let serializer = live(serializer, "serializer")?.serializer.clone();
        if low >= high {
            return Err(Failure::invalid("low is not below high"));
        }
        let count = |mark| usize::try_from(mark).unwrap_or(usize::MAX);
        let moved = serializer.set_watermarks(count(low), count(high));
        let none = || Failure::not_found("the serializer was made without watermarks");
        moved.then_some(()).ok_or_else(none)
    })
}

/// Lets the high water begin again; `out_before`, what it was, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_reset_high_water(
    serializer: *mut bh_serializer,
    out_before: *mut u64,
) -> bh_result {
    guard(|| {
        let before = live(serializer, "serializer")?
            .serializer
            .reset_high_water();
        Out::optional(out_before).write(before);
        Ok(())
    })
}

impl bh_serializer {
    pub(crate) fn new(serializer: Serializer) -> Self {
        let process = Process::current();
        Self {
            serializer,
            process,
        }
    }
}

/// Why a serializer did not take a task. If its queue is full, it says which serializer, and how many tasks wait.
#[cold]
#[inline(never)]
fn serializer_refused(serializer: &Serializer, error: PushError) -> Failure {
    refused(error, || match (serializer.name(), serializer.len()) {
        ("", len) => format!("the queue of a serializer without a name is full: {len} tasks wait"),
        (name, len) => format!("the queue of the serializer {name:?} is full: {len} tasks wait"),
    })
}

/// The class of a priority as C gives it; 0 is the default.
pub(crate) fn class(priority: u32) -> Result<Class, Failure> {
    match u8::try_from(priority).unwrap_or(u8::MAX) {
        0 => Ok(Class::default()),
        normal @ 1..=40 => Ok(Class::Normal(Priority::new(normal))),
        real_time @ 100..=199 => Ok(Class::RealTime(RealTimePriority::new(real_time - 100))),
        _ => Err(Failure::invalid(format!(
            "a priority is 1 to 40, or 100 to 199 for real time, got {priority}"
        ))),
    }
}
