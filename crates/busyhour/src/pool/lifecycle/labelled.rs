//! Labels of plain tasks, for a shutdown's report of tasks that are still
//! running.

use std::sync::Arc;

use crate::{
    pool::{context, shared::Shared, worker::CurrentWorker},
    task::Task,
};

/// Wraps a task with a label in one that shows the label while it runs. So
/// tasks without a label, which are almost all, cost their workers nothing.
#[cold]
pub(in crate::pool) fn showing_its_label(task: Task) -> Task {
    let label = task.label();
    Task::new(move || {
        let _shown = label.map(ShownLabel::begin);
        task.run();
    })
}

/// While this lives, the worker of this thread shows a label. A refused task
/// may run inside another one that has a label; then this restores the outer
/// label.
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
