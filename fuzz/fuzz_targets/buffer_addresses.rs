//! Bytes as operations on a pool of pinned buffers, right ones and wrong ones:
//! the pool agrees with a flat list after each.
#![no_main]

#[path = "../../crates/busyhour/tests/model/buffer.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
