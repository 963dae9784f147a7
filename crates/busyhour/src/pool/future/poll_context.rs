//! What the host puts around each poll, for example the handle of another
//! runtime's reactor.

use std::sync::Arc;

use crate::pool::shared::Shared;

/// Calls its argument once, inside of what the polled futures need.
pub(in crate::pool) type PollContext = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

impl Shared {
    /// Runs `f`, which polls or drops a future, inside the host's context.
    ///
    /// Panics if that context does not call `f`.
    #[inline(always)]
    pub(in crate::pool) fn in_poll_context<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.poll_context {
            None => f(),
            Some(poll_context) => within(poll_context, f),
        }
    }
}

#[cold]
fn within<R>(poll_context: &PollContext, f: impl FnOnce() -> R) -> R {
    let (mut f, mut result) = (Some(f), None);
    poll_context(&mut || {
        if let Some(f) = f.take() {
            result = Some(f());
        }
    });
    result.expect("a poll context must call what it is given")
}
