//! Reads that may look at everything run on a worker of the pool, so that the thread of HTTP goes on.

use super::{Backend, api::pending_commit::Rejection};
use axum::http::StatusCode;
use busyhour::runtime::Runtime;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Reads some more with each call, and returns what was read with the last one.
pub type Portions<T> = Box<dyn FnMut() -> Option<T> + Send>;

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
        let backend = self.backend.clone();
        let mut read = Some(read);
        let portions = move || read.take().map(|read| read(&*backend));
        self.read_in_portions(|_| Box::new(portions)).await
    }

    /// What the portions that `begin` returns read in the end. Between two of them the worker does what waits.
    pub(super) async fn read_in_portions<T: Send + 'static>(
        &self,
        begin: impl FnOnce(&dyn Backend) -> Portions<T>,
    ) -> Result<T, Rejection> {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| unavailable(ENDS))?;
        let mut portions = begin(&*self.backend);
        let Some(runtime) = self.backend.runtime() else {
            loop {
                if let Some(read) = portions() {
                    return Ok(read);
                }
            }
        };
        let (answer, answered) = oneshot::channel();
        let reading = ReadOnWorker {
            runtime: runtime.clone(),
            portions,
            answer,
            _place: place,
        };
        if !reading.go_on_later() {
            return Err(unavailable("the server has too much to do"));
        }
        answered.await.map_err(|_| unavailable(ENDS))
    }
}

/// A read on its way through the pool.
struct ReadOnWorker<T> {
    runtime: Runtime,
    portions: Portions<T>,
    answer: oneshot::Sender<T>,
    /// It stays taken until the read ends.
    _place: OwnedSemaphorePermit,
}

impl<T: Send + 'static> ReadOnWorker<T> {
    /// `false` if the pool takes no more.
    fn go_on_later(self) -> bool {
        let pool = self.runtime.pool().clone();
        pool.try_push(move || self.go_on()).is_ok()
    }

    fn go_on(mut self) {
        // Nobody waits for it any more if the client has gone.
        if self.answer.is_closed() {
            return;
        }
        match (self.portions)() {
            Some(read) => drop(self.answer.send(read)),
            // Without room it ends, and the client is told so.
            None => drop(self.go_on_later()),
        }
    }
}

/// Why nothing can be read now.
pub(super) fn unavailable(reason: &str) -> Rejection {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"))
}

const ENDS: &str = "the server ends";
