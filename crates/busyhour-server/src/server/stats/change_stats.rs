//! The statistics of the stream of changes.

use serde::Serialize;

/// The stream of changes (`/api/v1/changes`), and those who read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ChangeStats {
    /// Readers now.
    pub reader_count: u64,
    /// Changes that a reader can go on from.
    pub kept_len: u64,
    /// Changes that were numbered for readers.
    pub told: u64,
    /// Times somebody began to read.
    pub opened: u64,
    /// How many of them went on where they had stopped.
    pub resumed: u64,
    /// How many of them could not: what they had missed was not kept any more.
    pub reset: u64,
    /// Changes that readers lost because they were too slow.
    pub lost: u64,
    /// Changes lost to all readers because too many waited for their number.
    pub not_numbered: u64,
}
