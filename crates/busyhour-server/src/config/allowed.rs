use busyhour_store::PostgresOptions;
use std::{fmt, str::FromStr};

/// The values a setting may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// A whole number between two bounds, both allowed, with its unit.
    Whole {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One or more of these words, the first one first.
    SomeOf(&'static [&'static str]),
    /// One or more addresses with ports.
    Addresses,
    /// Any number of host names.
    Hosts,
    /// The URL of a database, which may have a password in it, or off.
    DatabaseUrl,
    /// Free text, described.
    Text(&'static str),
}

impl Allowed {
    pub(super) fn admits(self, text: &str) -> bool {
        match self {
            Self::Whole { min, max, .. } => {
                u64::from_str(text).is_ok_and(|number| (min..=max).contains(&number))
            }
            Self::OneOf(words) => words.contains(&text),
            Self::SomeOf(words) => text.split(',').all(|word| words.contains(&word.trim())),
            Self::Addresses | Self::Hosts | Self::DatabaseUrl | Self::Text(_) => true,
        }
    }

    /// Why a value is refused. A URL is never shown, wherever it was written: if it has
    /// a mistake, its password cannot be told from the rest.
    pub(super) fn refusal(self, found: &str) -> String {
        match self {
            Self::DatabaseUrl => match PostgresOptions::check_url(found.trim()) {
                Err(mistake) => mistake,
                Ok(()) => format!("this is not allowed; give {self}"),
            },
            _ if found.contains("://") => format!("this URL is not allowed; give {self}"),
            _ => format!("`{found}` is not allowed; give {self}"),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { min, max, unit } => {
                write!(f, "a whole number of {unit} from {min} to {max}")
            }
            Self::OneOf(words) => write!(f, "one of: {}", words.join(", ")),
            Self::SomeOf(words) => write!(f, "one or more of: {}", words.join(", ")),
            Self::Addresses => f.write_str(
                "an IP address and port such as 127.0.0.1:5060 or [::1]:5060, or several",
            ),
            Self::Hosts => f.write_str("host names or IP addresses without ports, or none"),
            Self::DatabaseUrl => f.write_str("postgres://USER:PASSWORD@HOST:PORT/DATABASE, or off"),
            Self::Text(what) => f.write_str(what),
        }
    }
}

/// RFC 3261 allows up to 2^32-1; no phone needs more than a year.
pub(super) const SECONDS_OF_LIFE: Allowed = Allowed::Whole {
    min: 1,
    max: 31_536_000,
    unit: "seconds",
};
