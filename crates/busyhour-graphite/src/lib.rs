#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod aggregation;
mod answer;
mod calendar;
mod error;
mod evaluator;
mod expression;
mod find;
mod functions;
mod glob;
mod index;
mod limits;
mod node;
mod parameters;
mod parser;
mod recorded;
mod render;
mod series;
mod source;
mod stats;
mod telemetry;
mod time;

pub use answer::{Answer, Graphite};
pub use error::{Error, Limit};
pub use expression::{Argument, Call, Expression};
pub use index::Index;
pub use limits::Limits;
pub use node::{node, unescaped};
pub use parameters::Parameters;
pub use recorded::Recorded;
pub use render::{Line, chart, pieces};
pub use series::Series;
pub use source::{Points, Source, Window};
pub use stats::GraphiteStats;
pub use telemetry::{Telemetry, TelemetryOptions};
pub use time::{parse_interval, parse_time};
