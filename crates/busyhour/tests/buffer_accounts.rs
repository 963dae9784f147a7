//! What a pool reports about its memory, and that it returns unused memory to
//! the system.

use std::time::Duration;

use busyhour::{
    buffer::{Buffer, BufferPool, Error},
    clock::{Clock, UnixTime},
};
use bytes::Bytes;

#[test]
fn a_dump_names_owners_and_the_oldest_first() {
    let clock = Clock::simulated(UnixTime::from_secs(0));
    let pool = BufferPool::builder().clock(clock.clone()).build().unwrap();
    let decoder = pool.owned_by("decoder").unwrap();
    let network = pool.owned_by("network").unwrap();
    let old = decoder.copy_from(&[0; 100]).unwrap();
    clock.as_virtual().unwrap().advance(Duration::from_secs(60));
    pool.stats();
    let young: Vec<Buffer> = (0..3)
        .map(|_| network.copy_from(&[0; 100_000]).unwrap())
        .collect();
    clock.as_virtual().unwrap().advance(Duration::from_secs(1));
    pool.pin(&raw const old[99]).unwrap();

    let dump = pool.dump();
    let names: Vec<&str> = dump.owners.iter().map(|o| o.owner.as_str()).collect();
    assert_eq!(names, ["network", "decoder"]);
    assert_eq!(dump.owners[0].live_count, 3);
    assert_eq!(dump.owners[0].live_bytes, 3 * 131_072);
    assert_eq!(dump.oldest[0].address, old.as_ptr().addr());
    assert_eq!((dump.oldest[0].handles, dump.oldest[0].pins), (1, 1));
    assert_eq!(dump.oldest[0].age.as_secs(), 60);
    assert_eq!(dump.owners[0].oldest_age.as_millis() / 100, 9);
    assert!(dump.to_string().contains("decoder"), "{dump}");

    pool.unpin(&raw const old[0]).unwrap();
    drop((old, young));
    assert_eq!(pool.dump().owners, []);
}

#[test]
fn finds_are_counted_and_buffers_that_are_pinned() {
    let pool = BufferPool::builder().build().unwrap();
    let counts = || {
        (
            pool.stats().allocated,
            pool.stats().found,
            pool.stats().pinned,
        )
    };
    let value = pool.copy_from(b"value").unwrap();
    assert_eq!(counts(), (1, 0, 0));
    for _ in 0..3 {
        pool.pin(value.as_ptr()).unwrap();
    }
    assert_eq!(counts(), (1, 0, 1), "once for each buffer");
    for _ in 0..3 {
        pool.unpin(value.as_ptr()).unwrap();
    }
    // A small one, a large one, and one of a thread that then ends.
    let found = [10, 3_000_000].map(|len| pool.find(len).unwrap());
    let of_thread = pool.clone();
    let thread = std::thread::spawn(move || of_thread.find(10).unwrap().expose_provenance());
    let third = std::ptr::with_exposed_provenance(thread.join().unwrap());
    assert_eq!(counts(), (4, 3, 1));
    pool.pin(found[0]).unwrap();
    assert_eq!(counts(), (4, 3, 2));
    pool.unpin(found[0]).unwrap();
    for address in [found[0].cast_const(), found[1].cast_const(), third] {
        pool.unpin(address).unwrap();
    }
    assert_eq!(counts(), (4, 3, 2), "they only grow");
}

#[test]
fn one_buffer_in_three_is_traced_until_it_is_released() {
    let pool = BufferPool::builder().trace_one_in(3).build().unwrap();
    let held: Vec<Buffer> = (0..30).map(|_| pool.copy_from(&[0; 10]).unwrap()).collect();
    let traced = |pool: &BufferPool| {
        let dump = pool.dump();
        dump.oldest.iter().filter(|b| b.trace.is_some()).count()
    };
    assert_eq!(traced(&pool), 10);
    drop(held);
    assert_eq!(traced(&pool), 0);
}

#[test]
fn exactly_every_nth_buffer_is_traced_whatever_its_length() {
    for one_in in [1, 2, 15, 16, 17, 20, 33, 100] {
        for len in [10, 100_000] {
            let pool = BufferPool::builder().trace_one_in(one_in).build().unwrap();
            for nth in 1..=200 {
                let held = pool.copy_from(&vec![0; len]).unwrap();
                let is_traced = pool.dump().oldest[0].trace.is_some();
                assert_eq!(is_traced, nth % one_in == 0, "one in {one_in}, {nth}");
                drop(held);
            }
        }
    }
}

#[test]
fn the_high_water_mark_of_the_budget_stays_when_memory_is_returned() {
    const LONG: u64 = 131_072;
    let pool = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    let used = || (pool.stats().used_bytes, pool.stats().used_bytes_high_water);
    assert_eq!(used(), (0, 0));
    let mut held: Vec<Buffer> = Vec::new();
    for count in 1..=3 {
        held.push(pool.copy_from(&[0; 100_000]).unwrap());
        assert_eq!(used(), (count * LONG, count * LONG));
    }
    held.truncate(1);
    assert_eq!(used(), (LONG, 3 * LONG));
    held.push(pool.copy_from(&[0; 100_000]).unwrap());
    assert_eq!(used(), (2 * LONG, 3 * LONG));
    assert!(pool.alloc(1 << 20).is_err(), "over the budget");
    assert_eq!(
        used().1,
        3 * LONG,
        "a refused buffer does not count as used"
    );
    held.extend((0..3).map(|_| pool.copy_from(&[0; 100_000]).unwrap()));
    assert_eq!(used(), (5 * LONG, 5 * LONG));
}

#[test]
fn memory_of_a_burst_is_returned() {
    let pool = BufferPool::builder().build().unwrap();
    let burst: Vec<Buffer> = (0..100_000)
        .map(|_| pool.copy_from(&[1; 700]).unwrap())
        .collect();
    assert!(pool.stats().resident_bytes >= 70_000_000);
    drop(burst);
    assert!(pool.stats().resident_bytes < 4 << 20, "{:?}", pool.stats());
    pool.trim();
    assert_eq!(pool.stats().resident_bytes, 0);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn a_budget_refuses_when_it_is_used_up_and_grants_again_after_a_release() {
    let pool = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    for len in [64, 1000, 5000, 65_536, 100_000, 1 << 20] {
        let held: Vec<_> = std::iter::from_fn(|| pool.alloc(len).ok()).collect();
        assert!(!held.is_empty(), "{len}");
        let error = pool.alloc(len).unwrap_err();
        assert!(matches!(error, Error::OverBudget { .. }), "{error}");
    }
    assert_eq!(pool.stats().refused, 12);
    assert!(matches!(pool.alloc(1 << 33), Err(Error::TooLong { .. })));
}

#[test]
fn a_refusal_names_the_requested_the_used_and_the_allowed_bytes() {
    let pool = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    let held = pool.alloc(1 << 19).unwrap();
    let refused = pool.alloc(600_000).unwrap_err();
    let expected = Error::OverBudget {
        requested_bytes: 600_000,
        used_bytes: 1 << 19,
        budget_bytes: 1 << 20,
    };
    assert_eq!(refused, expected);
    assert_eq!(pool.stats().budget_bytes, 1 << 20);
    let refused = pool.alloc((1 << 32) + 1).unwrap_err();
    let expected = Error::TooLong {
        requested_bytes: (1 << 32) + 1,
        max_bytes: (1 << 32) - 1,
    };
    assert_eq!(refused, expected);
    drop(held);
    assert_eq!(pool.stats().used_bytes, 0);
}

#[test]
fn bytes_are_converted_in_both_directions_without_a_copy() {
    let pool = BufferPool::builder().build().unwrap();
    let buffer = pool.copy_from(b"from the pool").unwrap();
    let address = buffer.as_ptr();
    let bytes = Bytes::from(buffer);
    assert_eq!(bytes.as_ptr(), address);
    assert_eq!(pool.live_count(), 1);
    assert_eq!(
        pool.buffer_at(bytes[5..].as_ptr()).unwrap(),
        *b"from the pool"
    );

    let adopted = Buffer::from(bytes.slice(5..));
    assert_eq!(adopted.as_ptr(), bytes[5..].as_ptr());
    drop(bytes);
    let part = adopted.clone().slice(4..);
    drop(adopted);
    assert_eq!(part, *b"pool");
    drop(part);
    assert_eq!(pool.live_count(), 0);
    assert!(
        pool.pin(Buffer::from(Bytes::from_static(b"elsewhere")).as_ptr())
            .is_err()
    );
}

#[test]
fn a_small_rest_of_a_big_buffer_is_copied_and_a_big_rest_is_not() {
    let pool = BufferPool::builder().build().unwrap();
    let whole = pool.copy_from(&[7; 4000]).unwrap();
    let stays = pool.compact(whole.slice(..3000)).unwrap();
    assert_eq!(stays.as_ptr(), whole.as_ptr());
    let moves = pool.compact(whole.slice(3000..3010)).unwrap();
    assert_eq!(moves, whole.slice(3000..3010));
    drop((whole, stays));
    assert_eq!(pool.stats().live_bytes, 64);
}
