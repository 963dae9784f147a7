//! The proxy: one table of response contexts (RFC 3261 §16), pure.

mod policy;
mod target;
mod edge;
mod actions;
mod event;
mod stats;
mod slots;
mod work;
mod best_response;
mod branch;
mod context;
mod forwarding;
mod responding;
mod cancelling;
mod table;

pub use actions::{Actions, Outbound};
pub use edge::{Edge, Passage};
pub use event::{Event, EventKind, FailureCause};
pub use policy::Policy;
pub use slots::TransactionId;
pub use stats::ProxyStats;
pub use table::{Begun, Inbound, Proxy, Received};
pub use target::{Fallback, Hops, Late, NextHop, Occasion, Target, TargetSet, Way, as_request_uri};
pub use work::{Answer, BranchId};
