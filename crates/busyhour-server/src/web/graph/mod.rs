//! Graphs of archives and of the last minutes, over the Graphite interface.

pub(in crate::web) mod graphite;
pub(in crate::web) mod graphs;
mod cached_archive;
mod catalog;
mod joined_events;
mod joined_points;
mod pmcd_stream;
pub(in crate::web) mod pmcd_address;
pub(in crate::web) mod pmcd_source;
pub(in crate::web) mod archives;
pub(in crate::web) mod sampler;
