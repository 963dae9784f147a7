//! What is set by HTTP and by the configuration: mailboxes and hints.

pub(in crate::server) mod mailboxes;
pub(in crate::server) mod hint;
pub(in crate::server) mod hints;
