//! The states that several nodes have of one key: their fold and their origins.

mod fold;
mod shard_nodes;
mod origins_by_version;

pub use fold::NodeId;
pub(in crate::bus) use fold::{Basis, Emptied, Folded, Folding, Parts, part};
pub(in crate::bus) use shard_nodes::Nodes;
