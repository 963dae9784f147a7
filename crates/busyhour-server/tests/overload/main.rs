//! More than a server has time for.

#[path = "../streams/client.rs"]
#[allow(dead_code)] // others use the rest
mod client;
#[path = "../support/exchange.rs"]
mod exchange;
#[path = "../support/waiting.rs"]
mod waiting;
mod calls;
mod requests;
