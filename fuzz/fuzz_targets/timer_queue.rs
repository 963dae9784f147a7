//! Any bytes as operations on the timer queue: it agrees with a plain list.
#![no_main]

#[path = "../../crates/busyhour/tests/model/timer_queue.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (operations, _) = bytes.as_chunks();
    let decode = |&bits: &[u8; 8]| model::Operation::decode(u64::from_le_bytes(bits));
    model::run(operations.iter().map(decode));
});
