//! What the node's thread is told and asked.

pub(super) mod node_inbox;
pub(super) mod operator_wish;
