//! Any bytes as a message that a proxy receives: what it forwards is sound, and nothing
//! is left of it.
#![no_main]

#[path = "../../crates/busyhour-proxy/tests/proxy/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
