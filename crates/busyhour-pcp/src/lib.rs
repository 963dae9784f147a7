#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod format;
mod read;
mod render;
mod live;
mod error;
mod stop_check;
mod open;

pub use error::{Damage, Error, Problem};
pub use format::domain::Domain;
pub use format::fields::Version;
pub use format::index::IndexEntry;
pub use format::label::Label;
pub use format::metric::{Instance, Metric, MetricId, Semantics, SeriesId, ValueType};
pub use format::record::{Record, Sample, Value};
pub use format::units::Units;
pub use live::client::{LiveAction, LiveError, LiveSample, LiveValue, PmcdClient};
pub use live::limits::LiveLimits;
pub use open::Archive;
pub use read::annotations::{Annotation, AnnotationKind};
pub use read::files::archives_in;
pub use read::records::Records;
pub use render::in_order::in_order;
pub use render::rendering::{Counters, RenderOptions, Rendering};
pub use render::window::Window;
pub use stop_check::StopCheck;
