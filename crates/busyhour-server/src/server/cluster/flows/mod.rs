//! Flows of this node and of others, and whether their connections stand.

pub(in crate::server) mod own_flows;
mod connection_checks;
pub(super) mod flows_by_branch;
pub(super) mod next_lives;
pub(super) mod registered_flows;
pub(super) mod unchecked_nodes;

#[cfg(test)]
mod tests;
