//! Settings that come over HTTP or from the configuration: mailboxes, hints and lists.

mod named_device;
mod overtaken;
mod setting_source;
pub(in crate::server) mod live_settings;
pub(in crate::server) mod mailboxes;
pub(in crate::server) mod hint;
pub(in crate::server) mod hints;
mod list_loops;
pub(in crate::server) mod lists;
