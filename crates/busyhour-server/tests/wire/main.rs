//! How the server names itself in messages, and where it sends its requests:
//! the real program over real sockets.

#[path = "../support/mod.rs"]
mod support;

mod local_address;
mod log;
mod long;
mod malformed;
mod phone;
mod revocation;
mod target;
