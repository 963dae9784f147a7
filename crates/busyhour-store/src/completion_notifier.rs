//! Telling those who wait for a commit.

use super::{
    CommitError,
    queue::{Batch, Queue},
};
use busyhour::pool::{InlineRunner, TaskPool};

/// Runs on the committing thread. The work that follows a completion, such as sending
/// the answer, is a task of the pool. Under little load the thread runs these tasks
/// itself, with an inline runner of the pool: waking a worker costs more.
#[derive(Default)]
pub(super) struct CompletionNotifier {
    runner: Option<InlineRunner>,
}

impl CompletionNotifier {
    /// Tells all of a group how it went.
    pub(super) fn tell(
        &mut self,
        queue: &Queue,
        group: Vec<Batch>,
        outcome: &Result<(), CommitError>,
    ) {
        let runner = self.runner(queue).filter(|_| group.len() < FEW);
        let calls = group
            .into_iter()
            .map(|batch| move || (batch.done)(outcome.clone()));
        match runner {
            Some(runner) => calls.for_each(|call| runner.run(call)),
            None => calls.for_each(|call| call()),
        }
    }

    fn runner(&mut self, queue: &Queue) -> Option<&mut InlineRunner> {
        if self.runner.is_none() {
            self.runner = queue.pool().map(TaskPool::inline_runner);
        }
        self.runner.as_mut()
    }
}

/// More completions are a sign of load: then this thread should write the next group.
const FEW: usize = 8;
