//! Pushes in flight that are not stopped by any lock of a shutdown. See
//! README.md, "Shutting down".

use crate::{
    pool::worker::CurrentWorker,
    sync::{
        CachePadded, fences,
        runtime::atomic::{AtomicBool, AtomicU32, Ordering},
        thread_index,
    },
};

/// Counts of pushes by threads that are no worker, in a few stripes so that
/// they seldom share a cache line.
#[derive(Default)]
pub(super) struct InFlightPushes([CachePadded<AtomicU32>; STRIPES]);

const STRIPES: usize = 8;

impl InFlightPushes {
    #[inline(always)]
    pub(super) fn begin<'a>(&'a self, current: Option<CurrentWorker<'a>>) -> InFlightPush<'a> {
        if let Some(current) = current {
            let flag = &current.worker.gauges.is_pushing;
            flag.store(true, Ordering::Relaxed);
            fences::light();
            return InFlightPush::OnWorker(flag);
        }
        let stripe = &self.0[thread_index() % STRIPES];
        stripe.fetch_add(1, Ordering::SeqCst);
        InFlightPush::Outside(stripe)
    }

    pub(super) fn any(&self) -> bool {
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
