//! With the system's allocator.

fn main() {
    engine_bytes::main();
}
