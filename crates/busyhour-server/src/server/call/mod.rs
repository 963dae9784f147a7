//! Calls: what the proxy and the dialogs need of the server, and what it does for them.
//!
//! All messages of a call have one Call-ID, and the hash of that chooses the shard that
//! has the call's transactions and dialogs. A shard's lock is held while a message is
//! processed, so whatever happens to a call happens in one order; messages are sent after
//! it. Changes of dialogs are given to their devices under it: so watchers are told them
//! in that order as well. A device's lock may be taken under a shard's, and never the
//! other way.

mod step_actions;
mod tracking;
pub(in crate::server) mod permit;
mod edge;
mod target;
mod flows;
mod probing;
pub(super) mod refused_calls;
pub(super) mod call_log;
mod checked;
pub(super) mod calls;
pub(super) mod view;
pub(super) mod route_key;
mod redirect;
mod receive;
