//! Domains as the command line, HTTP and the statistics see them.

use super::tenant_config::TenantConfig;
use serde::Serialize;

/// A domain, what it may have, and what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantView {
    /// How it is set up.
    #[serde(flatten)]
    pub config: TenantConfig,
    /// Whether the configuration file has it, so that it cannot be changed over HTTP.
    pub configured: bool,
    /// Whether its users are the accounts of the server, as in a domain of `sip.domains`.
    pub server_accounts: bool,
    /// What it has.
    #[serde(flatten)]
    pub used: TenantUse,
}

/// What a domain has now, and what was refused to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TenantUse {
    /// Accounts in the store.
    pub account_count: u64,
    /// Registered contacts.
    pub contact_count: u64,
    /// Subscriptions of its accounts.
    pub watcher_count: u64,
    /// Calls that its accounts have begun.
    pub call_count: u64,
    /// Packet memory that its requests hold.
    pub memory_bytes: u64,
    /// Registrations that were accepted for it.
    pub registrations: u64,
    /// Requests that were refused since it has its share or its quota.
    pub refused: u64,
}

/// What one domain has, for the statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TenantStats {
    /// The domain.
    pub name: String,
    /// What it has.
    #[serde(flatten)]
    pub used: TenantUse,
}
