//! Devices and their contacts, for people and programs.

mod list;
pub(in crate::server) mod search;
