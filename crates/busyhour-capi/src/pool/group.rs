use super::bh_shutdown_report;
use crate::{
    edge::{Out, Process, Threaded, give, guard, live, quietly, release},
    result::bh_result,
};
use busyhour::serializer::{AlertGroup, ShutdownGroup};
use std::time::Duration;

/// Serializers that are shut down together.
pub struct bh_group {
    pub(super) group: ShutdownGroup,
    process: Process,
}

/// Counts how many serializers of one subsystem are above their high watermark.
pub struct bh_alert_group {
    pub(super) group: AlertGroup,
    process: Process,
}

impl Threaded for bh_group {
    fn process(&self) -> Process {
        self.process
    }
}

impl Threaded for bh_alert_group {
    fn process(&self) -> Process {
        self.process
    }
}

/// Makes a group without serializers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_new(out: *mut *mut bh_group) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let (group, process) = (ShutdownGroup::new(), Process::current());
        give(out, bh_group { group, process });
        Ok(())
    })
}

/// Gives the handle up; the serializers stay in the group.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_free(group: *mut bh_group) {
    quietly((), || {
        if live(group, "group").is_ok() {
            drop(release(group));
        }
    });
}

/// The number of living serializers in the group; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_len(group: *const bh_group) -> usize {
    quietly(0, || {
        live(group, "group").map_or(0, |handle| handle.group.len())
    })
}

/// Shuts the serializers of the group down within `limit_ns`: they refuse tasks, what is queued runs, and what is left then
/// is dropped. `out`, which may be NULL, says what was left.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_shutdown(
    group: *mut bh_group,
    limit_ns: u64,
    out: *mut bh_shutdown_report,
) -> bh_result {
    guard(|| {
        let group = live(group, "group")?.group.clone();
        let report = group.shutdown(Duration::from_nanos(limit_ns));
        Out::optional(out).write((&report).into());
        Ok(())
    })
}

/// Makes a group without serializers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_alert_group_new(out: *mut *mut bh_alert_group) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let (group, process) = (AlertGroup::new(), Process::current());
        give(out, bh_alert_group { group, process });
        Ok(())
    })
}

/// Gives the handle up; the serializers stay in the group.
#[unsafe(no_mangle)]
pub extern "C" fn bh_alert_group_free(group: *mut bh_alert_group) {
    quietly((), || {
        if live(group, "group").is_ok() {
            drop(release(group));
        }
    });
}

/// How many serializers of the group are above their high watermark now; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_alert_group_count(group: *const bh_alert_group) -> usize {
    quietly(0, || {
        live(group, "group").map_or(0, |handle| handle.group.alert_count())
    })
}

/// How often one of them has risen above it; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_alert_group_raised(group: *const bh_alert_group) -> u64 {
    quietly(0, || {
        live(group, "group").map_or(0, |handle| handle.group.raised_count())
    })
}
