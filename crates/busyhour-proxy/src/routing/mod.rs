//! What a request says about its way, and why it is refused: RFC 3261 §16.3 and §16.4,
//! RFC 5393, RFC 4028 §8.1; and a flow as it is kept. Pure functions; nothing is kept here.

mod compact_flow;
mod identity;
mod refusal;
mod branch_parameter;
mod loops;
mod route;
mod session;

pub(crate) use branch_parameter::BranchParameter;
pub(crate) use compact_flow::CompactFlow;
pub use identity::Identity;
pub use loops::LoopDetection;
pub use refusal::RequestRefusal;
pub(crate) use route::RouteRest;
pub use route::Routing;
pub(crate) use session::{SESSION_SHORTEST_S, SessionRequest};
