//! SIP over connections: the state machine alone, real sockets, and TLS.

mod client;
mod greedy;
mod connection;
mod flows;
mod server;
mod sockets;
mod tls;
