//! Times as Graphite writes them (*The Render URL API*, from / until).

use crate::{Error, request::calendar};
use calendar::DAY;

/// A moment in seconds since 1970, in UTC: `-1h`, `now-5min`, `1700000000`,
/// `04:00_20110501`, `noon_yesterday`, `6pm today`, `12/31/26`, `monday`, `january 8`.
///
/// # Errors
///
/// If `text` is not a time: what is wrong and what is allowed.
///
/// ```
/// use busyhour_graphite::parse_time;
///
/// let now = 1_700_000_000;
/// assert_eq!(parse_time("-1h", now), Ok(now - 3600));
/// assert_eq!(parse_time("now", now), Ok(now));
/// assert_eq!(parse_time("04:00_20110501", now), Ok(1_304_222_400));
/// assert!(parse_time("soon", now).is_err());
/// ```
pub fn parse_time(text: &str, now: i64) -> Result<i64, Error> {
    let plain: String = text
        .chars()
        .filter(|c| !matches!(c, '_' | ',') && !c.is_whitespace())
        .collect();
    let plain = plain.to_ascii_lowercase();
    if let Some(seconds) = epoch(&plain) {
        return Ok(seconds);
    }
    let sign = plain.find(['+', '-']).unwrap_or(plain.len());
    let (reference, offset) = plain.split_at(sign);
    let moment = reference_time(reference, now).ok_or_else(|| refusal(text))?;
    let offset = if offset.is_empty() {
        0
    } else {
        interval(offset).ok_or_else(|| refusal(text))?
    };
    Ok(moment.saturating_add(offset))
}

/// A span in seconds: `-1h`, `5min`, `1d12h`; `+` unless it says otherwise.
///
/// # Errors
///
/// When `text` is no span.
///
/// ```
/// use busyhour_graphite::parse_interval;
///
/// assert_eq!(parse_interval("5min"), Ok(300));
/// assert_eq!(parse_interval("-1d12h"), Ok(-129_600));
/// assert!(parse_interval("5 parsecs").is_err());
/// ```
pub fn parse_interval(text: &str) -> Result<i64, Error> {
    interval(&text.trim().to_ascii_lowercase()).ok_or_else(|| {
        Error::request(format!("`{text}` is no span of time; give a number and a unit (s, min, h, d, w, mon, y), such as 5min or 1d"))
    })
}

/// All digits are seconds, unless they read as a day.
fn epoch(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_day = text.len() == 8 && day_of_digits(text).is_some();
    (is_number && !is_day).then(|| text.parse().ok()).flatten()
}

fn interval(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i64;
    while !rest.is_empty() {
        let (number, after) = leading(rest, |c| c.is_ascii_digit());
        let (unit, after) = leading(after, |c| c.is_ascii_alphabetic());
        let count: i64 = number.parse().ok()?;
        total = total.checked_add(count.checked_mul(unit_seconds(unit)?)?)?;
        rest = after;
    }
    Some(sign * total)
}

fn leading(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_seconds(unit: &str) -> Option<i64> {
    let units = [
        ("s", 1),
        ("min", 60),
        ("h", 3600),
        ("d", DAY),
        ("w", 7 * DAY),
        ("mon", 30 * DAY),
        ("y", 365 * DAY),
    ];
    let is_minute = unit == "m";
    let found = units.iter().find(|(name, _)| unit.starts_with(name));
    found
        .map(|(_, seconds)| *seconds)
        .or(is_minute.then_some(60))
}

/// A time of day, a day, both or neither.
fn reference_time(text: &str, now: i64) -> Option<i64> {
    if text.is_empty() || text == "now" {
        return Some(now);
    }
    let (time, day) = time_of_day(text)?;
    let today = now - now.rem_euclid(DAY);
    Some(day_begin(day, now, today)?.saturating_add(time))
}

/// Seconds after midnight, and what stands behind them.
fn time_of_day(text: &str) -> Option<(i64, &str)> {
    for (word, hour) in [("noon", 12), ("midnight", 0), ("teatime", 16)] {
        if let Some(rest) = text.strip_prefix(word) {
            return Some((hour * 3600, rest));
        }
    }
    let (digits, rest) = leading(text, |c| c.is_ascii_digit());
    if !(1..=2).contains(&digits.len()) {
        return Some((0, text));
    }
    let hour: i64 = digits.parse().ok()?;
    if let Some(after) = rest.strip_prefix(':') {
        let minute: i64 = after.get(..2)?.parse().ok()?;
        let (hour, rest) = half_day(hour, &after[2..]);
        return clock_time(hour, minute).map(|time| (time, rest));
    }
    if rest.starts_with("am") || rest.starts_with("pm") {
        let (hour, rest) = half_day(hour, rest);
        return clock_time(hour, 0).map(|time| (time, rest));
    }
    Some((0, text))
}

fn half_day(hour: i64, rest: &str) -> (i64, &str) {
    if let Some(rest) = rest.strip_prefix("pm") {
        return ((hour + 12) % 24, rest);
    }
    (hour, rest.strip_prefix("am").unwrap_or(rest))
}

fn clock_time(hour: i64, minute: i64) -> Option<i64> {
    let is_valid = (0..24).contains(&hour) && (0..60).contains(&minute);
    is_valid.then_some(hour * 3600 + minute * 60)
}

fn day_begin(text: &str, now: i64, today: i64) -> Option<i64> {
    match text {
        "" | "today" => return Some(today),
        "yesterday" => return Some(today - DAY),
        "tomorrow" => return Some(today + DAY),
        _ => {}
    }
    let named = day_of_slashes(text).or_else(|| day_of_digits(text));
    named
        .or_else(|| day_of_month(text, now))
        .or_else(|| day_of_week(text, now, today))
}

/// `MM/DD/YY` or `MM/DD/YYYY`.
fn day_of_slashes(text: &str) -> Option<i64> {
    let mut parts = text.split('/');
    let mut next = || parts.next()?.parse::<u32>().ok();
    let (month, day, year) = (next()?, next()?, next()?);
    let year = match year {
        0..70 => year + 2000,
        70..1900 => year + 1900,
        _ => year,
    };
    parts
        .next()
        .is_none()
        .then(|| calendar::midnight(year, month, day))
        .flatten()
}

/// `YYYYMMDD`.
fn day_of_digits(text: &str) -> Option<i64> {
    let is_day = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits: u32 = is_day.then(|| text.parse().ok()).flatten()?;
    let (year, month, day) = (digits / 10_000, digits / 100 % 100, digits % 100);
    (year > 1900)
        .then(|| calendar::midnight(year, month, day))
        .flatten()
}

/// `january8`, of this year.
fn day_of_month(text: &str, now: i64) -> Option<i64> {
    let (name, digits) = leading(text, |c| c.is_ascii_alphabetic());
    let month = MONTHS.iter().position(|month| name.starts_with(month))?;
    let day: u32 = digits.parse().ok()?;
    calendar::midnight(calendar::year(now)?, month as u32 + 1, day)
}

/// The last one, today included.
fn day_of_week(text: &str, now: i64, today: i64) -> Option<i64> {
    let named = WEEKDAYS.iter().position(|day| text.starts_with(day))?;
    let back = (calendar::weekday(now) - named as i64).rem_euclid(7);
    Some(today - back * DAY)
}

fn refusal(text: &str) -> Error {
    Error::request(format!(
        "`{text}` is no time; give seconds since 1970, a span before now such as -1h, or a time such as 14:30_20261122, noon_yesterday or monday (UTC)"
    ))
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Saturday, 13 November 2010, 16:32:29.
    const NOW: i64 = 1_289_665_949;
    const TODAY: i64 = 1_289_606_400;

    #[test]
    fn times_are_read_as_graphite_reads_them() {
        for (text, expected) in [
            ("", NOW),
            ("now", NOW),
            ("-1h", NOW - 3600),
            ("-5min", NOW - 300),
            ("-5minutes", NOW - 300),
            ("now-1d12h", NOW - 36 * 3600),
            ("-1mon", NOW - 30 * DAY),
            ("-1y", NOW - 365 * DAY),
            ("1289665000", 1_289_665_000),
            ("20101113", TODAY),
            ("04:00_20101113", TODAY + 4 * 3600),
            ("4:30pm today", TODAY + 16 * 3600 + 1800),
            ("6pm today", TODAY + 18 * 3600),
            ("6am_tomorrow", TODAY + 30 * 3600),
            ("noon yesterday", TODAY - 12 * 3600),
            ("midnight", TODAY),
            ("teatime", TODAY + 16 * 3600),
            ("today", TODAY),
            ("midnight-7d", TODAY - 7 * DAY),
            ("11/13/10", TODAY),
            ("11/13/2010", TODAY),
            ("november 12", TODAY - DAY),
            ("saturday", TODAY),
            ("monday", TODAY - 5 * DAY),
            ("noon+20101113", i64::MIN),
            ("midnight+1d", TODAY + DAY),
        ] {
            let read = parse_time(text, NOW);
            if expected == i64::MIN {
                assert!(read.is_err(), "{text}");
            } else {
                assert_eq!(read, Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_allowed_forms() {
        for text in [
            "soon",
            "-1",
            "-1x",
            "25:00",
            "12:99",
            "13/45/10",
            "20101399x",
            "1h",
            "-99999999999999999999d",
        ] {
            let refusal = parse_time(text, NOW).unwrap_err().to_string();
            assert!(
                refusal.starts_with(&format!("`{text}` is no time; give ")),
                "{refusal}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(text in "\\PC{0,16}", now in any::<i64>()) {
            let _ = parse_time(&text, now / 2);
            let _ = parse_interval(&text);
        }

        #[test]
        fn random_words_of_the_grammar_do_not_panic(text in "[0-9apm:/+-]{0,12}(noon|monday|jan|d|min)?[0-9]{0,3}") {
            let _ = parse_time(&text, NOW);
        }
    }
}
