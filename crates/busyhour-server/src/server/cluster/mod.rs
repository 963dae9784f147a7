//! One node of a cluster: it keeps its lease, has its partitions, and hands them over
//! (`busyhour-cluster` has the protocol and why it is right). A server alone has none of this.
//!
//! Two threads: `bh-cluster` asks the database for the node, beat by beat, and `bh-partitions`
//! reads what partitions have, so that a long read delays no beat. In a simulation the database answers
//! at once, and what they do is done by tasks (`node_thread/node_turns.rs`). Who handles a message looks
//! at [`PartitionRoutes`](partition_routes::PartitionRoutes) only, which is a table of atomics.
//!
//! Requests for a partition that nobody serves wait here or at the node that has it next ([`kept`]).
//!
//! **Why nothing is lost when a partition moves.** A change counts itself under way before it
//! looks whether the partition is served here, and the node's thread takes the partition out of
//! service before it looks whether something is under way. So either the change is refused, or
//! the thread waits until it has its answer, and gives the partition away only then. Whoever
//! misses all of that is refused by the transaction, which names the grant.

pub(super) mod cluster_network;
pub(super) mod cluster_node;
pub(super) mod requests;
mod exchange;
mod live_exchange;
mod other_versions;
pub(super) mod live_states;
mod numbers;
mod inbox;
pub(super) mod kept;
mod direct;
pub(super) mod flows;
pub(super) mod node_link;
mod node_message;
mod node_questions;
pub(super) mod partition_routes;
mod node_thread;
mod partitions;
mod cluster_settings;
mod cluster_membership;
pub(super) mod view;

pub use cluster_membership::{ClusterMembership, NodeSocket};
pub use node_questions::{NodeQuestion, NodeSilence, OnNodeAnswer, OnNodeQuestion};
pub use view::{AddressOwner, ClusterNodeView, ClusterStats, NodeLife, NodeWay};
