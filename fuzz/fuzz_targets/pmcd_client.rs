//! Any bytes from a `pmcd`: nothing panics, memory stays within bounds, and the pieces in
//! which they come make no difference.
#![no_main]

#[path = "../../crates/busyhour-pcp/tests/archive/live_properties.rs"]
mod live_properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| live_properties::hold(bytes));
