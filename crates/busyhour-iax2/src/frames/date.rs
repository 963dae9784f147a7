//! DATETIME (RFC 5456 §8.6.28): a calendar time in 32 bits.

/// A calendar time with a resolution of two seconds, 2000 to 2127.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    /// 2000 to 2127.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 58, even.
    pub second: u8,
}

impl DateTime {
    /// The UTC calendar of a Unix time; times outside of that range become its first or
    /// last time.
    ///
    /// ```
    /// use busyhour_iax2::frames::DateTime;
    /// let date = DateTime::from_unix(1_000_000_000);
    /// assert_eq!((date.year, date.month, date.day), (2001, 9, 9));
    /// assert_eq!((date.hour, date.minute, date.second), (1, 46, 40));
    /// ```
    pub fn from_unix(seconds: u64) -> Self {
        let seconds = seconds.clamp(FIRST_UNIX, LAST_UNIX);
        let (year, month, day) = civil(seconds / 86_400);
        let of_day = seconds % 86_400;
        Self {
            year: year as u16,
            month: month as u8,
            day: day as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60 / 2 * 2) as u8,
        }
    }

    /// Reads the 32 bits; `None` when a part is out of its range.
    pub fn from_wire(bits: u32) -> Option<Self> {
        let part = |shift: u32, width: u32| (bits >> shift) & ((1 << width) - 1);
        let this = Self {
            year: 2000 + part(25, 7) as u16,
            month: part(21, 4) as u8,
            day: part(16, 5) as u8,
            hour: part(11, 5) as u8,
            minute: part(5, 6) as u8,
            second: part(0, 5) as u8 * 2,
        };
        let date = (1..=12).contains(&this.month) && this.day >= 1;
        let time = this.hour < 24 && this.minute < 60 && this.second < 60;
        (date && time).then_some(this)
    }

    /// The 32 bits: year 7, month 4, day 5, hour 5, minute 6, half seconds 5.
    pub fn to_wire(self) -> u32 {
        let year = u32::from(self.year.clamp(2000, 2127) - 2000);
        year << 25
            | u32::from(self.month) << 21
            | u32::from(self.day) << 16
            | u32::from(self.hour) << 11
            | u32::from(self.minute) << 5
            | u32::from(self.second / 2)
    }
}

/// Year, month and day of a day since 1970-01-01, by counting in eras of 400
/// years that begin on the first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_1970;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;
/// 2000-01-01 00:00:00 UTC.
const FIRST_UNIX: u64 = 946_684_800;
/// 2127-12-31 23:59:58 UTC.
const LAST_UNIX: u64 = 4_985_971_198;
