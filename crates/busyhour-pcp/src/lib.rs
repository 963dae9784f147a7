#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod bits;
mod catalog;
mod domain;
mod error;
mod fields;
mod files;
mod frame;
mod index;
mod label;
mod merge;
mod metric;
mod open;
mod place;
mod plan;
mod prior;
mod rate;
mod record;
mod records;
mod rendering;
mod scan;
mod segment;
mod shape;
mod units;
mod volume;
mod window;

pub use domain::Domain;
pub use error::{Damage, Error, Problem};
pub use fields::Version;
pub use files::archives_in;
pub use index::IndexEntry;
pub use label::Label;
pub use metric::{Instance, Metric, MetricId, Semantics, ValueType};
pub use open::{Archive, SeriesId};
pub use record::{Record, Sample, Value};
pub use records::Records;
pub use rendering::{Counters, RenderOptions, Rendering};
pub use units::Units;
pub use window::Window;
