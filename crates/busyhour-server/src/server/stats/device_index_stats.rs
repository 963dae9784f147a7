//! The statistics of what people search devices by.

use serde::Serialize;

/// The rows by which devices are listed and searched; none while nobody looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeviceIndexStats {
    /// Devices and accounts that have a row.
    pub row_count: u64,
    /// Memory that the rows take.
    pub row_bytes: u64,
}
