//! Limits for HTTP clients: connections, time, bodies, places.

pub(in crate::web) mod connections;
pub(in crate::web) mod tls;
pub(in crate::web) mod patient;
pub(in crate::web) mod bodies;
pub(in crate::web) mod places;
pub(in crate::web) mod in_progress;
pub(in crate::web) mod load;
