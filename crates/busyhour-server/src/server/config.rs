//! What an operator may choose about the server, already checked and typed.

use crate::{
    registrar::Policy as RegistrationPolicy, store::Account, watch::Policy as WatchPolicy,
};
use std::net::SocketAddr;

/// The whole configuration of a server.
///
/// ```
/// use busyhour_server::server::{Authentication, ServerConfig};
///
/// let config = ServerConfig {
///     domains: vec!["example.com".to_owned()],
///     authentication: Authentication::Open,
///     ..ServerConfig::default()
/// };
/// assert_eq!(config.registration.expires_default.as_secs(), 3600);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerConfig {
    /// Hosts whose addresses of record are ours. Empty: whatever host a
    /// request names, as a server without a configured domain must.
    pub domains: Vec<String>,
    /// Who may register and watch.
    pub authentication: Authentication,
    /// Accounts beside those in the store; the store's win.
    pub accounts: Vec<Account>,
    /// Address to name in Contact and Via when ours differs from the socket's,
    /// as it does behind a port forwarding.
    pub advertised: Option<SocketAddr>,
    /// Lifetimes and counts of bindings.
    pub registration: RegistrationPolicy,
    /// Lifetimes and retries of subscriptions.
    pub watch: WatchPolicy,
    /// Bounds of every table.
    pub limits: Limits,
}

/// Who may register and watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Anybody, by the operator's explicit choice.
    Open,
    /// Users of this realm who know their password (RFC 7616, RFC 8760).
    Digest {
        /// The realm named in the challenge.
        realm: String,
    },
}

impl Default for Authentication {
    fn default() -> Self {
        Self::Digest {
            realm: "busyhour".to_owned(),
        }
    }
}

/// Bounds of every table; what does not fit is refused and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Addresses of record with bindings or work in progress.
    pub devices_max: usize,
    /// Responses kept for retransmitted requests.
    pub transactions_max: usize,
    /// Subscriptions.
    pub watchers_max: usize,
    /// Datagrams that may wait for one device.
    pub device_queue_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices_max: 2_000_000,
            transactions_max: 65_536,
            watchers_max: 200_000,
            device_queue_max: 32,
        }
    }
}
