//! Any text as a target and as times of a Graphite request: nothing panics,
//! and what is answered stays within the limits.
#![no_main]

extern crate self as busyhour_server;

#[path = "../../crates/busyhour-server/src/graphite/mod.rs"]
pub mod graphite;
#[path = "../../crates/busyhour-server/tests/graphite/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold(bytes));
