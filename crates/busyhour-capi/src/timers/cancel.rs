use super::{bh_timer, bh_timers};
use crate::{
    edge::{Callback, Data, Failure, Out, guard, live, nanos, text},
    result::bh_result,
    timers::list::{View, bh_pending_timer},
};
use busyhour::{clock::Instant, timer::Cancel};
use std::ffi::{c_char, c_void};

/// What became of a timer that was cancelled.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_cancel {
    /// Its data is freed, and it will not run again.
    BH_CANCEL_PREVENTED = 0,
    /// It has run, or was cancelled, before.
    BH_CANCEL_ALREADY_RAN = 1,
    /// It is running now; a periodic one does not run again.
    BH_CANCEL_RUNNING = 2,
}

/// Says whether a timer is meant: 0 if not. The struct and its texts are valid until it returns.
pub type bh_timer_wanted_fn =
    Option<unsafe extern "C-unwind" fn(timer: *const bh_pending_timer, data: *mut c_void) -> i32>;

/// Cancels a timer. `out`, what became of it, may be NULL. One that is over or unknown, also `{{0, 0}}`, is no error:
/// `BH_CANCEL_ALREADY_RAN`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_cancel(
    timers: *mut bh_timers,
    timer: bh_timer,
    out: *mut bh_cancel,
) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        Out::optional(out).write(timers.cancel(&timer.handle()).into());
        Ok(())
    })
}

/// Cancels a timer and, if its callback is running, waits until it has returned. `BH_CANCEL_RUNNING` then means that the
/// wait would never end, since the call was made inside of the callback. `out` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_cancel_and_wait(
    timers: *mut bh_timers,
    timer: bh_timer,
    out: *mut bh_cancel,
) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        Out::optional(out).write(timers.cancel_and_wait(&timer.handle()).into());
        Ok(())
    })
}

/// Cancels all timers of an owner, which is not 0. `out_count`, how many were prevented, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_cancel_owner(
    timers: *mut bh_timers,
    owner: u64,
    out_count: *mut usize,
) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        if owner == 0 {
            return Err(Failure::invalid("owner is 0, which means none"));
        }
        Out::optional(out_count).write(timers.cancel_owner(owner));
        Ok(())
    })
}

/// Cancels all timers with a label. `out_count`, how many were prevented, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_cancel_label(
    timers: *mut bh_timers,
    label: *const c_char,
    out_count: *mut usize,
) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        Out::optional(out_count).write(timers.cancel_label(text(label, "label")?));
        Ok(())
    })
}

/// Cancels the timers that are wanted: asks about each, once, on this thread. `out_count`, how many were prevented, may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_cancel_where(
    timers: *mut bh_timers,
    is_wanted: bh_timer_wanted_fn,
    data: *mut c_void,
    out_count: *mut usize,
) -> bh_result {
    guard(|| {
        let is_wanted = Callback::new(is_wanted, Data::new(data, None));
        let is_wanted = is_wanted.ok_or_else(|| Failure::null("is_wanted"))?;
        let timers = live(timers, "timers")?.timers.clone();
        let count = timers.cancel_where(|timer| {
            let view = View::new(timer);
            is_wanted.call_with(&raw const *view.as_c()) != 0
        });
        Out::optional(out_count).write(count);
        Ok(())
    })
}

/// Moves a waiting timer to another deadline, by the clock of the service; `BH_NOT_FOUND` if it does not wait any more.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_reschedule(
    timers: *mut bh_timers,
    timer: bh_timer,
    deadline_ns: u64,
) -> bh_result {
    guard(|| {
        let timers = live(timers, "timers")?.timers.clone();
        let deadline = Instant::from_nanos(deadline_ns);
        let moved = timers.reschedule(&timer.handle(), deadline);
        moved.then_some(()).ok_or_else(over)
    })
}

/// How long until a waiting timer is due, in nanoseconds, 0 if it is overdue; `BH_NOT_FOUND` if it does not wait any more.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_time_left(
    timers: *const bh_timers,
    timer: bh_timer,
    out_ns: *mut u64,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_ns, "out_ns")?;
        let left = live(timers, "timers")?
            .timers
            .time_left(&timer.handle())
            .ok_or_else(over)?;
        out.write(nanos(left));
        Ok(())
    })
}

pub(super) fn over() -> Failure {
    Failure::not_found("the timer does not wait any more")
}

impl From<Cancel> for bh_cancel {
    fn from(cancel: Cancel) -> Self {
        match cancel {
            Cancel::Prevented => Self::BH_CANCEL_PREVENTED,
            Cancel::AlreadyRan => Self::BH_CANCEL_ALREADY_RAN,
            Cancel::Running => Self::BH_CANCEL_RUNNING,
        }
    }
}
