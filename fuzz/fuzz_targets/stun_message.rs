//! Any bytes as STUN: nothing panics, and an answer is valid, short and never gets an
//! answer itself.
#![no_main]

#[path = "../../crates/busyhour-sip/tests/stun/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
