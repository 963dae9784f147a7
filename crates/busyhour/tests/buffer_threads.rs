//! Threads that pin, unpin and release by addresses of every age.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use busyhour::buffer::{Buffer, BufferPool};

#[test]
fn every_pin_that_was_granted_can_be_taken_off_and_no_other() {
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
    assert_eq!(stats.allocated, 4 * ROUNDS as u64);
}

/// Publishes buffers under an own address, and pins whatever others published,
/// live or stale.
fn churn(pool: &BufferPool, addresses: &[AtomicUsize], worker: usize) {
    for round in 0..ROUNDS {
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

const ROUNDS: usize = 20_000;
