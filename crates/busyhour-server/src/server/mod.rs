//! The server: the registrar, the watchers and the store wired to the runtime.

mod config;
mod stats;

pub use config::{Authentication, Limits, ServerConfig, WatchPolicy};
pub use stats::{RegistrarStats, ServerStats, TrafficStats, WatchStats};

pub use crate::registrar::Policy as RegistrationPolicy;
