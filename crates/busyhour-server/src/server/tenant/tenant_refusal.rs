//! Why a domain is not set up or removed.

use busyhour_store::Refused;
use thiserror::Error;

/// Why a domain is not set up or removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TenantRefusal {
    /// Something is wrong with it.
    #[error("{0}")]
    Mistakes(String),
    /// Another domain has this host.
    #[error("`{0}` is a host of the domain `{1}`")]
    Host(String, String),
    /// An alias is one of the server's own domains.
    #[error("aliases: `{0}` is one of sip.domains")]
    OwnHost(String),
    /// Another domain has this realm.
    #[error("realm: `{0}` is the realm of {1}")]
    Realm(String, String),
    /// The configuration file has it.
    #[error("domain {0} is defined in the configuration file: change it there")]
    Configured(String),
    /// There are as many as may be.
    #[error("there are {0} domains already: remove some, or raise limits.domains")]
    Full(usize),
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}
