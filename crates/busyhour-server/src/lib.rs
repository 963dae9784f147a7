//! The Busyhour server: SIP registrations, presence and device state on the
//! `busyhour` library.

pub mod store;
pub mod server;
