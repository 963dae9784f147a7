//! Any bytes as the files of an archive: nothing panics, memory stays within bounds,
//! and damage is one error after the last good record.
#![no_main]

#[path = "../../crates/busyhour-pcp/tests/archive/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
