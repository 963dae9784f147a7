//! Settings that come over HTTP or from the configuration: mailboxes and hints.

pub(in crate::server) mod mailboxes;
pub(in crate::server) mod hint;
pub(in crate::server) mod hints;
