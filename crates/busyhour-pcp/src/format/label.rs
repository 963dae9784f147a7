use crate::{
    Problem,
    format::{
        fields::{Fields, Version},
        frame::frame,
    },
};
use busyhour::clock::UnixTime;

/// What each file of an archive begins with: LOGARCHIVE(5), "archive label".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Of the format.
    pub version: Version,
    /// When logging began.
    pub start: UnixTime,
    /// The number of a data volume; −1 for the metadata, −2 for the index.
    pub volume: i32,
    /// The host whose performance this is.
    pub host: String,
    /// Its `$TZ`.
    pub timezone: String,
    /// Its zoneinfo name, as `:Australia/Melbourne`; empty in version 2.
    pub zoneinfo: String,
}

impl Label {
    /// Reads the label at the front of a file, and says how long it is.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, usize), Problem> {
        let frame = frame(bytes, 0).map_err(|problem| not_an_archive(bytes).unwrap_or(problem))?;
        let mut fields = Fields(frame.body());
        let version = match fields.u32()? {
            MAGIC_V2 => Version::V2,
            MAGIC_V3 => Version::V3,
            other => return Err(Problem::Magic(other)),
        };
        let _process = fields.u32()?;
        let start = fields.time(version)?;
        let volume = fields.i32()?;
        let (host_len, zone_len) = match version {
            Version::V2 => (64, 40),
            Version::V3 => {
                fields.take(FEATURES_AND_RESERVED)?;
                (256, 256)
            }
        };
        let label = Self {
            version,
            start,
            volume,
            host: fields.text(host_len)?,
            timezone: fields.text(zone_len)?,
            zoneinfo: match version {
                Version::V2 => String::new(),
                Version::V3 => fields.text(256)?,
            },
        };
        Ok((label, frame.bytes.len()))
    }
}

/// A file of another kind is told so, rather than that its first length is odd.
fn not_an_archive(bytes: &[u8]) -> Option<Problem> {
    let magic = crate::format::frame::word(bytes, 4)?;
    let known = matches!(magic, MAGIC_V2 | MAGIC_V3);
    (!known).then_some(Problem::Magic(magic))
}

const MAGIC_V2: u32 = 0x5005_2602;
const MAGIC_V3: u32 = 0x5005_2603;
const FEATURES_AND_RESERVED: usize = 8;

/// The longest label, that of version 3.
pub(crate) const LABEL_BYTES_MAX: usize = 808;
