use super::bh_shutdown_report;
use crate::{
    edge::{Out, Process, Threaded, give, guard, live, quietly, release},
    result::bh_result,
};
use busyhour::{
    serializer::{AlertGroup, ShutdownGroup},
    stats::SerializerGroupStats,
};
use std::time::Duration;

/// Serializers that are shut down together.
pub struct bh_group {
    pub(super) group: ShutdownGroup,
    process: Process,
}

/// What the living serializers of a group hold now and have done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_group_stats {
    /// Living serializers.
    pub serializer_count: u64,
    /// Serializers that run a task or have some waiting.
    pub busy_count: u64,
    /// Tasks that wait in all of them.
    pub queued_len: u64,
    /// Tasks that wait in the one where most wait.
    pub longest_queued_len: u64,
    /// The most that have waited in one of them.
    pub queued_high_water: u64,
    /// Tasks that ran.
    pub processed: u64,
    /// How long the first waiting task has waited.
    pub oldest_waiting_ns: u64,
    /// How long the longest of the running tasks has run.
    pub running_for_ns: u64,
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

/// What the living serializers of the group hold now and have done. It looks at each of them.
#[unsafe(no_mangle)]
pub extern "C" fn bh_group_get_stats(
    group: *const bh_group,
    out: *mut bh_group_stats,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(group, "group")?.group.stats()).into());
        Ok(())
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

impl From<&SerializerGroupStats> for bh_group_stats {
    fn from(stats: &SerializerGroupStats) -> Self {
        Self {
            serializer_count: stats.serializer_count,
            busy_count: stats.busy_count,
            queued_len: stats.queued_len,
            longest_queued_len: stats.longest_queued_len,
            queued_high_water: stats.queued_high_water,
            processed: stats.processed,
            oldest_waiting_ns: stats.oldest_waiting_ns,
            running_for_ns: stats.running_for_ns,
        }
    }
}
