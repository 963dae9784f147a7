//! Devices and their contacts, for people and programs.

pub(in crate::server) mod changed_devices;
pub(in crate::server) mod device_index;
pub(in crate::server) mod device_search;
mod gathering;
mod index_rows;
mod list;
mod row_content;
mod row_search;
pub(in crate::server) mod search;
