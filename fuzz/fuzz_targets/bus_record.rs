//! Any bytes as a record of the bus: nothing panics, what was read is within
//! the limits, and it is written back byte by byte.
#![no_main]

#[path = "../../crates/busyhour/tests/model/record.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
