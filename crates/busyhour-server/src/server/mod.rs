//! The server: the registrar, the watchers and the store wired to the runtime.

mod config;
mod network;
mod stats;

pub use config::{Authentication, Limits, ServerConfig};
pub use network::{Network, SendError};
pub use stats::{RegistrarStats, ServerStats, TrafficStats, WatchStats};

pub use crate::{
    registrar::{Flow, Policy as RegistrationPolicy},
    watch::Policy as WatchPolicy,
};
