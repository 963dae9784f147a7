//! Any bytes as a record of the bus: nothing panics, the parsed record is within the
//! limits, and writing it gives the same bytes.
#![no_main]

#[path = "../../crates/busyhour/tests/model/record.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
