//! Media relays: which there are, and what is said to them. What is asked of them for a call is in
//! the shard of the call (`call/calls/relaying.rs`).

pub(in crate::server) mod relay_set;
pub(in crate::server) mod view;
