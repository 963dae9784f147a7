//! Domains with accounts of their own: the real program over real sockets and HTTP.

#[path = "../support/mod.rs"]
mod support;

mod api;
mod names;
mod quotas;
mod telephone;
mod users;
mod watchers;
