//! Any bytes as operations on the indexed heap: it agrees with a map.
#![no_main]

#[path = "../../crates/busyhour/tests/model/heap.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
