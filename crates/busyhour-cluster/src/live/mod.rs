//! Live states of one node, and how other nodes have the same ones, over a network that may lose,
//! repeat and reorder. See "Live states" in the crate's README.

mod incarnation;
mod message;
mod codec;
mod origin;
mod outbox;
mod beacon_pace;
mod mirror;
mod by_partition;
mod shared;

pub use codec::LiveMessage;
pub use incarnation::Incarnation;
pub use message::{Beacon, Entry, Key, LiveChange, LiveChanges, Part, PartRequest, Value};
pub use mirror::{LiveAction, LiveMirror};
pub use origin::LiveOrigin;
pub use outbox::LiveOutbox;
pub use shared::{Report, SharedAction, SharedStates};
