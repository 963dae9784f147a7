//! Any bytes as operations on the indexed heap: it agrees with a map.
#![no_main]

#[path = "../../crates/busyhour/tests/model/heap.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (operations, _) = bytes.as_chunks();
    let mut pair = model::Pair::new(busyhour::heap::Heap::min());
    for &bits in operations {
        pair.apply(&model::Operation::decode(u32::from_le_bytes(bits)));
    }
    assert!(pair.drain().is_sorted());
});
