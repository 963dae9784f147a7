use super::{bh_group, bh_pool, bh_shutdown_report};
use crate::{
    edge::{Callback, Data, Failure, Out, Outcome, guard, live, nanos},
    result::bh_result,
};
use busyhour::pool::ShutdownReport;
use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    time::Duration,
};

/// What a shutdown left of one serializer or subscription, or one task that still ran.
#[repr(C)]
pub struct bh_leftover {
    /// Which of these it is.
    pub kind: bh_leftover_kind,
    /// The name of the serializer or subscription; empty if it has none.
    pub name: *const c_char,
    /// The label of the task that still runs; NULL if it has none, and for the other kinds.
    pub label: *const c_char,
    /// How many tasks or deliveries were dropped; 1 for a task that still runs.
    pub count: u64,
    /// How long the task that still runs has run; 0 for the other kinds.
    pub running_for_ns: u64,
}

/// The kinds of what a shutdown leaves.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_leftover_kind {
    /// Tasks of a serializer that were dropped without having run. Those of no named serializer come last, as one.
    BH_LEFTOVER_NOT_RUN = 0,
    /// Deliveries to a subscription that were dropped.
    BH_LEFTOVER_NOT_DELIVERED = 1,
    /// A task that still ran: one of a named serializer, or one with a label.
    BH_LEFTOVER_UNFINISHED = 2,
}

/// Is told of one leftover; a result of 0 ends the list. The struct and its texts are valid until it returns.
pub type bh_leftover_each_fn =
    Option<unsafe extern "C-unwind" fn(leftover: *const bh_leftover, data: *mut c_void) -> i32>;

type LeftoverCall = unsafe extern "C-unwind" fn(*const bh_leftover, *mut c_void) -> i32;

/// `bh_pool_shutdown`, which then tells `each` by name what was left, on this thread. `out` may be NULL. The `drop` of each
/// task that did not run has been called before.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pool_shutdown_each(
    pool: *mut bh_pool,
    limit_ns: u64,
    each: bh_leftover_each_fn,
    data: *mut c_void,
    out: *mut bh_shutdown_report,
) -> bh_result {
    tell_leftovers(each, data, out, || {
        let pool = live(pool, "pool")?.pool.clone();
        Ok(pool.shutdown(Duration::from_nanos(limit_ns)))
    })
}

/// `bh_group_shutdown`, which then tells `each` by name what was left, as `bh_pool_shutdown_each`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_shutdown_each(
    group: *mut bh_group,
    limit_ns: u64,
    each: bh_leftover_each_fn,
    data: *mut c_void,
    out: *mut bh_shutdown_report,
) -> bh_result {
    tell_leftovers(each, data, out, || {
        let group = live(group, "group")?.group.clone();
        Ok(group.shutdown(Duration::from_nanos(limit_ns)))
    })
}

/// Shuts something down, and tells what was left.
pub(crate) fn tell_leftovers(
    each: bh_leftover_each_fn,
    data: *mut c_void,
    out: *mut bh_shutdown_report,
    shutdown: impl FnOnce() -> Outcome<ShutdownReport>,
) -> bh_result {
    guard(|| {
        let each: Callback<LeftoverCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        let report = shutdown()?;
        Out::optional(out).write((&report).into());
        let _ended = leftovers(&report).any(|leftover| !leftover.tell(&each));
        Ok(())
    })
}

struct Named<'a> {
    kind: bh_leftover_kind,
    name: &'a str,
    label: Option<&'a str>,
    count: u64,
    running_for_ns: u64,
}

fn leftovers(report: &ShutdownReport) -> impl Iterator<Item = Named<'_>> {
    let not_run = report.left.iter();
    let not_run = not_run.map(|left| Named::dropped(&left.serializer, left.not_run));
    let unnamed = Some(report.unnamed_not_run()).filter(|&count| count > 0);
    let unnamed = unnamed.map(|count| Named::dropped("", count));
    let not_delivered = report.undelivered.iter().map(|one| Named {
        kind: bh_leftover_kind::BH_LEFTOVER_NOT_DELIVERED,
        ..Named::dropped(&one.subscription, one.count)
    });
    let unfinished = report.unfinished.iter().map(|task| Named {
        kind: bh_leftover_kind::BH_LEFTOVER_UNFINISHED,
        name: &task.serializer,
        label: task.label.as_deref(),
        count: 1,
        running_for_ns: nanos(task.running_for),
    });
    not_run
        .chain(unnamed)
        .chain(not_delivered)
        .chain(unfinished)
}

impl<'a> Named<'a> {
    fn dropped(name: &'a str, count: u64) -> Self {
        Self {
            kind: bh_leftover_kind::BH_LEFTOVER_NOT_RUN,
            name,
            label: None,
            count,
            running_for_ns: 0,
        }
    }

    /// Whether the list goes on.
    fn tell(&self, each: &Callback<LeftoverCall>) -> bool {
        let name = CString::new(self.name).unwrap_or_default();
        let label = self.label.and_then(|label| CString::new(label).ok());
        let seen = bh_leftover {
            kind: self.kind,
            name: name.as_ptr(),
            label: label.as_ref().map_or(ptr::null(), |label| label.as_ptr()),
            count: self.count,
            running_for_ns: self.running_for_ns,
        };
        each.call_with(&raw const seen) != 0
    }
}
