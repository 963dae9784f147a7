//! A request that waits for the store.

use axum::http::StatusCode;
use busyhour_store::{CommitError, Completion};
use tokio::sync::oneshot;

/// A change that was passed to the store.
pub(in crate::web) struct PendingCommit(oneshot::Receiver<Result<(), CommitError>>);

/// The answer to a change that was not stored.
pub(in crate::web) type Rejection = (StatusCode, String);

/// The callback for the store, and what a request waits for.
pub(in crate::web) fn completion() -> (Completion, PendingCommit) {
    let (told, result) = oneshot::channel();
    // The client may be gone.
    (
        Box::new(move |outcome| drop(told.send(outcome))),
        PendingCommit(result),
    )
}

/// The answer when the store does not take a change.
pub(in crate::web) fn rejection(cause: busyhour_store::Refused) -> Rejection {
    unavailable(cause.to_string())
}

impl PendingCommit {
    /// Waits until the change is durable.
    pub(in crate::web) async fn settle(self) -> Result<(), Rejection> {
        match self.0.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable(GONE.to_owned())),
        }
    }
}

fn unavailable(reason: String) -> Rejection {
    (StatusCode::SERVICE_UNAVAILABLE, reason + "\n")
}

const GONE: &str = "the server ends";
