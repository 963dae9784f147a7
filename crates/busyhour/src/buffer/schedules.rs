//! Schedules of a pool's end: handles of the pool, buffers, and threads with a
//! cache of free blocks end in any order, and the last of them frees the
//! memory.

use super::{Buffer, BufferPool};
use crate::sync::{scheduled::explore, thread};
use std::sync::Arc;

fn pool() -> BufferPool {
    BufferPool::builder().budget_bytes(1 << 20).build().unwrap()
}

/// The last handle of the pool is dropped while threads drop buffers, each with
/// or without a cache of its own.
#[test]
fn shuttle_the_last_handle_meets_the_last_buffers() {
    explore(1_000, || {
        // A thread's cache ends with the thread, so another thread than this
        // one uses the pool.
        let user = thread::spawn(|| {
            let pool = pool();
            let store = Arc::downgrade(&pool.store);
            let packets = [b"first ", b"second"].map(|bytes| pool.copy_from(bytes).unwrap());
            let threads = share(&pool, packets);
            drop(pool);
            (store, threads)
        });
        let (store, threads) = user.join().unwrap();
        let _ended = threads.map(|thread| thread.join().unwrap());
        let is_mapped = store.upgrade().is_some();
        assert!(!is_mapped, "the pool's memory outlives its last buffer");
    });
}

/// Threads that hold the last buffers of the pool.
fn share(pool: &BufferPool, [first, second]: [Buffer; 2]) -> [thread::JoinHandle<()>; 2] {
    let (pool, slice) = (pool.clone(), first.slice(1..));
    let with_cache = thread::spawn(move || {
        let own = pool.copy_from(b"own").unwrap();
        drop(pool);
        assert_eq!(&*slice, b"irst ");
        drop((slice, own));
    });
    let without = thread::spawn(move || {
        assert_eq!((&*first, &*second), (&b"first "[..], &b"second"[..]));
        drop((first, second));
    });
    [with_cache, without]
}

/// Pins by address meet the drop of the handle from which the address came, and
/// the next use of the same block.
#[test]
fn shuttle_a_pin_by_address_keeps_what_it_found() {
    explore(1_000, || {
        let pool = pool();
        let packet = pool.copy_from(b"packet").unwrap();
        let address = packet.as_ptr().addr();
        let pinner = {
            let pool = pool.clone();
            thread::spawn(move || {
                let address = std::ptr::without_provenance::<u8>(address);
                let found: Option<Buffer> = pool.buffer_at(address).ok();
                found.inspect(|found| {
                    let text = &found[..6];
                    assert!(text == b"packet" || text == b"reborn", "{text:?}");
                });
            })
        };
        drop(packet);
        let reborn = pool.copy_from(b"reborn").unwrap();
        assert_eq!(&*reborn, b"reborn");
        pinner.join().unwrap();
        drop(reborn);
        assert_eq!(pool.live_count(), 0);
    });
}
