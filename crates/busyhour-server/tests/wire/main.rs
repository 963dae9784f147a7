//! What the wire says of us, and where our requests go: the real program over
//! real sockets.

#[path = "../support/mod.rs"]
mod support;

mod local_address;
mod log;
mod long;
mod malformed;
mod phone;
mod revocation;
mod target;
