//! Free blocks, and the limit on their memory.

mod bin;
mod free_map;
mod granule_runs;
mod budget;

pub(in crate::buffer) use bin::Bin;
pub(in crate::buffer) use budget::ByteBudget;
pub(in crate::buffer) use granule_runs::GranuleRuns;
