//! Load: the shares of each resource, and what is refused under overload.

pub(in crate::server) mod shares;
pub(in crate::server) mod shard_count;
pub(in crate::server) mod source_shares;
pub(in crate::server) mod heavy_hitters;
pub(in crate::server) mod backlog;
pub(in crate::server) mod overload;
mod unread;
mod refusal_credit;
pub(in crate::server) mod shed_calls;
pub(in crate::server) mod due_shards;
pub(in crate::server) mod load_control;
pub(in crate::server) mod alerts;
