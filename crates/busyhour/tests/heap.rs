//! The indexed heap against a naive list, operation by operation.

#[path = "../../../fuzz/any_bytes.rs"]
mod any_bytes;
#[path = "model/heap.rs"]
mod model;

use busyhour::heap::{Heap, HeapHandle, Locked, Order};
use model::{Operation, Pair};
use proptest::prelude::*;
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => any::<u8>().prop_map(Operation::Push),
        3 => Just(Operation::Pop),
        2 => any::<prop::sample::Index>().prop_map(|n| Operation::Remove(n.index(1 << 16))),
        3 => (any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(n, value)| Operation::Update(n.index(1 << 16), value)),
        1 => Just(Operation::Clear),
    ];
    prop::collection::vec(operation, 1..300)
}

proptest! {
    #[test]
    fn a_min_heap_agrees_with_a_list(operations in operations()) {
        let mut pair = Pair::new(Heap::min());
        operations.iter().for_each(|operation| pair.apply(operation));
        assert!(pair.drain().is_sorted());
    }

    #[test]
    fn a_max_heap_agrees_with_a_list(operations in operations()) {
        let mut pair = Pair::new(Heap::max());
        operations.iter().for_each(|operation| pair.apply(operation));
        assert!(pair.drain().is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_heap_sorts_by_any_comparison(values in prop::collection::vec(any::<i16>(), 0..200)) {
        let mut heap = Heap::ordered_by(|a: &i16, b: &i16| a.unsigned_abs().cmp(&b.unsigned_abs()));
        values.iter().for_each(|&value| { heap.push(value); });
        let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
        prop_assert_eq!(popped.len(), values.len());
        prop_assert!(popped.is_sorted_by_key(|value| value.unsigned_abs()));
    }
}

#[test]
fn operations_of_any_bytes_agree_with_a_map() {
    any_bytes::hold_for("heap", 300, model::hold);
}

#[test]
fn the_traversal_visits_every_entry_once() {
    let mut heap = Heap::min();
    (0..100).rev().for_each(|n| {
        heap.push(n);
    });
    let mut seen: Vec<i32> = (0..)
        .map_while(|position| heap.peek_at(position).copied())
        .collect();
    assert_eq!(seen[0], 0);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
}

#[test]
fn verify_reports_an_entry_out_of_order() {
    let mut heap = Heap::min();
    let first = heap.push(1);
    heap.push(2);
    let update = || {
        heap.update(first, |value| {
            *value = 3;
            panic!("half-way");
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
    assert_eq!(heap.verify().unwrap_err().position, 1);
    heap.update(first, |_| ());
    heap.verify().unwrap();
}

#[test]
fn a_comparison_that_panics_loses_no_entry() {
    let bomb = Cell::new(false);
    let mut heap = Heap::ordered_by(|a: &u32, b: &u32| {
        assert!(!bomb.get(), "the comparison fails");
        a.cmp(b)
    });
    let handles: Vec<_> = (0..50).rev().map(|n| heap.push(n)).collect();
    bomb.set(true);
    assert!(catch_unwind(AssertUnwindSafe(|| heap.push(0))).is_err());
    bomb.set(false);
    assert_eq!(heap.len(), 50, "the failed push has no effect");
    heap.verify().unwrap();
    assert!(handles.iter().all(|&handle| heap.contains(handle)));
}

/// Makes heaps in which the comparison of an update panicked, so the entry is
/// in the wrong place.
fn with_an_update_cut_short() -> (Heap<u32, impl Order<u32>>, Vec<HeapHandle>) {
    let mut heap = Heap::ordered_by(|a: &u32, b: &u32| {
        assert!(
            *a != POISON && *b != POISON,
            "this comparison must not happen"
        );
        a.cmp(b)
    });
    let handles: Vec<_> = (0..20).map(|n| heap.push(n)).collect();
    let update = || heap.update(handles[0], |value| *value = POISON);
    assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
    (heap, handles)
}

const POISON: u32 = 1_000;

#[test]
fn an_entry_whose_update_panicked_is_removed_without_comparison() {
    let (mut heap, handles) = with_an_update_cut_short();
    assert_eq!(heap.remove(handles[0]), Some(POISON));
    assert_eq!(heap.pop(), Some(1));
    heap.verify().unwrap();
}

#[test]
fn a_removal_first_finishes_an_update_that_panicked() {
    let mut heap = Heap::min();
    let handles: Vec<_> = (0..20).map(|n| heap.push(n)).collect();
    let update = || {
        heap.update(handles[0], |value| {
            *value = 100;
            panic!("half-way");
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(update)).is_err());
    assert_eq!(heap.remove(handles[19]), Some(19));
    heap.verify().unwrap();
    assert_eq!(heap.peek(), Some(&1));
}

#[test]
fn a_locked_heap_is_shared_by_threads() {
    let heap = Locked::new(Heap::max());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let heap = &heap;
            scope.spawn(move || {
                (0..250).for_each(|n| {
                    let handle = heap.push(thread * 1000 + n);
                    assert!(heap.update(handle, |value| *value += 1).is_some());
                    if n % 2 == 0 {
                        heap.remove(handle);
                    }
                })
            });
        }
    });
    assert_eq!((heap.len(), heap.is_empty()), (500, false));
    heap.lock().verify().unwrap();
    assert_eq!(heap.pop(), Some(3250));
    heap.lock().clear();
    assert_eq!((heap.len(), heap.is_empty()), (0, true));
}
