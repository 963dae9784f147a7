//! When the machine started, and the id of that start.

use std::time::Duration;

/// Time since the machine started, including time in which it was suspended.
#[cfg(target_os = "linux")]
#[inline]
pub(super) fn elapsed() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of ours, which outlives the call.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| answer == 0)?;
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanos))
}

/// The kernel's id of this start, and what a time namespace adds to the time
/// since the start: in another namespace the same id has another time.
#[cfg(target_os = "linux")]
pub(super) fn id() -> Option<Box<str>> {
    elapsed()?;
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // A kernel without this file has no time namespaces.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let id = id.trim();
    let id = match offset_of(&offsets).as_slice() {
        [] | ["0", "0"] => id.to_owned(),
        [seconds, nanos, ..] => format!("{id} {seconds} {nanos}"),
        [_] => return None,
    };
    (!id.is_empty()).then(|| id.into())
}

/// Seconds and nanoseconds of the line `boottime 0 0` (time_namespaces(7)).
#[cfg(target_os = "linux")]
fn offset_of(offsets: &str) -> Vec<&str> {
    let lines = offsets.lines().map(str::split_ascii_whitespace);
    let boot = lines.filter_map(|mut fields| (fields.next()? == "boottime").then_some(fields));
    boot.flatten().collect()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn elapsed() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn id() -> Option<Box<str>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_that_of_the_boot_time() {
        let offsets = "monotonic           7         8\nboottime          -5         6\n";
        assert_eq!(offset_of(offsets), ["-5", "6"]);
        assert!(offset_of("").is_empty());
    }
}
