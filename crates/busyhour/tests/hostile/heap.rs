//! Heaps whose entries panic when they are compared, changed or dropped, at every
//! comparison of every operation.

use crate::watchdog::watched;
use busyhour::heap::{Heap, HeapHandle, Locked};
use std::{
    cell::Cell,
    cmp::Ordering,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{Arc, Weak},
};

/// How many comparisons remain until one panics, for all entries together; and how many
/// entries exist.
#[derive(Default)]
struct Fuse {
    left: Cell<Option<u32>>,
    living: Cell<i64>,
}

struct Entry {
    key: u32,
    fuse: Rc<Fuse>,
}

impl Entry {
    fn new(key: u32, fuse: &Rc<Fuse>) -> Self {
        fuse.living.set(fuse.living.get() + 1);
        let fuse = Rc::clone(fuse);
        Self { key, fuse }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.fuse.living.set(self.fuse.living.get() - 1);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        if let Some(left) = self.fuse.left.get() {
            self.fuse.left.set(left.checked_sub(1));
            assert_ne!(left, 0, "on purpose, in a comparison");
        }
        self.key.cmp(&other.key)
    }
}

/// A heap of forty entries in some order, and their handles by key.
fn forty(fuse: &Rc<Fuse>) -> (Heap<Entry>, Vec<HeapHandle>) {
    let mut heap = Heap::min();
    let mut handles: Vec<_> = (0..40)
        .map(|n| n * 17 % 40)
        .map(|key| (key, heap.push(Entry::new(key, fuse))))
        .collect();
    handles.sort_by_key(|(key, _)| *key);
    let handles = handles.into_iter().map(|(_, handle)| handle).collect();
    (heap, handles)
}

/// Pops all entries; until then, each entry is found by its handle.
fn drain(mut heap: Heap<Entry>, handles: &[HeapHandle]) -> Vec<u32> {
    let found = handles.iter().filter(|handle| heap.contains(**handle));
    assert!(
        heap.len() - found.count() <= 1,
        "all handles but that of the pushed entry"
    );
    std::iter::from_fn(|| heap.pop().map(|entry| entry.key)).collect()
}

/// Drops a value whose result does not matter.
fn ignore<T>(_value: T) {}

type Operation = fn(&mut Heap<Entry>, &[HeapHandle], &Rc<Fuse>);

type Outcome = fn() -> Vec<u32>;

/// Each operation, with the values that are popped after it has succeeded.
const OPERATIONS: &[(&str, Operation, Outcome)] = &[
    (
        "push",
        |heap, _, fuse| ignore(heap.push(Entry::new(0, fuse))),
        || std::iter::once(0).chain(0..40).collect(),
    ),
    ("pop", |heap, _, _| ignore(heap.pop()), || (1..40).collect()),
    (
        "remove",
        |heap, handles, _| ignore(heap.remove(handles[20])),
        || (0..20).chain(21..40).collect(),
    ),
];

#[test]
fn a_comparison_that_panics_leaves_the_heap_as_it_was() {
    for &(name, operation, expected) in OPERATIONS {
        watched(name, || {
            let mut panics = 0;
            loop {
                let fuse = Rc::new(Fuse::default());
                let (mut heap, handles) = forty(&fuse);
                fuse.left.set(Some(panics));
                let outcome =
                    catch_unwind(AssertUnwindSafe(|| operation(&mut heap, &handles, &fuse)));
                fuse.left.set(None);
                assert_eq!(heap.verify(), Ok(()), "{name}: comparison {panics}");
                assert_eq!(
                    fuse.living.get(),
                    heap.len() as i64,
                    "{name}: each dropped once"
                );
                let left = drain(heap, &handles);
                assert_eq!(fuse.living.get(), 0);
                if outcome.is_ok() {
                    assert_eq!(left, expected());
                    break;
                }
                assert_eq!(
                    left,
                    (0..40).collect::<Vec<_>>(),
                    "{name}: the operation has had no effect"
                );
                panics += 1;
            }
            assert!(panics > 0, "{name} compares");
        });
    }
}

/// The entry has changed; the next call first puts it in order.
#[test]
fn the_next_call_finishes_an_update_that_panicked() {
    let next: &[(&str, Operation)] = &[
        ("push", |heap, _, fuse| {
            ignore(heap.push(Entry::new(100, fuse)))
        }),
        ("pop", |heap, _, _| {
            assert_ne!(heap.pop().map(|entry| entry.key), None)
        }),
        ("remove another", |heap, handles, _| {
            ignore(heap.remove(handles[7]))
        }),
        ("remove the same", |heap, handles, _| {
            ignore(heap.remove(handles[20]))
        }),
        ("update another", |heap, handles, _| {
            ignore(heap.update(handles[7], |_| ()))
        }),
        ("update the same", |heap, handles, _| {
            ignore(heap.update(handles[20], |_| ()))
        }),
    ];
    for &(name, next) in next {
        for key in [0, 10, 30, 90] {
            for panics in 0..6 {
                let fuse = Rc::new(Fuse::default());
                let (mut heap, handles) = forty(&fuse);
                fuse.left.set(Some(panics));
                let change = |entry: &mut Entry| entry.key = key;
                let _cut_short =
                    catch_unwind(AssertUnwindSafe(|| heap.update(handles[20], change)));
                fuse.left.set(None);
                next(&mut heap, &handles, &fuse);
                assert_eq!(heap.verify(), Ok(()), "{name} after {key}");
                assert!(drain(heap, &handles).is_sorted());
                assert_eq!(fuse.living.get(), 0);
            }
        }
    }
}

#[test]
fn the_next_call_finishes_a_change_that_panicked_half_way() {
    let fuse = Rc::new(Fuse::default());
    let (mut heap, handles) = forty(&fuse);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        heap.update(handles[0], |entry| {
            entry.key = 99;
            panic!("on purpose, in a change");
        })
    }));
    assert!(outcome.is_err());
    assert_eq!(heap.pop().map(|entry| entry.key), Some(1));
    assert_eq!(heap.verify(), Ok(()));
}

/// A heap that is locked for a comparison returns an error instead of waiting
/// for itself.
#[test]
fn a_comparison_that_uses_its_own_locked_heap_is_refused() {
    watched("a comparison that uses its own heap", || {
        type Order = Box<dyn Fn(&u32, &u32) -> Ordering + Send + Sync>;
        let jobs: Arc<Locked<u32, Order>> = Arc::new_cyclic(|own: &Weak<Locked<u32, Order>>| {
            let own = own.clone();
            let order: Order = Box::new(move |a, b| {
                if *b == 13 {
                    own.upgrade().expect("the heap is in use").pop();
                }
                a.cmp(b)
            });
            Locked::new(Heap::ordered_by(order))
        });
        jobs.push(13);
        let pushed = catch_unwind(AssertUnwindSafe(|| jobs.push(1)));
        assert!(pushed.is_err());
        assert_eq!((jobs.len(), jobs.pop(), jobs.pop()), (1, Some(13), None));
        let handle = jobs.push(1);
        let update = |_: &mut u32| jobs.len();
        assert!(catch_unwind(AssertUnwindSafe(|| jobs.update(handle, update))).is_err());
        assert_eq!(jobs.pop(), Some(1));
    });
}
