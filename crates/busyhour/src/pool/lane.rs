//! A worker's plain tasks, oldest first.

use std::mem::MaybeUninit;

use super::berth::Berth;
use crate::task::Task;

/// A ring of tasks that grows.
///
/// The tasks are those from `head` on, `len` of them, modulo the ring's length.
pub(super) struct Lane {
    ring: Box<[MaybeUninit<Task>]>,
    head: usize,
    len: usize,
}

impl Lane {
    pub(super) fn new() -> Self {
        Self {
            ring: Box::new([]),
            head: 0,
            len: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the task that `make` makes.
    #[inline(always)]
    pub(super) fn push(&mut self, make: impl FnOnce() -> Task) {
        if self.len == self.ring.len() {
            self.grow();
        }
        let index = self.index(self.len);
        self.ring[index].write(make());
        self.len += 1;
    }

    /// Moves the oldest task to an empty berth; whether there was one.
    #[inline(always)]
    pub(super) fn pop(&mut self, berth: &mut Berth) -> bool {
        let is_some = self.len > 0;
        if is_some {
            let oldest = self.ring[self.head].as_ptr();
            self.head = self.index(1);
            self.len -= 1;
            // SAFETY: `oldest` was one of the tasks, and no longer is.
            unsafe { berth.put_from(oldest) };
        }
        is_some
    }

    /// The oldest task.
    pub(super) fn take(&mut self) -> Option<Task> {
        let mut berth = Berth::EMPTY;
        self.pop(&mut berth);
        berth.take()
    }

    /// The place of the task `offset` behind the oldest. The ring's length is
    /// 0 or a power of two.
    #[inline(always)]
    fn index(&self, offset: usize) -> usize {
        (self.head + offset) & self.ring.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.ring.len() * 2).max(RING_LEN_MIN);
        let mut ring = Box::new_uninit_slice(len);
        for offset in 0..self.len {
            let from = &self.ring[self.index(offset)];
            // SAFETY: `from` is one of the tasks; the old ring forgets it below.
            ring[offset].write(unsafe { from.assume_init_read() });
        }
        self.ring = ring;
        self.head = 0;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

/// 16 KiB of tasks.
const RING_LEN_MIN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    #[test]
    fn it_keeps_the_order_while_it_wraps_and_grows() {
        let (sender, receiver) = mpsc::channel();
        let mut lane = Lane::new();
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..100 {
            for _ in 0..round * 7 % 50 + 20 {
                let (sender, number) = (sender.clone(), pushed);
                lane.push(|| Task::new(move || sender.send(number).unwrap()));
                pushed += 1;
            }
            for _ in 0..round * 5 % 40 + 10 {
                if let Some(task) = lane.take() {
                    task.run();
                    popped += 1;
                }
            }
        }
        assert_eq!(lane.len(), pushed - popped);
        while let Some(task) = lane.take() {
            task.run();
        }
        assert!(lane.is_empty());
        assert!(receiver.try_iter().eq(0..pushed));
    }

    #[test]
    fn it_drops_what_it_holds() {
        let witness = Arc::new(());
        let mut lane = Lane::new();
        for _ in 0..1000 {
            let held = Arc::clone(&witness);
            lane.push(|| Task::new(move || drop(held)));
        }
        let mut berth = Berth::EMPTY;
        assert!(lane.pop(&mut berth));
        drop(lane);
        assert_eq!(Arc::strong_count(&witness), 2);
        assert!(berth.run().is_ok());
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
