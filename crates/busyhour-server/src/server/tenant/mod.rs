//! Domains with accounts and settings of their own: what they may have, and what they have.

pub(in crate::server) mod tenant_refusal;
pub(in crate::server) mod tenant_config;
pub(in crate::server) mod registration_rate;
pub(in crate::server) mod tenant_quota;
pub(in crate::server) mod tenants;
pub(in crate::server) mod call_count;
pub(in crate::server) mod tenant_view;
mod provision;
