//! Who is in the middle of a push that no lock of a shutdown stops. See
//! README.md, "Shutting down".

use crate::{
    pool::{shared::Shared, worker::CurrentWorker},
    sync::{
        CachePadded, fences,
        runtime::atomic::{AtomicBool, AtomicU32, Ordering},
        thread_index,
    },
};

/// Pushes of threads that are no workers, in a few places so that they do not
/// meet on one cache line.
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

/// While this lives, a shutdown does not count what was pushed.
pub(crate) enum InFlightPush<'a> {
    OnWorker(&'a AtomicBool),
    Outside(&'a AtomicU32),
}

impl Shared {
    /// Begins a push to an entity that a shutdown could not find; whether it is
    /// admitted is to be asked after this.
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
