//! Datagrams and connections, in batches.

pub(crate) mod batch;
pub(crate) mod socket;
