//! PCP archives, versions 2 and 3, read and rendered: LOGARCHIVE(5).
//!
//! An [`Archive`] tells its [`Metric`]s and [`renders`](Archive::render) the
//! values of any of them at regular moments, as PCP's own tools show them:
//! interpolated between samples, counters as rates. One pass over the volumes
//! serves all wanted series, and any number of threads share it. The format's
//! corners and the argument for the parallel pass are in this module's
//! `README.md`.

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
