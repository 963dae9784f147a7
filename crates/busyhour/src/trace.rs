//! What is told to a subscriber of the crate `tracing`. The subscriber is foreign code: it is
//! called while no lock is held, and its panics end here.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A task has panicked, and the panic was caught.
#[cold]
pub(crate) fn panicked(pool: &str, payload: &(dyn Any + Send)) {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let panic = text.unwrap_or("its payload is no text");
    tell(|| tracing::error!(pool, panic, "a task panicked"));
}

/// A worker's turn has taken long.
#[cold]
pub(crate) fn took_long(pool: &str, worker: usize, nanos: u64) {
    let milliseconds = nanos / 1_000_000;
    tell(|| tracing::warn!(pool, worker, milliseconds, "a turn took long"));
}

/// A pool's queue has crossed one of its watermarks.
#[cold]
pub(crate) fn pool_crossed(pool: &str, is_long: bool, queued_len: usize) {
    tell(|| match is_long {
        true => tracing::warn!(pool, queued_len, "the queue of a pool is long"),
        false => tracing::info!(pool, queued_len, "the queue of a pool is short again"),
    });
}

/// A serializer's queue has crossed one of its watermarks.
#[cfg(feature = "serializer")]
#[cold]
pub(crate) fn serializer_crossed(
    pool: &str,
    (serializer, number): (&str, u64),
    (is_long, queued_len): (bool, usize),
    running: Option<&'static str>,
) {
    tell(|| match is_long {
        true => {
            tracing::warn!(
                pool,
                serializer,
                number,
                queued_len,
                running,
                "a queue is long"
            );
        }
        false => {
            tracing::info!(
                pool,
                serializer,
                number,
                queued_len,
                "a queue is short again"
            );
        }
    });
}

/// A subscription that lagged has been brought up to date from the cache.
#[cfg(feature = "bus")]
#[cold]
pub(crate) fn lagged(topic: &str, subscription: &str, lost: u64) {
    tell(|| tracing::warn!(topic, subscription, lost, "a subscription lagged"));
}

fn tell(event: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(event)) {
        // Its drop may panic too.
        mem::forget(payload);
    }
}

/// A turn that takes longer is told: other work of the worker has waited for it.
pub(crate) const LONG_TURN_NS: u64 = 100_000_000;
