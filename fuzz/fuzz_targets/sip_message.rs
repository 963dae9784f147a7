//! Any bytes as a SIP message: nothing panics, and what was read can be
//! written and read again.
#![no_main]

extern crate self as busyhour_server;

#[path = "../../crates/busyhour-server/src/proto/mod.rs"]
pub mod proto;
#[path = "../../crates/busyhour-server/tests/sip/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
