//! Threads pin, unpin and release by addresses of live and of released buffers.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use busyhour::buffer::{Buffer, BufferPool, Error};

#[test]
fn every_granted_pin_can_be_removed_and_no_other() {
    let pool = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    let addresses: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (pool, addresses, barrier) = (&pool, &addresses, &barrier);
            scope.spawn(move || {
                barrier.wait();
                churn(pool, addresses, worker);
            });
        }
    });
    let stats = pool.stats();
    assert_eq!((stats.live_count, stats.live_bytes), (0, 0));
    assert_eq!(stats.allocated, 4 * rounds() as u64);
}

fn at(address: usize) -> *const u8 {
    std::ptr::without_provenance(address)
}

/// Publishes the addresses of its own buffers, and pins those that other
/// threads published, whether the buffers are live or not.
fn churn(pool: &BufferPool, addresses: &[AtomicUsize], worker: usize) {
    for round in 0..rounds() {
        let buffer = pool.copy_from(&[worker as u8; 100]).unwrap();
        addresses[worker].store(buffer.as_ptr().addr(), Ordering::Release);
        let other = addresses[(worker + round) % addresses.len()].load(Ordering::Acquire);
        let interior = std::ptr::without_provenance(other + round % 100);
        if pool.pin(interior).is_ok() {
            drop(buffer);
            pool.unpin(interior).unwrap();
        } else if let Ok(held) = pool.buffer_at(interior) {
            assert!(held.iter().all(|byte| *byte == held[0]));
        }
    }
}

#[test]
fn wrong_addresses_from_racing_threads_change_nothing() {
    let pool = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    let held = pool.copy_from(&[7; 100]).unwrap();
    let good = held.as_ptr().addr();
    let alone = pool.copy_from(&[8; 100]).unwrap();
    // No other buffer has this size, so the address stays stale.
    let stale = pool.copy_from(&[9; 3000]).unwrap().as_ptr().addr();
    for _ in 0..PINS {
        pool.pin(at(good)).unwrap();
    }
    let before = pool.stats();
    let refused = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..rounds() {
                    let interior = at(good + round % 100);
                    pool.pin(interior).unwrap();
                    pool.unpin(interior).unwrap();
                }
            });
        }
        let vandal = || {
            let local = 0_u8;
            let wrong = [
                0,
                (&raw const local).addr(),
                usize::MAX,
                stale,
                stale + 2999,
                // Addresses in the rest of the buffer's block, and before it.
                good + 100,
                good - 1,
            ];
            let mut refused = 0;
            for round in 0..rounds() {
                let address = at(wrong[round % wrong.len()]);
                refused += u64::from(pool.pin(address).is_err());
                refused += u64::from(pool.unpin(address).is_err());
                refused += u64::from(pool.buffer_at(address).is_err());
                let unpinned = pool.unpin(alone.as_ptr());
                assert!(matches!(unpinned, Err(Error::NotPinned { .. })));
            }
            refused
        };
        let vandals = [scope.spawn(vandal), scope.spawn(vandal)];
        vandals.map(|vandal| vandal.join().unwrap())
    });
    assert_eq!(refused, [3 * rounds() as u64; 2]);
    let after = pool.stats();
    assert_eq!(
        (after.live_count, after.live_bytes),
        (before.live_count, before.live_bytes)
    );
    assert_eq!(after.foreign_addresses, 2 * 4 * rounds() as u64);
    assert!(held.iter().all(|byte| *byte == 7) && alone.iter().all(|byte| *byte == 8));
    for _ in 0..PINS {
        pool.unpin(at(good)).unwrap();
    }
    assert!(matches!(pool.unpin(at(good)), Err(Error::NotPinned { .. })));
}

#[test]
fn buffers_released_by_another_thread_come_back() {
    let pool = BufferPool::builder().budget_bytes(1 << 18).build().unwrap();
    let (sender, receiver) = mpsc::sync_channel::<Buffer>(64);
    let consumer = thread::spawn(move || receiver.iter().map(|b| b[0] as u64).sum::<u64>());
    for _ in 0..20_000 {
        sender.send(pool.copy_from(&[1; 1000]).unwrap()).unwrap();
    }
    drop(sender);
    assert_eq!(consumer.join().unwrap(), 20_000);
    assert_eq!(pool.live_count(), 0);
}

#[test]
fn buffers_outlive_their_pool() {
    let pool = BufferPool::builder().build().unwrap();
    let held: Vec<Buffer> = (0..100u8)
        .map(|byte| pool.copy_from(&[byte; 700]).unwrap())
        .collect();
    drop(pool);
    thread::spawn(move || {
        for (index, buffer) in held.iter().enumerate() {
            assert!(buffer.iter().all(|byte| *byte == index as u8));
        }
    })
    .join()
    .unwrap();
}

/// How many rounds each thread makes; a memory checker needs fewer.
fn rounds() -> usize {
    let divisor = std::env::var("BUSYHOUR_TEST_DIVISOR").ok();
    20_000
        / divisor
            .and_then(|divisor| divisor.parse().ok())
            .unwrap_or(1)
}
/// The number of pins that must remain after the wrong ones were refused.
const PINS: usize = 3;
