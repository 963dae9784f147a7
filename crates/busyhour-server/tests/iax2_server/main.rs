//! The IAX2 registrar, by frames of a client written from RFC 5456.
//!
//! The simulation runs `BUSYHOUR_SIM_SEEDS` seeds (25). A failure prints its
//! seed; `BUSYHOUR_SIM_FIRST` begins with another one.

mod capture;
mod conversation;
mod device;
#[path = "../support/exchange.rs"]
mod exchange;
mod faults;
mod host;
mod quotas;
#[path = "../sim/random.rs"]
mod random;
#[path = "../webhooks/scripted.rs"]
mod scripted;
mod spans;
mod wire;
mod world;
