//! How a pool ends, and the state that it needs for that.

mod shutdown;
mod ending;
mod in_flight_push;
mod registry;
mod subscriptions;
pub(in crate::pool) mod labelled;

pub(crate) use in_flight_push::InFlightPush;
pub(in crate::pool) use in_flight_push::InFlightPushes;
pub(crate) use registry::EntityRegistry;
pub use shutdown::{Leftover, ShutdownReport};
pub(crate) use subscriptions::Subscriptions;
pub use subscriptions::Undelivered;
