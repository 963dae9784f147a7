//! The statistics of copies of messages.

use serde::Serialize;

/// Copies of messages for traces and for the capture server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CaptureStats {
    /// Copies sent to the capture server.
    pub hep_sent: u64,
    /// Copies that were too long, found no buffer or no room, or that the kernel refused.
    pub hep_dropped: u64,
    /// Traces now.
    pub trace_count: u64,
    /// Messages given to traces.
    pub traced: u64,
    /// Messages that a trace had no room for.
    pub trace_lost: u64,
    /// Traces refused because there were as many as may be.
    pub traces_refused: u64,
}
