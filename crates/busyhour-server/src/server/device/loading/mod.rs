//! Registrations that are read while the server serves (README.md beside it says how that stays right).

mod address_keys;
pub(in crate::server) mod unread_bindings;
