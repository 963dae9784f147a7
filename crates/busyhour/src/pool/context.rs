//! What a thread knows about the task it is running.

use std::{cell::RefCell, ptr, sync::Arc};

use super::{entity::Entity, shared::Shared};

thread_local! {
    static CONTEXT: RefCell<Context> = const { RefCell::new(Context { pool: ptr::null(), entity: None }) };
}

/// The pool whose task this thread runs (by address, never followed), and the
/// entity the task belongs to.
struct Context {
    pool: *const Shared,
    entity: Option<Arc<dyn Entity>>,
}

/// Runs `f` as a task of `entity`, or as a plain task, of `pool`.
pub(crate) fn within<R>(
    pool: &Shared,
    entity: Option<Arc<dyn Entity>>,
    f: impl FnOnce() -> R,
) -> R {
    let _restore = Restore(Some(CONTEXT.replace(Context { pool, entity })));
    f()
}

/// The entity whose task this thread runs.
pub(crate) fn current_entity() -> Option<Arc<dyn Entity>> {
    CONTEXT.with_borrow(|context| context.entity.clone())
}

/// Whether this thread runs a task of `pool`.
pub(crate) fn is_inside(pool: &Shared) -> bool {
    CONTEXT.with_borrow(|context| ptr::eq(context.pool, pool))
}

/// Puts the former context back, also when the task unwinds.
struct Restore(Option<Context>);

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(context) = self.0.take() {
            drop(CONTEXT.replace(context));
        }
    }
}
