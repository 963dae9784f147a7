//! Any bytes as a SIP message: nothing panics, and a parsed message can be written
//! and parsed again.
#![no_main]

#[path = "../../crates/busyhour-sip/tests/sip/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
