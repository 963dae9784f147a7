//! Any bytes as a token of Record-Route: none is believed that was not signed, and each
//! signed one is read as it was written.
#![no_main]

#[path = "../../crates/busyhour-proxy/tests/dialogs/token_properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
