use super::{bh_timer, bh_timers, cancel::over};
use crate::{
    edge::{Callback, Data, Failure, Out, give_text, guard, live, nanos},
    result::bh_result,
};
use busyhour::{
    stats::{TimerLabelStats, TimerStats},
    timer::{PendingPhase, PendingTimer, TimerKind},
};
use std::{
    ffi::{CString, c_char, c_void},
    marker::PhantomData,
    ptr,
    time::Duration,
};

/// A timer that is not over, as it was when it was listed.
#[repr(C)]
pub struct bh_pending_timer {
    /// Identifies the timer.
    pub timer: bh_timer,
    /// When it is due, by the clock of the service; `UINT64_MAX` once it has been delivered.
    pub due_ns: u64,
    /// The owner that it was given; 0: none.
    pub owner: u64,
    /// The name of its class; never NULL.
    pub label: *const c_char,
    /// The name of what runs it; empty if that has none, and while it is delivered or runs.
    pub executor: *const c_char,
    /// Where it is on its way.
    pub phase: bh_phase,
    /// How it repeats; `BH_REPEAT_UNKNOWN` while its callback runs.
    pub repeat: bh_repeat,
    /// The period, or the pause between its runs; 0 for the other kinds.
    pub period_ns: u64,
}

/// How a timer repeats.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_repeat {
    /// Not known while its callback runs.
    BH_REPEAT_UNKNOWN = 0,
    /// It runs once.
    BH_REPEAT_ONCE = 1,
    /// At a fixed rate.
    BH_REPEAT_EVERY = 2,
    /// With a pause after each run.
    BH_REPEAT_FIXED_DELAY = 3,
    /// After the delay that its callback returns.
    BH_REPEAT_NEXT_DELAY = 4,
    /// It wakes a future of a program in Rust.
    BH_REPEAT_FUTURE = 5,
}

/// What a timer service holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_timers_stats {
    /// Timers that are not over.
    pub pending_count: u64,
    /// The most that have been.
    pub pending_high_water: u64,
    /// Timers that were added.
    pub added: u64,
    /// Timers that were refused.
    pub refused: u64,
    /// Timers that were cancelled before they ran.
    pub cancelled: u64,
    /// Runs that were due.
    pub expired: u64,
    /// Deliveries that a full executor delayed.
    pub deferred: u64,
    /// Timers whose executor dropped them.
    pub lost: u64,
    /// Ticks of periodic timers that were skipped.
    pub missed: u64,
    /// How much later than due the median run was delivered.
    pub lateness_p50_ns: u64,
    /// And all but one in a hundred.
    pub lateness_p99_ns: u64,
    /// And the latest.
    pub lateness_max_ns: u64,
}

/// The timers of one label.
#[repr(C)]
pub struct bh_label_stats {
    /// The label.
    pub label: *const c_char,
    /// Timers that are not over.
    pub pending_count: u64,
    /// The most that have been.
    pub pending_high_water: u64,
    /// Timers that were added.
    pub added: u64,
    /// Timers that were cancelled before they ran.
    pub cancelled: u64,
    /// Runs that were due.
    pub expired: u64,
    /// How much later than due the median run was delivered.
    pub lateness_p50_ns: u64,
    /// And all but one in a hundred.
    pub lateness_p99_ns: u64,
    /// And the latest.
    pub lateness_max_ns: u64,
}

/// Is told of one label; a result of 0 ends the list. The struct and its text are valid until it returns.
pub type bh_label_each_fn =
    Option<unsafe extern "C-unwind" fn(stats: *const bh_label_stats, data: *mut c_void) -> i32>;

/// Where a timer that is not over is on its way.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_phase {
    /// It waits until it is due.
    BH_PHASE_WAITING = 0,
    /// It has been passed to its executor.
    BH_PHASE_DELIVERED = 1,
    /// Its callback runs.
    BH_PHASE_RUNNING = 2,
}

/// Is told of one timer; a result of 0 ends the list. The struct and its texts are valid until it returns.
pub type bh_timer_each_fn =
    Option<unsafe extern "C-unwind" fn(timer: *const bh_pending_timer, data: *mut c_void) -> i32>;

/// Tells `each` of every timer that is not over, on this thread, in no defined order.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_list(
    timers: *const bh_timers,
    each: bh_timer_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each = Callback::new(each, Data::new(data, None));
        let each = each.ok_or_else(|| Failure::null("each"))?;
        let pending = live(timers, "timers")?.timers.pending();
        for timer in pending {
            let view = View::new(&timer);
            if each.call_with(&raw const *view.as_c()) == 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Tells `each` of one timer; `BH_NOT_FOUND` once it is over.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_get(
    timers: *const bh_timers,
    timer: bh_timer,
    each: bh_timer_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each = Callback::new(each, Data::new(data, None));
        let each = each.ok_or_else(|| Failure::null("each"))?;
        let found = live(timers, "timers")?
            .timers
            .get(&timer.handle())
            .ok_or_else(over)?;
        let view = View::new(&found);
        each.call_with(&raw const *view.as_c());
        Ok(())
    })
}

/// What the service holds and has done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_get_stats(
    timers: *const bh_timers,
    out: *mut bh_timers_stats,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(timers, "timers")?.timers.stats()).into());
        Ok(())
    })
}

/// Tells `each` of the timers of every label that is not empty, on this thread, until it returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_labels(
    timers: *const bh_timers,
    each: bh_label_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each: Callback<LabelCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        for stats in live(timers, "timers")?.timers.stats().labels {
            let label = CString::new(stats.label.as_str()).unwrap_or_default();
            let seen = bh_label_stats {
                label: label.as_ptr(),
                ..(&stats).into()
            };
            if each.call_with(&raw const seen) == 0 {
                break;
            }
        }
        Ok(())
    })
}

type LabelCall = unsafe extern "C-unwind" fn(*const bh_label_stats, *mut c_void) -> i32;

/// What the service holds and has done, and how late timers were, in all and by label, as JSON. Free the text with
/// `bh_text_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_report(
    timers: *const bh_timers,
    out_text: *mut *mut c_char,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_text, "out_text")?;
        let stats = live(timers, "timers")?.timers.stats();
        let json =
            serde_json::to_string(&stats).map_err(|error| Failure::invalid(error.to_string()))?;
        give_text(out, &json);
        Ok(())
    })
}

/// A timer as C sees it, with what its texts point to.
pub(super) struct View<'a> {
    seen: bh_pending_timer,
    _texts: [CString; 2],
    _timer: PhantomData<&'a PendingTimer>,
}

impl<'a> View<'a> {
    pub(super) fn new(timer: &'a PendingTimer) -> Self {
        let texts =
            [timer.label, &timer.executor].map(|text| CString::new(text).unwrap_or_default());
        let (repeat, period) = repeat_of(timer.kind);
        let seen = bh_pending_timer {
            timer: bh_timer::new(timer.handle),
            due_ns: timer.due.map_or(u64::MAX, |due| due.as_nanos()),
            owner: timer.owner.unwrap_or(0),
            label: texts[0].as_ptr(),
            executor: texts[1].as_ptr(),
            phase: match timer.phase {
                PendingPhase::Waiting => bh_phase::BH_PHASE_WAITING,
                PendingPhase::Delivered => bh_phase::BH_PHASE_DELIVERED,
                PendingPhase::Running => bh_phase::BH_PHASE_RUNNING,
            },
            repeat,
            period_ns: nanos(period),
        };
        Self {
            seen,
            _texts: texts,
            _timer: PhantomData,
        }
    }

    pub(super) fn as_c(&self) -> &bh_pending_timer {
        &self.seen
    }
}

fn repeat_of(kind: Option<TimerKind>) -> (bh_repeat, Duration) {
    match kind {
        Some(TimerKind::Once) => (bh_repeat::BH_REPEAT_ONCE, Duration::ZERO),
        Some(TimerKind::Every(period)) => (bh_repeat::BH_REPEAT_EVERY, period),
        Some(TimerKind::FixedDelay(pause)) => (bh_repeat::BH_REPEAT_FIXED_DELAY, pause),
        Some(TimerKind::NextDelay) => (bh_repeat::BH_REPEAT_NEXT_DELAY, Duration::ZERO),
        Some(TimerKind::Future) => (bh_repeat::BH_REPEAT_FUTURE, Duration::ZERO),
        _ => (bh_repeat::BH_REPEAT_UNKNOWN, Duration::ZERO),
    }
}

impl From<&TimerLabelStats> for bh_label_stats {
    fn from(stats: &TimerLabelStats) -> Self {
        Self {
            label: ptr::null(),
            pending_count: stats.pending_count,
            pending_high_water: stats.pending_high_water,
            added: stats.added,
            cancelled: stats.cancelled,
            expired: stats.expired,
            lateness_p50_ns: stats.lateness_p50_ns,
            lateness_p99_ns: stats.lateness_p99_ns,
            lateness_max_ns: stats.lateness_max_ns,
        }
    }
}

impl From<&TimerStats> for bh_timers_stats {
    fn from(stats: &TimerStats) -> Self {
        Self {
            pending_count: stats.pending_count,
            pending_high_water: stats.pending_high_water,
            added: stats.added,
            refused: stats.refused,
            cancelled: stats.cancelled,
            expired: stats.expired,
            deferred: stats.deferred,
            lost: stats.lost,
            missed: stats.missed,
            lateness_p50_ns: stats.lateness_p50_ns,
            lateness_p99_ns: stats.lateness_p99_ns,
            lateness_max_ns: stats.lateness_max_ns,
        }
    }
}
