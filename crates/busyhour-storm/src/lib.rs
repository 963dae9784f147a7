#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod plan;
mod timer_slack;
mod wire;
mod results;
mod agents;
mod driver;
mod watch_driver;
mod call_driver;
mod call_run;
mod run;

pub use plan::args::{Kind, Protocol, Storm};
pub use plan::pattern::{Pattern, PatternError};
pub use results::call_report::{CallReport, LampUse};
pub use results::live_calls::LiveUse;
pub use results::report::{Report, ServerUse, WatchUse};
pub use run::{Print, StormError};
