//! The HTTP interface and the HTTP client, over real connections.

#[path = "../support/authority.rs"]
mod authority;
#[path = "../support/exchange.rs"]
mod exchange;
#[path = "../support/http_receiver.rs"]
#[allow(dead_code)] // others use the rest
mod http_receiver;
#[path = "../support/ports.rs"]
#[allow(dead_code)] // others use the rest
mod ports;
#[path = "../support/waiting.rs"]
mod waiting;
mod api;
mod client;
mod connections;
mod settings;
