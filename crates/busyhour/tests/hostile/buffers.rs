//! Buffers: ranges of the user's types, owners of adopted bytes, and buffers that outlive
//! everything else.

use crate::watchdog::watched;
use busyhour::buffer::{Buffer, BufferPool};
use bytes::Bytes;
use std::{
    ops::{Bound, RangeBounds},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn pool() -> BufferPool {
    BufferPool::builder().budget_bytes(1 << 20).build().unwrap()
}

#[test]
fn an_invalid_range_panics_and_keeps_the_buffer() {
    let buffer = pool().copy_from(b"packet").unwrap();
    let ranges: [(Bound<usize>, Bound<usize>); 5] = [
        (Bound::Unbounded, Bound::Included(usize::MAX)),
        (Bound::Excluded(usize::MAX), Bound::Unbounded),
        (Bound::Excluded(usize::MAX), Bound::Included(usize::MAX)),
        (Bound::Included(4), Bound::Excluded(3)),
        (Bound::Unbounded, Bound::Excluded(7)),
    ];
    for range in ranges {
        let slice = catch_unwind(AssertUnwindSafe(|| buffer.slice(range)));
        assert!(slice.is_err(), "{range:?}");
    }
    assert_eq!(&*buffer.slice(..=5), b"packet");
    assert!(buffer.slice(6..).is_empty());
}

/// A user's range whose bounds panic or differ from call to call.
struct Fickle(AtomicUsize);

impl RangeBounds<usize> for Fickle {
    fn start_bound(&self) -> Bound<&usize> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Bound::Included(&5),
            _ => panic!("on purpose, in a bound"),
        }
    }

    fn end_bound(&self) -> Bound<&usize> {
        Bound::Included(&usize::MAX)
    }
}

#[test]
fn a_range_may_do_anything() {
    let buffer = pool().copy_from(b"packet").unwrap();
    let fickle = Fickle(AtomicUsize::new(0));
    for _ in 0..4 {
        assert!(
            catch_unwind(AssertUnwindSafe(
                || buffer.slice(Fickle(AtomicUsize::new(1)))
            ))
            .is_err()
        );
        assert!(
            catch_unwind(AssertUnwindSafe(
                || buffer.slice((fickle.start_bound(), fickle.end_bound()))
            ))
            .is_err()
        );
    }
    assert_eq!(&*buffer, b"packet");
}

/// Adopted bytes are dropped by the thread that drops the last handle; then their owner
/// may use any pool.
struct Owner {
    pool: BufferPool,
    dropped: Arc<AtomicUsize>,
    panics: bool,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"from elsewhere"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let own = self.pool.copy_from(b"in a drop").unwrap();
        self.pool.pin(own.as_ptr()).unwrap();
        self.pool.unpin(own.as_ptr()).unwrap();
        let _looked = (self.pool.stats(), self.pool.dump(), self.pool.trim());
        self.dropped.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "on purpose, in an owner's drop");
    }
}

#[test]
fn an_owner_of_adopted_bytes_may_do_anything_when_it_is_dropped() {
    for panics in [false, true] {
        watched("an owner of adopted bytes", || {
            let (pool, dropped) = (pool(), Arc::new(AtomicUsize::new(0)));
            let owner = Owner {
                pool: pool.clone(),
                dropped: Arc::clone(&dropped),
                panics,
            };
            let buffer = Buffer::from(Bytes::from_owner(owner));
            let part = buffer.slice(5..);
            drop(buffer);
            assert_eq!(dropped.load(Ordering::Relaxed), 0);
            let outcome = catch_unwind(AssertUnwindSafe(|| drop(part)));
            assert_eq!(
                (outcome.is_err(), dropped.load(Ordering::Relaxed)),
                (panics, 1)
            );
            drop(pool.copy_from(b"it works").unwrap());
            assert_eq!(pool.live_count(), 0);
        });
    }
}

/// Each of a pool's last handle and its last buffer is dropped by a thread that is
/// ending.
#[test]
fn a_pool_may_end_inside_a_thread_that_ends() {
    thread_local! {
        static LAST: std::cell::RefCell<Vec<(Option<BufferPool>, Buffer)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    watched("a pool that ends with a thread", || {
        for with_pool in [false, true] {
            let pool = pool();
            let ends = thread::spawn(move || {
                let buffer = pool.copy_from(b"packet").unwrap();
                let kept = with_pool.then(|| pool.clone());
                LAST.with(|last| last.borrow_mut().push((kept, buffer)));
            });
            ends.join().unwrap();
        }
    });
}
