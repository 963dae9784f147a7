//! Run queues of entities that panic when they are compared or dropped.

use crate::watchdog::watched;
use busyhour::run_queue::{Class, Priority, QueueEnd, RunQueue, SchedState, WorkerId};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

/// How many comparisons remain until one panics; the entity whose drop panics; how many
/// entities were dropped.
#[derive(Default)]
struct Fuse {
    left: Cell<Option<usize>>,
    bomb: Cell<Option<usize>>,
    dropped: Cell<usize>,
}

struct Entity {
    number: usize,
    fuse: Rc<Fuse>,
}

impl PartialEq for Entity {
    fn eq(&self, other: &Self) -> bool {
        if let Some(left) = self.fuse.left.get() {
            self.fuse.left.set(left.checked_sub(1));
            assert_ne!(left, 0, "on purpose, in a comparison");
        }
        self.number == other.number
    }
}

impl Drop for Entity {
    fn drop(&mut self) {
        self.fuse.dropped.set(self.fuse.dropped.get() + 1);
        assert_ne!(
            self.fuse.bomb.get(),
            Some(self.number),
            "on purpose, in a drop"
        );
    }
}

/// A queue of `count` equal entities, and the order in which they were added.
fn queue(count: usize, fuse: &Rc<Fuse>) -> (RunQueue<Entity>, SchedState) {
    let mut queue = RunQueue::new(WorkerId::new(0));
    let mut sched_state = SchedState::new(Class::Normal(Priority::new(20)));
    for number in 0..count {
        let fuse = Rc::clone(fuse);
        queue.wake(Entity { number, fuse }, &mut sched_state, QueueEnd::Back);
    }
    (queue, sched_state)
}

fn drain(queue: &mut RunQueue<Entity>) -> Vec<usize> {
    std::iter::from_fn(|| queue.pick().map(|entity| entity.number)).collect()
}

/// Ten entities are kept in a sorted ring, forty in lists.
#[test]
fn a_comparison_that_panics_leaves_the_queue_as_it_was() {
    for count in [10, 40] {
        for panics in 0..=count {
            watched("a comparison in a run queue", || {
                let fuse = Rc::new(Fuse::default());
                let (mut queue, mut sched_state) = queue(count, &fuse);
                let wanted = Entity {
                    number: count - 1,
                    fuse: Rc::clone(&fuse),
                };
                fuse.left.set(Some(panics));
                let remove = || queue.remove(&wanted, &mut sched_state);
                let removed = catch_unwind(AssertUnwindSafe(remove));
                fuse.left.set(None);
                let is_removed = removed.is_ok_and(|removed| removed.is_some());
                assert_eq!(is_removed, panics == count);
                let left = count - usize::from(is_removed);
                assert_eq!(queue.len(), left);
                assert_eq!(drain(&mut queue), (0..left).collect::<Vec<_>>());
            });
        }
    }
}

#[test]
fn a_drop_that_panics_leaves_no_entity_behind() {
    for count in [10, 40] {
        watched("a drop in a run queue", || {
            let fuse = Rc::new(Fuse::default());
            let (queue, _) = queue(count, &fuse);
            fuse.bomb.set(Some(3));
            assert!(catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err());
            assert_eq!(fuse.dropped.get(), count);
        });
    }
}
