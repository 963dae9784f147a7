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
    /// What was refused since it has its quota or its share: the sum of the following.
    pub refused: u64,
    /// Accounts beyond `max_accounts`.
    pub refused_accounts: u64,
    /// Registrations with contacts beyond `max_contacts`.
    pub refused_contacts: u64,
    /// Registrations beyond `registrations_per_second`.
    pub refused_registrations: u64,
    /// Subscriptions beyond `max_watchers` or its share.
    pub refused_watchers: u64,
    /// Calls beyond `max_calls`.
    pub refused_calls: u64,
    /// Requests beyond `memory_kib` or its share of the memory and places of requests.
    pub refused_memory: u64,
    /// Requests beyond its share of anything else.
    pub refused_other_share: u64,
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
