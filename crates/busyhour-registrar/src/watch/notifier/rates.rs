//! How often a watcher wants to be told (RFC 6446): `max-rate` and `min-rate` of Event, in
//! notifications a second.

use crate::registrar::Refusal;
use busyhour_sip::Params;
use serde::{Deserialize, Serialize};
use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

/// The rates of one subscription.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyRates {
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<NotifyRate>,
    /// At least so many, also without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<NotifyRate>,
}

/// Notifications in a million seconds, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotifyRate(u32);

impl NotifyRates {
    /// Reads the parameters of Event.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadRequest`] if a rate is no number above 0. A minimum above the maximum, or
    /// above one a second, is lowered (RFC 6446 §5.3).
    pub(in crate::watch) fn read(params: &Params<'_>) -> Result<Self, Refusal> {
        let max = rate(params, "max-rate")?;
        let min = rate(params, "min-rate")?;
        let ceiling = max.map_or(MIN_RATE_MAX, |max| max.min(MIN_RATE_MAX));
        Ok(Self {
            max,
            min: min.map(|min| min.min(ceiling)),
        })
    }

    /// Least time from one change that is told to the next; an operator wants `least` anyhow.
    pub(in crate::watch) fn interval(&self, least: Duration) -> Duration {
        let wanted = self.max.map(NotifyRate::interval);
        wanted.map_or(least, |wanted| wanted.max(least))
    }

    /// Most time from one NOTIFY to the next.
    pub(in crate::watch) fn interval_max(&self) -> Option<Duration> {
        self.min.map(NotifyRate::interval)
    }
}

impl NotifyRate {
    fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let are_digits = |text: &str| {
            !text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit())
        };
        if !are_digits(whole) || !are_digits(fraction) {
            return None;
        }
        let fraction: u64 = format!("{fraction:0<6}")[..6].parse().ok()?;
        let millionths = whole.parse::<u64>().ok()?.checked_mul(1_000_000)? + fraction;
        let millionths = u32::try_from(millionths).unwrap_or(u32::MAX);
        (millionths > 0).then_some(Self(millionths))
    }

    fn interval(self) -> Duration {
        Duration::from_secs(1_000_000) / self.0
    }
}

impl Display for NotifyRate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let fraction = format!("{fraction:06}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            fraction => write!(f, "{whole}.{fraction}"),
        }
    }
}

/// As Subscription-State says which rates hold (RFC 6446 §6).
impl Display for NotifyRates {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(max) = self.max {
            write!(f, ";max-rate={max}")?;
        }
        match self.min {
            Some(min) => write!(f, ";min-rate={min}"),
            None => Ok(()),
        }
    }
}

fn rate(params: &Params<'_>, name: &str) -> Result<Option<NotifyRate>, Refusal> {
    if !params.has(name) {
        return Ok(None);
    }
    let rate = params.value(name).and_then(NotifyRate::read);
    rate.map(Some).ok_or(Refusal::BadRequest(
        "A Rate Of Event Is A Number Above 0".into(),
    ))
}

/// One a second.
const MIN_RATE_MAX: NotifyRate = NotifyRate(1_000_000);
/// RFC 6446 §8 has ten at most behind the point.
const DIGITS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_told_as_they_hold() {
        let read = |text: &str| NotifyRates::read(&Params::parse(text).unwrap());
        let told = |text: &str| read(text).map(|rates| rates.to_string());
        assert_eq!(told(";id=7").unwrap(), "");
        assert_eq!(told(";max-rate=0.05").unwrap(), ";max-rate=0.05");
        assert_eq!(
            told(";max-rate=2;min-rate=30").unwrap(),
            ";max-rate=2;min-rate=1"
        );
        assert_eq!(
            told(";max-rate=0.1;min-rate=0.5").unwrap(),
            ";max-rate=0.1;min-rate=0.1"
        );
        for wrong in [
            ";max-rate=0",
            ";max-rate",
            ";min-rate=-1",
            ";max-rate=1.",
            ";max-rate=0.0000001",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let rates = read(";max-rate=0.5;min-rate=0.25").unwrap();
        assert_eq!(rates.interval(Duration::ZERO), Duration::from_secs(2));
        assert_eq!(
            rates.interval(Duration::from_secs(5)),
            Duration::from_secs(5)
        );
        assert_eq!(rates.interval_max(), Some(Duration::from_secs(4)));
    }
}
