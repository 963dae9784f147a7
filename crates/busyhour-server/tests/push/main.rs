//! Telephones that sleep, and are woken when they are called (RFC 8599).

#[path = "../support/exchange.rs"]
mod exchange;
#[path = "../support/http_receiver.rs"]
#[allow(dead_code)] // others test the client with the rest
mod http_receiver;
#[path = "../webhooks/scripted.rs"]
mod scripted;
#[path = "../support/mod.rs"]
mod support;
#[path = "../calls/world.rs"]
#[allow(dead_code)] // calls need the rest
mod world;

mod behind;
mod calls;
mod services;
mod telephone;
