//! SIP on the network's threads: from a datagram to its device or watcher, and back.

pub(in crate::server) mod receive;
pub(in crate::server) mod inbound_request;
pub(in crate::server) mod route;
mod list_subscription;
pub(in crate::server) mod transactions;
pub(in crate::server) mod options;
pub(in crate::server) mod responder;
pub(in crate::server) mod unproven;
