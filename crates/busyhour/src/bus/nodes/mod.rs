//! What several nodes say of one key, and what follows from it.

mod fold;
mod shard_nodes;
mod origins_by_version;

pub use fold::NodeId;
pub(in crate::bus) use fold::{Basis, Emptied, Folded, Folding, Parts, part};
pub(in crate::bus) use shard_nodes::Nodes;
