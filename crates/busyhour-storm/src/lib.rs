#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod args;
mod pattern;
mod users;
mod register;
mod pending;
mod ledger;
mod machine;
mod engine;
mod iax2_pending;
mod iax2_engine;
mod tally;
mod pace;
mod batch;
mod socket;
mod driver;
mod watch_engine;
mod watch_driver;
mod journal;
mod process;
mod progress;
mod report;
mod run;

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod iax2_engine_tests;

pub use args::{Kind, Protocol, Storm};
pub use pattern::{Pattern, PatternError};
pub use report::{Report, ServerUse, WatchUse};
pub use run::{Print, StormError};
