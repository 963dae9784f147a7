//! Contact values (RFC 3261 §20.10).

use crate::sip::{Address, Params, text::lex::saturating_u32};

/// One Contact: where a device can be reached, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact<'a> {
    /// Display name, URI and all parameters.
    pub address: Address<'a>,
    /// The preference; when sorting, treat an absent one as [`Quality::HIGHEST`].
    pub q: Option<Quality>,
}

/// One Contact as it is written, of which it is known that its URI is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactText<'a> {
    /// The URI, without brackets.
    pub uri: &'a str,
    /// All parameters.
    pub params: Params<'a>,
    /// As [`Contact::q`].
    pub q: Option<Quality>,
}

/// A preference in thousandths, 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quality(u16);

impl<'a> Contact<'a> {
    /// Reads one value; `None` when its grammar is broken.
    pub fn parse(text: &'a str) -> Option<Self> {
        let address = Address::parse(text)?;
        let q = match address.params.find("q") {
            Some(q) => Some(Quality::parse(q?)?),
            None => None,
        };
        Some(Self { address, q })
    }

    /// Without what was read of its URI.
    pub fn text(&self) -> ContactText<'a> {
        ContactText {
            uri: self.address.uri_text,
            params: self.address.params,
            q: self.q,
        }
    }

    /// As [`ContactText::expires`].
    pub fn expires(&self) -> Option<u32> {
        self.text().expires()
    }

    /// `+sip.instance` without its brackets (RFC 5626 §4.1).
    pub fn instance(&self) -> Option<&'a str> {
        let value = self.address.params.value("+sip.instance")?;
        value.strip_prefix('<')?.strip_suffix('>')
    }

    /// `reg-id` (RFC 5626 §4.2), at least 1.
    pub fn reg_id(&self) -> Option<u32> {
        let value = self.address.params.value("reg-id")?;
        saturating_u32(value).filter(|id| *id > 0)
    }
}

impl ContactText<'_> {
    /// The requested lifetime in seconds. A value that is not a number counts as 3600
    /// (RFC 3261 §20.10); a value beyond `u32` counts as `u32::MAX`.
    pub fn expires(&self) -> Option<u32> {
        let value = self.params.find("expires")?.unwrap_or("");
        Some(saturating_u32(value).unwrap_or(EXPIRES_WHEN_MALFORMED))
    }
}

impl Quality {
    /// 1.0.
    pub const HIGHEST: Self = Self(1000);

    /// Reads `0`, `0.7`, `1.000`: at most three decimals.
    ///
    /// ```
    /// use busyhour_sip::Quality;
    /// assert_eq!(Quality::parse("0.75").map(Quality::thousandths), Some(750));
    /// assert_eq!(Quality::parse("1.001"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let whole: u16 = match whole {
            "0" => 0,
            "1" => 1000,
            _ => return None,
        };
        let digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || decimals.len() > 3 {
            return None;
        }
        let scale = [1000, 100, 10, 1][decimals.len()];
        let part = decimals.parse::<u16>().unwrap_or(0) * scale;
        Some(Self(whole + part)).filter(|quality| quality.0 <= 1000)
    }

    /// The same of 0 to 1000; more is the highest.
    ///
    /// ```
    /// use busyhour_sip::Quality;
    /// assert_eq!(Quality::from_thousandths(750).to_string(), "0.750");
    /// ```
    pub fn from_thousandths(thousandths: u16) -> Self {
        Self(thousandths.min(1000))
    }

    /// 0 to 1000.
    pub fn thousandths(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for Quality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// RFC 3261 §20.10.
const EXPIRES_WHEN_MALFORMED: u32 = 3600;
