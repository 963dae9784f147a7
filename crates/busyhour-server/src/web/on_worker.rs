//! Reads that may look at everything run on a worker of the pool, so that the thread of HTTP goes on.

use super::{Backend, api::pending_commit::Rejection};
use axum::http::StatusCode;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Reads the backend on a worker, so many requests at a time.
#[derive(Clone)]
pub(super) struct OnWorker {
    backend: Arc<dyn Backend>,
    places: Arc<Semaphore>,
}

impl OnWorker {
    pub(super) fn new(backend: Arc<dyn Backend>, readers_max: usize) -> Self {
        Self {
            backend,
            places: Arc::new(Semaphore::new(readers_max)),
        }
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// What `read` returns. It runs here if the backend has no runtime.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Backend) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| unavailable(ENDS))?;
        let Some(runtime) = self.backend.runtime() else {
            return Ok(read(&*self.backend));
        };
        let (answer, answered) = oneshot::channel();
        let backend = self.backend.clone();
        let task = move || {
            // It stays taken until the task ends, even if the client has gone.
            let _place = place;
            // The client may be gone.
            let _ = answer.send(read(&*backend));
        };
        if runtime.pool().try_push(task).is_err() {
            return Err(unavailable("the server has too much to do"));
        }
        answered.await.map_err(|_| unavailable(ENDS))
    }
}

/// Why nothing can be read now.
pub(super) fn unavailable(reason: &str) -> Rejection {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"))
}

const ENDS: &str = "the server ends";
