//! SIP over connections: the state machine alone, real sockets, and TLS.

#[path = "../support/authority.rs"]
mod authority;
mod client;
#[path = "../support/exchange.rs"]
mod exchange;
mod greedy;
mod calls;
mod connection;
mod flows;
mod frames;
mod server;
mod sockets;
mod site;
mod peers;
mod outgoing;
mod tls;
mod web_socket;
