//! One source or account uses all it can of one resource. Meanwhile another
//! device registers, subscribes and is notified. There is one test for each row
//! of docs/limits.md, against the real program over real sockets.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/http_receiver.rs"]
#[allow(dead_code)] // others test the client with the rest
mod http_receiver;

mod acme;
mod bystander;
mod calls;
mod credentials;
mod devices;
mod http;
mod iax2;
mod lists;
mod logins;
mod queue;
mod registrar;
mod streams;
mod subscriptions;
mod tenants;
mod transactions;
mod unproven;

/// The configuration of every test in this folder; some add to it.
pub const ACCOUNTS: &str = "
[[account_range]]
prefix = \"user\"
count = 40
password = \"secret\"
";
