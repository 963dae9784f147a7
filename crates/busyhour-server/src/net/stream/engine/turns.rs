use busyhour::clock::{Clock, Instant};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// For how long the engine's turns last: in one turn it reads once from each connection that has
/// something. Written by the engine alone.
#[derive(Debug, Default)]
pub(in crate::net::stream) struct Turns {
    /// When the one that lasts began; 0 while the engine waits.
    began_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Turns {
    pub(super) fn begin(&self, now: Instant) {
        self.began_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn end(&self, now: Instant) {
        let began_ns = self.began_ns.swap(0, Ordering::Relaxed);
        let lasted_ns = now.as_nanos().saturating_sub(began_ns);
        self.last_ns.store(lasted_ns, Ordering::Relaxed);
    }

    /// How long a turn lasts now: the last one, or this one so far if that is more.
    pub(in crate::net::stream) fn length(&self, clock: &Clock) -> Duration {
        let began_ns = self.began_ns.load(Ordering::Relaxed);
        let so_far_ns = match began_ns {
            0 => 0,
            began_ns => clock.now().as_nanos().saturating_sub(began_ns),
        };
        Duration::from_nanos(so_far_ns.max(self.last_ns.load(Ordering::Relaxed)))
    }
}
