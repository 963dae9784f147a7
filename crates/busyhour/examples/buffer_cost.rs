//! Repeats one use of pinned buffers as often as given, and nothing else, for
//! `scripts/count.sh buffer`, which counts instructions.
//!
//!     buffer_cost WAY COUNT

use busyhour::buffer::{BufferPool, Error};
use std::{env, hint::black_box, process::exit};

fn main() -> Result<(), Error> {
    let mut words = env::args().skip(1);
    let way = words.next().unwrap_or_default();
    let count = words.next().and_then(|word| word.parse::<u64>().ok());
    let count = count.unwrap_or_else(|| refuse("COUNT is a number"));
    let one = match way.as_str() {
        "nothing" => nothing,
        "pin-unpin" => pin_unpin,
        "find-unpin" => find_unpin,
        "alloc-clone-drop" => alloc_clone_drop,
        other => refuse(&format!("no such way: {other:?}")),
    };
    let pool = BufferPool::builder().budget_bytes(1 << 20).build()?;
    let packet = pool.copy_from(&[b'x'; BUFFER_BYTES])?;
    let inside = &raw const packet[BUFFER_BYTES / 2];
    (0..count).try_for_each(|_| one(black_box(&pool), black_box(inside)))
}

fn nothing(_: &BufferPool, _: *const u8) -> Result<(), Error> {
    Ok(())
}

fn pin_unpin(pool: &BufferPool, address: *const u8) -> Result<(), Error> {
    pool.pin(address)?;
    pool.unpin(address)
}

fn find_unpin(pool: &BufferPool, _: *const u8) -> Result<(), Error> {
    pool.unpin(black_box(pool.find(BUFFER_BYTES)?))
}

fn alloc_clone_drop(pool: &BufferPool, _: *const u8) -> Result<(), Error> {
    let mut buffer = pool.alloc(BUFFER_BYTES)?;
    buffer[0] = 1;
    let first = black_box(buffer.freeze());
    let second = black_box(first.clone());
    drop(first);
    drop(second);
    Ok(())
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}; usage: buffer_cost WAY COUNT");
    exit(2)
}

const BUFFER_BYTES: usize = 1024;
