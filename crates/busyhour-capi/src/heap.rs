//! A heap of the caller's pointers, in an order that the caller compares.

use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, bh_drop_fn, borrow, give, guard, quietly, release,
    },
    result::bh_result,
};
use busyhour::heap::{Heap, HeapHandle};
use std::{
    cmp::Ordering,
    ffi::c_void,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError},
};

/// Says which of two entries comes out first: `one` if the result is below zero, `other` if it is above, either if it is
/// zero. It must not use the heap.
pub type bh_compare_fn = Option<
    unsafe extern "C-unwind" fn(one: *const c_void, other: *const c_void, data: *mut c_void) -> i32,
>;

/// A heap. It waits for no lock: several threads may read it at the same time, but a call that comes while another one
/// changes the heap returns `BH_BUSY`. Share it under a lock of yours.
pub struct bh_heap {
    /// Never waited for.
    heap: RwLock<Heap<Entry, Compare>>,
}

/// What C put into the heap; C owns what it points to.
struct Entry(*mut c_void);

type Compare = Box<dyn Fn(&Entry, &Entry) -> Ordering>;
type CompareCall = unsafe extern "C-unwind" fn(*const c_void, *const c_void, *mut c_void) -> i32;

/// Makes an empty heap. `drop` frees `data`, with the heap or at once if the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_new(
    compare: bh_compare_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_heap,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let compare: Callback<CompareCall> =
            Callback::new(compare, data).ok_or_else(|| Failure::null("compare"))?;
        let out = Out::required(out, "out")?;
        let order: Compare = Box::new(move |one: &Entry, other: &Entry| {
            compare
                .call_with_two(one.0.cast_const(), other.0.cast_const())
                .cmp(&0)
        });
        let heap = RwLock::new(Heap::ordered_by(order));
        give(out, bh_heap { heap });
        Ok(())
    })
}

/// Frees the heap, not what its entries point to. It must not be called inside a comparison of the heap.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_free(heap: *mut bh_heap) {
    quietly((), || drop(release(heap)));
}

/// Adds an entry. `out_handle`, which may be NULL, identifies it while it is in the heap, and no other entry ever.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_push(
    heap: *mut bh_heap,
    entry: *mut c_void,
    out_handle: *mut u64,
) -> bh_result {
    guard(|| {
        let handle = change(heap)?.push(Entry(entry));
        Out::optional(out_handle).write(handle.to_bits());
        Ok(())
    })
}

/// Takes the entry on top; `BH_NOT_FOUND` if the heap is empty.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_pop(heap: *mut bh_heap, out_entry: *mut *mut c_void) -> bh_result {
    guard(|| {
        let out = Out::required(out_entry, "out_entry")?;
        out.write(found(change(heap)?.pop(), "the heap is empty")?);
        Ok(())
    })
}

/// Takes an entry out; `BH_NOT_FOUND` if it has left before. `out_entry` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_remove(
    heap: *mut bh_heap,
    handle: u64,
    out_entry: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let removed = change(heap)?.remove(HeapHandle::from_bits(handle));
        Out::optional(out_entry).write(found(removed, GONE)?);
        Ok(())
    })
}

/// Moves an entry to where it belongs, after what it points to has changed; `BH_NOT_FOUND` if it has left the heap.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_update(heap: *mut bh_heap, handle: u64) -> bh_result {
    guard(|| {
        let updated = change(heap)?.update(HeapHandle::from_bits(handle), |_| ());
        updated.ok_or_else(|| Failure::not_found(GONE))
    })
}

/// The entry at `position` in heap order: 0 is the top, and `bh_heap_len` - 1 the last. `BH_NOT_FOUND` beyond. Positions
/// change with every change of the heap.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_peek(
    heap: *const bh_heap,
    position: usize,
    out_entry: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_entry, "out_entry")?;
        let heap = read(heap)?;
        let entry = heap
            .peek_at(position)
            .ok_or_else(|| Failure::not_found(format!("position {position} of {}", heap.len())))?;
        out.write(entry.0);
        Ok(())
    })
}

/// The handle of the entry on top; `BH_NOT_FOUND` if the heap is empty.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_peek_handle(heap: *const bh_heap, out_handle: *mut u64) -> bh_result {
    guard(|| {
        let out = Out::required(out_handle, "out_handle")?;
        let handle = read(heap)?.peek_handle();
        let handle = handle.ok_or_else(|| Failure::not_found("the heap is empty"))?;
        out.write(handle.to_bits());
        Ok(())
    })
}

/// The entry with a handle; `BH_NOT_FOUND` if it has left the heap.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_get(
    heap: *const bh_heap,
    handle: u64,
    out_entry: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_entry, "out_entry")?;
        let heap = read(heap)?;
        let entry = heap.get(HeapHandle::from_bits(handle));
        out.write(entry.ok_or_else(|| Failure::not_found(GONE))?.0);
        Ok(())
    })
}

/// Takes all entries out.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_clear(heap: *mut bh_heap) -> bh_result {
    guard(|| {
        change(heap)?.clear();
        Ok(())
    })
}

/// The number of entries; 0 for NULL, and while another call changes the heap.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_len(heap: *const bh_heap) -> usize {
    quietly(0, || read(heap).map_or(0, |heap| heap.len()))
}

/// Checks every entry against its parent: `BH_INVALID` if one is out of order, which only a comparison that contradicts
/// itself, or an entry that changed without `bh_heap_update`, can bring about.
#[unsafe(no_mangle)]
pub extern "C" fn bh_heap_verify(heap: *const bh_heap) -> bh_result {
    guard(|| {
        read(heap)?
            .verify()
            .map_err(|violation| Failure::invalid(violation.to_string()))
    })
}

fn change<'a>(heap: *const bh_heap) -> Outcome<RwLockWriteGuard<'a, Heap<Entry, Compare>>> {
    unlocked(borrow(heap, "heap")?.heap.try_write())
}

fn read<'a>(heap: *const bh_heap) -> Outcome<RwLockReadGuard<'a, Heap<Entry, Compare>>> {
    unlocked(borrow(heap, "heap")?.heap.try_read())
}

fn unlocked<G>(guard: Result<G, TryLockError<G>>) -> Outcome<G> {
    match guard {
        Ok(guard) => Ok(guard),
        // The heap is whole after a panic.
        Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => Err(busy()),
    }
}

fn found(entry: Option<Entry>, otherwise: &'static str) -> Outcome<*mut c_void> {
    entry
        .map(|entry| entry.0)
        .ok_or_else(|| Failure::not_found(otherwise))
}

fn busy() -> Failure {
    Failure::new(
        bh_result::BH_BUSY,
        "another call changes the heap: a comparison must not use it, and threads need a lock",
    )
}

const GONE: &str = "the entry has left the heap";
