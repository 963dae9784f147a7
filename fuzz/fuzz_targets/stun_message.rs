//! Any bytes as STUN: nothing panics, and an answer is sound, short and never
//! answered itself.
#![no_main]

extern crate self as busyhour_server;

#[path = "../../crates/busyhour-server/src/proto/mod.rs"]
pub mod proto;
#[path = "../../crates/busyhour-server/tests/stun/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
