//! Any text as a target and as times of a Graphite request: nothing panics, and the
//! answer stays within the limits.
#![no_main]

#[path = "../../crates/busyhour-graphite/tests/graphite/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
