//! Labels of plain tasks, for the report of a shutdown that they outlast.

use std::sync::Arc;

use crate::{
    pool::{context, shared::Shared, worker::CurrentWorker},
    task::Task,
};

/// A task with a label becomes one that shows it while it runs. So tasks
/// without one, which are nearly all, cost their workers nothing for it.
#[cold]
pub(in crate::pool) fn showing_its_label(task: Task) -> Task {
    let label = task.label();
    Task::new(move || {
        let _shown = label.map(ShownLabel::begin);
        task.run();
    })
}

/// While this lives, the worker that this thread is shows a label. A task that
/// was refused may be run by another one that has a label: then that one's comes
/// back.
struct ShownLabel(Option<Shown>);

struct Shown {
    pool: Arc<Shared>,
    number: usize,
    outer: Option<&'static str>,
}

impl ShownLabel {
    fn begin(label: &'static str) -> Self {
        let pool = context::current_pool();
        Self(pool.and_then(|pool| {
            let worker = CurrentWorker::of(&pool)?.worker;
            let outer = worker.set_label(Some(label));
            let number = worker.number;
            Some(Shown {
                pool,
                number,
                outer,
            })
        }))
    }
}

impl Drop for ShownLabel {
    fn drop(&mut self) {
        if let Some(shown) = &self.0 {
            shown.pool.workers[shown.number].set_label(shown.outer);
        }
    }
}
