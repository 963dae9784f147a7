//! Peers: other servers and gateways that the operator trusts by their address. What they
//! may do, which calls go to them, and whether they are there.
//!
//! A request is of a peer if it came from one of its addresses. Calls go to the first of its
//! addresses that is not known to be down; OPTIONS tell which ones are.

pub(super) mod peer_config;
mod probe;
mod public_address;
pub(super) mod trusted_peer;
pub(super) mod peers;
pub(super) mod view;
pub(super) mod way_failure;
