//! Tables of the file that hold more than plain settings: accounts, hints, lists, peers, tokens, domains, Graphite, the
//! worker pool.

pub(in crate::config) mod accounts;
pub(in crate::config) mod acme;
pub(in crate::config) mod certificates;
pub(in crate::config) mod hints;
pub(in crate::config) mod lists;
pub(in crate::config) mod peers;
pub(in crate::config) mod push;
pub(in crate::config) mod registrars;
pub(in crate::config) mod tokens;
pub(in crate::config) mod webhooks;
pub(in crate::config) mod domains;
pub(in crate::config) mod graphite;
pub(in crate::config) mod http_client;
mod runtime;
pub(in crate::config) mod entry;
