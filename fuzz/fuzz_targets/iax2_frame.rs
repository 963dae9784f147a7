//! Any bytes as an IAX2 frame: nothing panics, and writing the parsed frame gives the
//! same octets.
#![no_main]

#[path = "../../crates/busyhour-iax2/tests/frames/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
