//! Bytes as valid and invalid operations on a pool of pinned buffers: after each
//! operation the pool agrees with a flat list.
#![no_main]

#[path = "../../crates/busyhour/tests/model/buffer.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
