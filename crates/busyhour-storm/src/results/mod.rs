//! The results of a run: counts, times, the journal, and the report.

pub(crate) mod tally;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod progress;
pub(crate) mod peak;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod call_tally;
pub(crate) mod live_calls;
pub(crate) mod call_report;
