//! The pure queue: the only user code that it calls is the drop of its values.

use super::OnDrop;
use crate::watchdog::watched;
use busyhour::{clock::Instant, timer::TimerQueue};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

#[test]
fn a_value_that_panics_when_it_is_dropped_leaves_no_other_behind() {
    watched("the drop of a queue", || {
        let (dropped, mut queue) = (Rc::new(Cell::new(0)), TimerQueue::new());
        for n in 0..3_000 {
            let dropped = Rc::clone(&dropped);
            let value = OnDrop(move || {
                dropped.set(dropped.get() + 1);
                assert_ne!(n, 10, "on purpose, in a drop");
            });
            queue.add(Instant::from_nanos(n), value);
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err());
        assert_eq!(dropped.get(), 3_000);
    });
}

/// A value that leaves the queue belongs to the caller: the queue is in order before
/// the value is dropped.
#[test]
fn a_value_that_panics_when_it_has_left_leaves_the_queue_in_order() {
    watched("the drop of what was popped", || {
        let mut queue = TimerQueue::new();
        let bomb = |n| OnDrop(move || assert!(n % 3 != 0, "on purpose, in a drop"));
        let handles: Vec<_> = (0..300)
            .map(|n| queue.add(Instant::from_nanos(n), bomb(n)))
            .collect();
        for handle in handles.iter().step_by(2) {
            let _panicked = catch_unwind(AssertUnwindSafe(|| drop(queue.cancel(*handle))));
        }
        assert_eq!(queue.len(), 150);
        let mut due = Vec::new();
        while let Some(at) = queue.next_deadline() {
            let pop = || drop(queue.pop_due(Instant::from_nanos(300)));
            let _panicked = catch_unwind(AssertUnwindSafe(pop));
            due.push(at.as_nanos());
        }
        assert_eq!(due, (1..300).step_by(2).collect::<Vec<_>>());
    });
}
