//! Who may do what: accounts, passwords, nonces, and the end of an account.

pub(in crate::server) mod realm_accounts;
pub(in crate::server) mod accounts;
pub(in crate::server) mod account_policy;
mod live_policy;
pub(in crate::server) mod admission;
mod asking;
pub(super) mod changed_accounts;
pub(in crate::server) mod nonces;
pub(in crate::server) mod logins;
pub(in crate::server) mod failures;
pub(in crate::server) mod revocation;
pub(in crate::server) mod provision;
