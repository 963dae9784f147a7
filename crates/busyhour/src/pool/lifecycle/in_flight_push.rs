//! Pushes in flight that are not stopped by any lock of a shutdown. See
//! README.md, "Shutting down".

use crate::{
    pool::{shared::Shared, worker::CurrentWorker},
    sync::{
        CachePadded, fences,
        runtime::atomic::{AtomicBool, AtomicU32, Ordering},
        thread_index,
    },
};

/// Counts of pushes by threads that are no worker, in a few stripes so that
/// they seldom share a cache line.
#[derive(Default)]
pub(in crate::pool) struct InFlightPushes([CachePadded<AtomicU32>; STRIPES]);

const STRIPES: usize = 8;

impl InFlightPushes {
    pub(in crate::pool) fn any(&self) -> bool {
        self.0
            .iter()
            .any(|stripe| stripe.load(Ordering::SeqCst) > 0)
    }
}

/// While this lives, a shutdown waits before it counts what was pushed.
pub(crate) enum InFlightPush<'a> {
    OnWorker(&'a AtomicBool),
    Outside(&'a AtomicU32),
}

impl Shared {
    /// Begins a push to an entity that a shutdown could not find; the caller
    /// must check after this whether the push is admitted.
    #[inline(always)]
    pub(crate) fn begin_push(&self) -> InFlightPush<'_> {
        if let Some(current) = CurrentWorker::of(self) {
            let flag = &current.worker.gauges.is_pushing;
            flag.store(true, Ordering::Relaxed);
            fences::light();
            return InFlightPush::OnWorker(flag);
        }
        let stripe = &self.pushes.0[thread_index() % STRIPES];
        stripe.fetch_add(1, Ordering::SeqCst);
        InFlightPush::Outside(stripe)
    }
}

impl Drop for InFlightPush<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self {
            Self::OnWorker(flag) => flag.store(false, Ordering::Release),
            Self::Outside(stripe) => {
                stripe.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}
