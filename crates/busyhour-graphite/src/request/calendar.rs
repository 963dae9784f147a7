//! Days and times of day in UTC, through the RFC 3339 form that `humantime` reads and writes.

use std::time::{Duration, UNIX_EPOCH};

/// Midnight of a day in seconds since 1970; `None` if there is no such day.
pub(crate) fn midnight(year: u32, month: u32, day: u32) -> Option<i64> {
    let text = format!("{year:04}-{month:02}-{day:02}T00:00:00Z");
    let time = humantime::parse_rfc3339(&text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// `2026-11-22 17:05:00`, for times from 1970 to 9999; others as plain seconds.
pub(crate) fn date_time(time: i64) -> String {
    let seconds = u64::try_from(time)
        .ok()
        .filter(|seconds| *seconds < YEAR_10000);
    let Some(seconds) = seconds else {
        return time.to_string();
    };
    let moment = UNIX_EPOCH + Duration::from_secs(seconds);
    let text = humantime::format_rfc3339_seconds(moment).to_string();
    text.replace('T', " ").replace('Z', "")
}

/// The year that `time` is in.
pub(crate) fn year(time: i64) -> Option<u32> {
    date_time(time).get(..4)?.parse().ok()
}

/// 0 for Monday.
pub(crate) fn weekday(time: i64) -> i64 {
    // 1970 began on a Thursday.
    (time.div_euclid(DAY) + 3).rem_euclid(7)
}

pub(crate) const DAY: i64 = 86_400;
const YEAR_10000: u64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_those_of_the_calendar() {
        assert_eq!(midnight(1970, 1, 1), Some(0));
        assert_eq!(midnight(2010, 11, 13), Some(1_289_606_400));
        assert_eq!(midnight(2026, 2, 29), None);
        assert_eq!(
            midnight(2024, 2, 29).map(date_time).unwrap(),
            "2024-02-29 00:00:00"
        );
        assert_eq!(date_time(1_289_665_949), "2010-11-13 16:32:29");
        assert_eq!(date_time(-5), "-5");
        assert_eq!(year(1_289_665_949), Some(2010));
        // 13 November 2010 was a Saturday.
        assert_eq!(weekday(1_289_665_949), 5);
    }
}
