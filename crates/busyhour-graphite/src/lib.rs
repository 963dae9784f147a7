#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod error;
mod limits;
mod time_limit;
mod stats;
mod paths;
mod data;
mod request;
mod functions;
mod find;
mod answer;
mod render;
mod graphite;

pub use answer::Answer;
pub use data::event::{Event, EventQuery};
pub use data::recorded::Recorded;
pub use data::series::Series;
pub use data::source::{Points, Source, Window};
pub use data::telemetry::{Telemetry, TelemetryOptions};
pub use error::{Error, Limit};
pub use graphite::Graphite;
pub use limits::Limits;
pub use paths::index::Index;
pub use paths::node::{node, unescaped};
pub use render::{Line, chart, pieces};
pub use request::expression::{Argument, Call, Expression};
pub use request::parameters::Parameters;
pub use request::time::{parse_interval, parse_time};
pub use stats::{DigestStats, Digested, GraphiteStats, TelemetryStats};
pub use time_limit::TimeLimit;
