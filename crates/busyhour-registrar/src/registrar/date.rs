//! The Date header (RFC 3261 §20.17): RFC 1123, always GMT.

use busyhour::clock::UnixTime;
use busyhour_sip::{HeaderValue, Output};
use std::fmt::{self, Display, Formatter};

/// Shows a moment as SIP and HTTP write it.
///
/// ```
/// use busyhour::clock::UnixTime;
/// use busyhour_registrar::HttpDate;
///
/// let date = HttpDate(UnixTime::from_secs(1_289_665_949));
/// assert_eq!(date.to_string(), "Sat, 13 Nov 2010 16:32:29 GMT");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HttpDate(pub UnixTime);

impl HeaderValue for HttpDate {
    fn write_to(&self, out: &mut impl Output) {
        let seconds = self.0.as_secs();
        let (days, second) = (seconds / DAY_S, seconds % DAY_S);
        let (year, month, day) = civil(days);
        let mut date = *b"Thu, 01 Jan ";
        date[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize]);
        date[5..7].copy_from_slice(&two_digits(day));
        date[8..11].copy_from_slice(MONTHS[month as usize]);
        let mut time = *b" 00:00:00 GMT";
        time[1..3].copy_from_slice(&two_digits(second / 3600));
        time[4..6].copy_from_slice(&two_digits(second / 60 % 60));
        time[7..9].copy_from_slice(&two_digits(second % 60));
        out.put(&date);
        out.put_decimal(year);
        out.put(&time);
    }
}

impl Display for HttpDate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Of a number below 100.
fn two_digits(number: u64) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

/// Year, month from 0 and day from 1 of the Gregorian calendar, for days since
/// 1970. Years are counted from March, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_FROM_0000_MARCH;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let next_year = u64::from(month_from_march >= 10);
    let month = (month_from_march + 2) % 12;
    (era * 400 + year + next_year, month, day_of_month)
}

const DAY_S: u64 = 86_400;
const ERA_DAYS: u64 = 146_097;
const DAYS_FROM_0000_MARCH: u64 = 719_468;
/// 1970 began on a Thursday.
const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(seconds: u64) -> String {
        HttpDate(UnixTime::from_secs(seconds)).to_string()
    }

    #[test]
    fn leap_days_and_ends_of_years() {
        assert_eq!(shown(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(shown(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(shown(951_868_799), "Tue, 29 Feb 2000 23:59:59 GMT");
        assert_eq!(shown(1_735_689_599), "Tue, 31 Dec 2024 23:59:59 GMT");
        assert_eq!(shown(1_735_689_600), "Wed, 01 Jan 2025 00:00:00 GMT");
        assert_eq!(shown(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }

    proptest! {
        #[test]
        fn dates_agree_with_another_calendar_library(seconds in 0..u64::MAX / 1_000_000_000) {
            let at = jiff::Timestamp::from_second(seconds as i64).expect("before the year 2555");
            let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            prop_assert_eq!(shown(seconds), date);
        }
    }
}
