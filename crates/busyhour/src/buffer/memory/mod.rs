//! Free blocks, and how much memory they may take.

mod bin;
mod free_map;
mod granule_runs;
mod budget;

pub(in crate::buffer) use bin::Bin;
pub(in crate::buffer) use budget::ByteBudget;
pub(in crate::buffer) use granule_runs::GranuleRuns;
