//! The statistics of calls.

use super::histogram::HistogramStats;
use busyhour_proxy::{ProxyStats, dialogs::DialogStats};
use serde::Serialize;

/// Calls, and other requests between devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallStats {
    /// Requests that the proxy forwards, and their responses.
    pub proxy: ProxyStats,
    /// Dialogs between devices.
    pub dialogs: DialogStats,
    /// Requests refused before the proxy took them: nobody is there, or the sender may not.
    pub refused: u64,
    /// Those of them for which there was no room: there are four times `limits.calls` requests, with
    /// those of the last 32 s (503).
    pub refused_full: u64,
    /// Those of them for which there was no memory: the messages of all calls take their part of
    /// `runtime.buffer_budget_mib` (503).
    pub refused_memory: u64,
    /// New calls refused because the server could not keep up (503, or no answer); they are among
    /// `refused`.
    pub shed: u64,
    /// Those of them that were not even answered, since refusals had taken their part of the
    /// time; their callers send again.
    pub unanswered: u64,
    /// Refused INVITEs that are known now, so that a late copy of one is refused as well.
    pub shed_kept: u64,
    /// Refused INVITEs that are not known, since their source had its share.
    pub shed_not_kept: u64,
    /// Requests within a dialog whose route the server had not given (481).
    pub untrusted_routes: u64,
    /// Dialogs that were not asked whether they still live, since too many were being asked.
    pub probes_left_out: u64,
    /// Bytes of messages that sources and accounts are charged for.
    pub charged_bytes: u64,
    /// From an INVITE to the first response that its caller could hear: the median.
    pub post_dial_delay_p50_ns: u64,
    /// The same: 99 of 100 calls waited no longer.
    pub post_dial_delay_p99_ns: u64,
    /// The same as a histogram.
    pub post_dial_delay: HistogramStats,
    /// What became of the calls that ended.
    pub outcomes: CallOutcomeStats,
    /// Their records.
    pub records: CallRecordStats,
}

/// How many calls had which outcome since the start, as their callers saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallOutcomeStats {
    /// Somebody answered.
    pub answered: u64,
    /// 486, 600.
    pub busy: u64,
    /// It rang until a timer ended it.
    pub no_answer: u64,
    /// The caller hung up before the answer.
    pub cancelled: u64,
    /// Nobody was reached (404, 408, 410, 480, 604).
    pub unavailable: u64,
    /// The called side would not take the call (other 4xx, 6xx).
    pub refused: u64,
    /// A server failed (5xx), or what ended it is not known.
    pub failed: u64,
}

/// Records of calls on their way to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallRecordStats {
    /// Records that wait for the store now.
    pub waiting_len: u64,
    /// The highest `waiting_len` seen.
    pub waiting_high_water: u64,
    /// How many may wait.
    pub waiting_capacity: u64,
    /// Records that the store has.
    pub stored: u64,
    /// Records that found no room to wait, or came when the store was closed.
    pub lost: u64,
    /// Calls that the server itself refused, and of which there is no record since there were
    /// too many.
    pub refused_left_out: u64,
}
