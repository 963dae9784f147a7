#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// Examples are copied: each compiles without a warning.
#![doc(test(attr(deny(warnings))))]

mod member;
mod partition;
mod timing;
mod view;
mod tables;
mod assignment;
mod action;
mod node;
mod ownership;
mod live;
mod notices;
mod connection_ends;
mod kept_requests;
mod broker;
#[cfg(feature = "nats")]
mod pieces;
#[cfg(feature = "nats")]
mod nats;

pub use action::{Action, Reply, Route};
pub use assignment::assignment;
pub use broker::{Answered, Broker, BrokerError, BrokerMessage, Receive};
pub use connection_ends::ConnectionEnds;
pub use kept_requests::{Keeping, KeptPlace, KeptRequests};
pub use live::{
    Beacon, Entry, Incarnation, Key, LiveAction, LiveChange, LiveChanges, LiveMessage, LiveMirror,
    LiveOrigin, LiveOutbox, Part, PartRequest, Report, SharedAction, SharedStates, Value,
};
pub use member::{Failure, Grant, Member, NodeNumber};
#[cfg(feature = "nats")]
pub use nats::{NatsBroker, NatsError, NatsOptions, OnConnected};
pub use node::Node;
pub use notices::{Notice, Notices};
pub use ownership::Ownership;
pub use partition::{PARTITION_COUNT, Partition};
pub use tables::{Counted, InUse, Tables};
pub use timing::Timing;
pub use view::{Life, NodeView, PartitionView, View};
