//! Any bytes as the files of an archive: nothing panics, nothing grows without
//! bound, and damage is one error after the last good record.
#![no_main]

extern crate self as busyhour_server;

#[path = "../../crates/busyhour-server/src/archive/mod.rs"]
pub mod archive;
#[path = "../../crates/busyhour-server/tests/archive/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
