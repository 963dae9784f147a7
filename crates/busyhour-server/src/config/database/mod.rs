//! Which database, and which other servers use it, too.

pub(super) mod cluster;
mod store_url;
