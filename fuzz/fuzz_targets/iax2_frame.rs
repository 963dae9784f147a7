//! Any bytes as an IAX2 frame: nothing panics, and what was read is written
//! back octet by octet.
#![no_main]

extern crate self as busyhour_server;

#[path = "../../crates/busyhour-server/src/proto/mod.rs"]
pub mod proto;
#[path = "../../crates/busyhour-server/tests/iax2/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
