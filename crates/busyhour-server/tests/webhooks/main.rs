//! Changes that are posted to URLs: to a scripted client in virtual time, and by the program to
//! real receivers.

#[path = "../support/http_receiver.rs"]
#[allow(dead_code)] // others test the client with the rest
mod http_receiver;
#[path = "../support/mod.rs"]
mod support;

mod program;
mod scripted;
mod virtual_time;
