use busyhour::clock::UnixTime;
use busyhour_pcp::Archive;
use jiff::{Timestamp, civil, tz::TimeZone};
use std::{str::FromStr, time::Duration};

/// A time as a user gives it to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeArgument {
    /// At this time.
    At(UnixTime),
    /// This long before the archive's end.
    BeforeEnd(Duration),
    /// This long after the archive's start.
    AfterStart(Duration),
}

impl TimeArgument {
    /// The time in this archive.
    pub(super) fn resolve(self, archive: &Archive) -> UnixTime {
        match self {
            Self::At(time) => time,
            Self::AfterStart(by) => archive.start() + by,
            Self::BeforeEnd(by) => {
                let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
                UnixTime::from_nanos(archive.end().as_nanos().saturating_sub(by))
            }
        }
    }
}

impl FromStr for TimeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = |text| humantime::parse_duration(text).map_err(|_| WANTED.to_owned());
        match text.as_bytes().first() {
            Some(b'-') => duration(&text[1..]).map(Self::BeforeEnd),
            Some(b'+') => duration(&text[1..]).map(Self::AfterStart),
            Some(b'@') => seconds(&text[1..]).map(Self::At),
            _ => calendar(text).map(Self::At),
        }
    }
}

fn seconds(text: &str) -> Result<UnixTime, String> {
    let seconds: f64 = text.parse().map_err(|_| WANTED)?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| WANTED)?;
    Ok(UnixTime::default() + duration)
}

fn calendar(text: &str) -> Result<UnixTime, String> {
    let with_zone = text.parse::<Timestamp>();
    let timestamp = with_zone.or_else(|_| {
        let civil: civil::DateTime = text.parse()?;
        TimeZone::UTC.to_timestamp(civil)
    });
    let nanos = timestamp.map_err(|_| WANTED)?.as_nanosecond();
    let nanos = u64::try_from(nanos).map_err(|_| "no archive has times before 1970")?;
    Ok(UnixTime::from_nanos(nanos))
}

const WANTED: &str = "wanted is a time such as 2026-11-22T08:00:00Z, 2026-11-22 08:00, \
    @1763798400, -6h (before the archive's end) or +30m (after its start)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let at = |secs| TimeArgument::At(UnixTime::from_secs(secs));
        let expected = [
            ("1970-01-02", at(86_400)),
            ("1970-01-01 01:00", at(3600)),
            ("1970-01-01T01:00:30Z", at(3630)),
            ("1970-01-01T01:00:00+01:00", at(0)),
            ("@90", at(90)),
            ("-6h", TimeArgument::BeforeEnd(Duration::from_secs(21_600))),
            (
                "+1h30m",
                TimeArgument::AfterStart(Duration::from_secs(5400)),
            ),
        ];
        for (text, moment) in expected {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        for text in [
            "",
            "-",
            "yesterday",
            "@x",
            "@-5",
            "1969-01-01",
            "12:00",
            "-6 apples",
        ] {
            assert!(text.parse::<TimeArgument>().is_err(), "{text}");
        }
    }
}
