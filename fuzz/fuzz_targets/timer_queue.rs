//! Any bytes as operations on the timer queue: it agrees with a plain list.
#![no_main]

#[path = "../../crates/busyhour/tests/model/timer_queue.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::hold(bytes));
