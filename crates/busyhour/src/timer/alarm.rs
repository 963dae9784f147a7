use crate::{
    clock::Instant,
    sync::atomic::{AtomicU64, Ordering, fence},
};
use std::{fmt, sync::OnceLock};

/// Wakes whoever drives the timers when a deadline earlier than the one it
/// sleeps for is added.
///
/// # Protocol
///
/// ```text
///     adder                                  driver
///   A1 publish the shard's next deadline   D1 publish sleeping_until
///   A2 fence                               D2 fence
///   A3 read sleeping_until;                D3 read every shard's next deadline;
///      earlier? claim the wake, ring          earlier than published? start over
///                                          D4 sleep
/// ```
///
/// The race: a deadline is added while the driver is about to fall asleep. Of
/// the two fences one comes first in the order that both threads agree on. If
/// it is the adder's, D3 reads what A1 wrote, and the driver does not sleep
/// past the deadline. If it is the driver's, A3 reads what D1 wrote, and the
/// adder rings. The ring itself is sticky (a park token, an event counter), so
/// one between D3 and D4 ends the sleep at once.
pub(super) struct Alarm {
    /// When the driver wakes by itself, in nanoseconds; [`AWAKE`] while it runs.
    /// Written by the driver, and by an adder that claims the wake.
    sleeping_until: AtomicU64,
    /// Ends the driver's sleep.
    ring: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self {
            sleeping_until: AtomicU64::new(AWAKE),
            ring: OnceLock::new(),
        }
    }

    /// Installs what ends the driver's sleep; `false` if there is one already.
    pub(super) fn install(&self, ring: Box<dyn Fn() + Send + Sync>) -> bool {
        self.ring.set(ring).is_ok()
    }

    /// D1 to D3: announces a sleep until the earliest deadline, which it returns.
    pub(super) fn prepare_sleep(&self, mut earliest: impl FnMut() -> Instant) -> Instant {
        let mut until = earliest();
        loop {
            self.sleeping_until
                .store(until.as_nanos(), Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let now_earliest = earliest();
            if now_earliest >= until {
                return until;
            }
            until = now_earliest;
        }
    }

    /// The driver is awake and will look at every shard before it sleeps.
    pub(super) fn awake(&self) {
        self.sleeping_until.store(AWAKE, Ordering::Relaxed);
    }

    /// A2 and A3: `deadline` has become the next of its shard.
    pub(super) fn earlier(&self, deadline: Instant) {
        fence(Ordering::SeqCst);
        let until = self.sleeping_until.load(Ordering::Relaxed);
        if deadline.as_nanos() < until && self.claim(until) {
            self.ring();
        }
    }

    /// Ends the driver's sleep whatever it sleeps for.
    pub(super) fn ring(&self) {
        if let Some(ring) = self.ring.get() {
            ring();
        }
    }

    /// Of several adders one rings. Whoever loses to a driver that has just
    /// announced another sleep has been seen by it in D3.
    fn claim(&self, until: u64) -> bool {
        let order = Ordering::Relaxed;
        let claimed = self
            .sleeping_until
            .compare_exchange(until, AWAKE, order, order);
        claimed.is_ok()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Alarm")
            .field("sleeping_until", &self.sleeping_until)
            .finish_non_exhaustive()
    }
}

/// No deadline is earlier than this.
const AWAKE: u64 = 0;
