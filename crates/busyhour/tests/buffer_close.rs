//! A pool's address space is unmapped with its last handle, or with the last buffer that
//! outlives the pool.
//!
//! This is a test program of its own, since it looks at the mappings of the whole
//! process.

#![cfg(target_os = "linux")]

use busyhour::buffer::BufferPool;
use std::fs;

/// Whether anything is mapped at `address`.
fn is_mapped(address: usize) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let range = line.split(' ').next().unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&address)
    })
}

#[test]
fn a_closed_pool_leaves_no_address_space_mapped() {
    let pool = BufferPool::builder().build().unwrap();
    let packet = pool.copy_from(b"packet").unwrap();
    let address = packet.as_ptr().addr();
    assert!(is_mapped(address));
    drop(packet);
    drop(pool);
    assert!(!is_mapped(address), "unmapped with the last handle");

    let pool = BufferPool::builder().build().unwrap();
    let packets = [b"first ", b"second"].map(|bytes| pool.copy_from(bytes).unwrap());
    let address = packets[0].as_ptr().addr();
    drop(pool);
    let [first, second] = packets;
    drop(first);
    assert_eq!(&*second, b"second");
    assert!(is_mapped(address));
    drop(second);
    assert!(!is_mapped(address), "unmapped with the last buffer");
}
