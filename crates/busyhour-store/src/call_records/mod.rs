//! Records of ended calls: rows, questions about them, and the removal of old ones.

mod query;
mod removal;
mod row;

pub use query::CallRecordQuery;
pub use removal::CallRecordLimits;
pub(crate) use removal::{BATCH_LEN, OldCallRecords};
pub use row::CallRecordRow;
