//! The server: the registrar, the watchers and the store wired to the runtime.

mod config;
mod stats;

pub use config::{Authentication, Limits, RegistrationPolicy, ServerConfig, WatchPolicy};
pub use stats::{RegistrarStats, ServerStats, TrafficStats, WatchStats};
