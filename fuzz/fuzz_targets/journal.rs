//! Any bytes as the journal of a database: nothing panics, and what is found is in order and without a
//! gap.
#![no_main]

#[path = "../../crates/busyhour-store/tests/model/journal.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
