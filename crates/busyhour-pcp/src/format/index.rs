use crate::{
    Problem,
    format::fields::{Fields, Version},
};
use busyhour::clock::UnixTime;

/// One entry of the temporal index: nothing that is later than `time` lies
/// before these offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// The moment.
    pub time: UnixTime,
    /// The data volume that was written then.
    pub volume: u32,
    /// How far the metadata went.
    pub metadata_offset: u64,
    /// How far the volume went.
    pub data_offset: u64,
}

/// Reads the entries after the label. The index only saves time, so damaged entries are
/// skipped silently: the volumes contain the same information.
pub(crate) fn parse(bytes: &[u8], version: Version) -> Vec<IndexEntry> {
    let len = match version {
        Version::V2 => 20,
        Version::V3 => 32,
    };
    bytes
        .chunks_exact(len)
        .filter_map(|entry| read(Fields(entry), version).ok())
        .collect()
}

fn read(mut fields: Fields<'_>, version: Version) -> Result<IndexEntry, Problem> {
    let time = fields.time(version)?;
    let volume = fields.u32()?;
    let mut offset = || match version {
        Version::V2 => fields.u32().map(u64::from),
        Version::V3 => fields.u64(),
    };
    Ok(IndexEntry {
        time,
        volume,
        metadata_offset: offset()?,
        data_offset: offset()?,
    })
}
