//! Series, and the sources that they come from.

pub(crate) mod aggregation;
pub(crate) mod event;
pub(crate) mod source;
pub(crate) mod series;
pub(crate) mod recorded;
pub(crate) mod telemetry;
