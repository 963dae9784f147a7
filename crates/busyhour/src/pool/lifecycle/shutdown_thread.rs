//! Shutdowns that a future waits for: a thread of their own makes them.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Poll,
};

use super::{ShutdownReport, shutdown::OwnSection};
use crate::{
    pool::{shared::Shared, wait::OneshotCell},
    sync::{Mutex, lock, runtime::thread},
};

impl Shared {
    /// Runs `shutdown`, which shuts this pool down, on a thread of its own that
    /// begins at once; in a simulation, or if the system has no thread, on this
    /// one.
    pub(crate) fn shut_down_apart<F>(
        self: &Arc<Self>,
        shutdown: F,
    ) -> impl Future<Output = ShutdownReport> + Send + use<F> + 'static
    where
        F: FnOnce() -> ShutdownReport + Send + 'static,
    {
        let not_counted = OwnSection::discount(self);
        let outcome = Arc::new(OneshotCell::default());
        let shutdown = Arc::new(Mutex::new(Some(shutdown)));
        let (on_thread, filled) = (Arc::clone(&shutdown), Arc::clone(&outcome));
        let run = move || {
            if let Some(shutdown) = lock(&on_thread).take() {
                let _nobody_waits = filled.fill(catch_unwind(AssertUnwindSafe(shutdown)));
            }
        };
        let named = thread::Builder::new().name("busyhour-shutdown".to_owned());
        match self.is_simulated() {
            true => run(),
            false => drop(named.spawn(run.clone()).map_err(|_no_thread| run())),
        }
        async move {
            let _not_counted = not_counted;
            let report = poll_fn(|context| match outcome.poll_take(context.waker()) {
                Poll::Ready(Some(report)) => Poll::Ready(report),
                // The future is polled once more after its end.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            });
            report.await.unwrap_or_else(|panic| resume_unwind(panic))
        }
    }
}
