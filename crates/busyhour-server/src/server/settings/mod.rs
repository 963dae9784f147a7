//! Settings that come over HTTP or from the configuration: mailboxes, hints and lists.

mod named_device;
mod overtaken;
pub(in crate::server) mod mailboxes;
pub(in crate::server) mod hint;
pub(in crate::server) mod hints;
pub(in crate::server) mod lists;
