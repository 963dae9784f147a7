//! Questions of one source wait for each other, so that it cannot keep the service from others.
//! Pure.

use crate::server::load::shares::Cells;
use foldhash::quality::FixedState;
use std::collections::{HashMap, VecDeque};

/// What waits by source. A source without a question has nothing here.
#[derive(Debug)]
pub(super) struct SourceQueues<T> {
    queues: HashMap<Cells, SourceQueue<T>, FixedState>,
    under_way_max: usize,
}

#[derive(Debug)]
struct SourceQueue<T> {
    under_way: usize,
    waiting: VecDeque<T>,
}

impl<T> SourceQueues<T> {
    /// So many questions of one source are under way at a time.
    pub(super) fn new(under_way_max: usize, hasher: FixedState) -> Self {
        Self {
            queues: HashMap::with_hasher(hasher),
            under_way_max,
        }
    }

    /// Gives the question back if it is to be asked now; [`leave`](Self::leave) ends it.
    pub(super) fn enter(&mut self, source: Cells, question: T) -> Option<T> {
        let queue = self.queues.entry(source).or_insert_with(|| SourceQueue {
            under_way: 0,
            waiting: VecDeque::new(),
        });
        if queue.under_way < self.under_way_max {
            queue.under_way += 1;
            return Some(question);
        }
        queue.waiting.push_back(question);
        None
    }

    /// A question of this source was answered: the next one that is to be asked now.
    pub(super) fn leave(&mut self, source: Cells) -> Option<T> {
        let queue = self.queues.get_mut(&source)?;
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.under_way -= 1;
            if queue.under_way == 0 {
                self.queues.remove(&source);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_so_many_under_way_and_the_others_wait_in_order() {
        let mut queues = SourceQueues::new(2, FixedState::with_seed(1));
        let (one, other) = ([1; 2], [2; 2]);
        let entered: Vec<_> = (0..5).map(|number| queues.enter(one, number)).collect();
        assert_eq!(entered, [Some(0), Some(1), None, None, None]);
        assert_eq!(queues.enter(other, 9), Some(9), "another source");
        let left: Vec<_> = (0..5).map(|_| queues.leave(one)).collect();
        assert_eq!(left, [Some(2), Some(3), Some(4), None, None]);
        assert_eq!(queues.leave(other), None);
        assert!(queues.queues.is_empty());
    }
}
