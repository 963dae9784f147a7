use super::{bh_timer, bh_timers, cancel::over};
use crate::{
    edge::{Callback, Data, Failure, Out, give_text, guard, live},
    result::bh_result,
};
use busyhour::timer::{PendingPhase, PendingTimer};
use std::{
    ffi::{CString, c_char, c_void},
    marker::PhantomData,
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
}

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
