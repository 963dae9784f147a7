//! Any bytes as an IAX2 frame: nothing panics, and what was read is written
//! back octet by octet.
#![no_main]

#[path = "../../crates/busyhour-iax2/tests/frames/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
