//! The domains that are served, and how they name their users.

mod domains;
mod tenant;

pub use domains::Domains;
pub use tenant::{Tenant, UserNames};
