use super::locked_shard::isolate;
use crate::{
    clock::Instant,
    sync::atomic::{AtomicU64, Ordering, fence},
};
use std::{fmt, sync::OnceLock};

/// Wakes the thread that drives the timers when a deadline earlier than the one it
/// sleeps for is added.
///
/// # Protocol
///
/// ```text
///     adder                                  driver
///   A1 publish the shard's next deadline   D1 exchange sleeping_until;
///                                             lowered? ring
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
/// adder calls the hook. The hook is sticky (a park token, an event counter),
/// so a call between D3 and D4 ends the sleep at once.
///
/// There may be several drivers, or a driver and other threads that announce a
/// sleep and never sleep. So no thread may make `sleeping_until` earlier
/// without calling the hook: an adder that finds it early enough wakes no
/// thread, and the thread that announced the later time would sleep on. An
/// adder that claims the wake calls the hook; a driver that announces an
/// earlier sleep than it finds announced calls it, too. A later time needs no
/// wake: the thread that announced the earlier time wakes by itself. No thread
/// writes the word for other reasons; in particular not a driver that wakes up,
/// since another one may be asleep. While a driver runs, the word is a time
/// that has passed or [`AWAKE`], so adders do not call the hook.
pub(in crate::timer) struct DriverWaker {
    /// When the driver wakes by itself, in nanoseconds; [`AWAKE`] once the hook
    /// was called. Written by a driver, and by an adder that claims the wake.
    sleeping_until: AtomicU64,
    /// Ends the driver's sleep. User code: called under no lock.
    ring: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// How often it panicked.
    panicked: AtomicU64,
}

impl DriverWaker {
    pub(in crate::timer) fn new() -> Self {
        Self {
            sleeping_until: AtomicU64::new(AWAKE),
            ring: OnceLock::new(),
            panicked: AtomicU64::new(0),
        }
    }

    /// Installs the hook that ends the driver's sleep; `false` if one is
    /// installed already.
    pub(in crate::timer) fn install(&self, ring: Box<dyn Fn() + Send + Sync>) -> bool {
        self.ring.set(ring).is_ok()
    }

    /// D1 to D3: announces a sleep until the earliest deadline, which it returns.
    pub(in crate::timer) fn prepare_sleep(&self, mut earliest: impl FnMut() -> Instant) -> Instant {
        let mut until = earliest();
        loop {
            let announced = self
                .sleeping_until
                .swap(until.as_nanos(), Ordering::Relaxed);
            if until.as_nanos() < announced {
                self.ring();
            }
            fence(Ordering::SeqCst);
            let now_earliest = earliest();
            if now_earliest >= until {
                return until;
            }
            until = now_earliest;
        }
    }

    /// A2 and A3: `deadline` has become the next of its shard.
    #[inline(never)]
    pub(in crate::timer) fn earlier(&self, deadline: Instant) {
        fence(Ordering::SeqCst);
        let until = self.sleeping_until.load(Ordering::Relaxed);
        if deadline.as_nanos() < until && self.claim(until) && !self.ring() {
            // Perhaps no thread was woken, so the next adder must try again.
            let order = Ordering::Relaxed;
            let _announced_anew = self
                .sleeping_until
                .compare_exchange(AWAKE, until, order, order);
        }
    }

    /// Ends the driver's sleep whatever it sleeps for; `false` if the hook panicked.
    fn ring(&self) -> bool {
        let Some(ring) = self.ring.get() else {
            return true;
        };
        let has_rung = isolate(ring).is_some();
        if !has_rung {
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
        has_rung
    }

    /// How often the hook panicked.
    pub(in crate::timer) fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    /// Of several adders one wakes the driver. If an adder loses to a driver
    /// that has just announced another sleep, that driver has seen the adder's
    /// deadline in D3.
    fn claim(&self, until: u64) -> bool {
        let order = Ordering::Relaxed;
        let claimed = self
            .sleeping_until
            .compare_exchange(until, AWAKE, order, order);
        claimed.is_ok()
    }
}

impl fmt::Debug for DriverWaker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DriverWaker")
            .field("sleeping_until", &self.sleeping_until)
            .finish_non_exhaustive()
    }
}

/// No deadline is earlier than this.
const AWAKE: u64 = 0;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::{panic::panic_any, sync::Arc};

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// A waker, and how often it has called its hook.
    fn waker() -> (DriverWaker, Arc<AtomicU64>) {
        let (waker, rung) = (DriverWaker::new(), Arc::new(AtomicU64::new(0)));
        let rings = Arc::clone(&rung);
        let ring = move || {
            rings.fetch_add(1, Ordering::Relaxed);
        };
        assert!(waker.install(Box::new(ring)));
        (waker, rung)
    }

    #[test]
    fn only_the_first_add_of_an_earlier_deadline_calls_the_hook() {
        let (waker, rung) = waker();
        let rung = || rung.load(Ordering::Relaxed);
        waker.earlier(at(0));
        waker.earlier(at(500));
        assert_eq!(rung(), 0, "nobody sleeps");
        assert_eq!(waker.prepare_sleep(|| at(100)), at(100));
        waker.earlier(at(101));
        waker.earlier(at(100));
        assert_eq!(rung(), 0, "the driver wakes in time by itself");
        waker.earlier(at(99));
        assert_eq!(rung(), 1);
        waker.earlier(at(98));
        assert_eq!(rung(), 1, "it has been woken");
        assert_eq!(waker.prepare_sleep(|| at(98)), at(98));
        waker.earlier(at(97));
        assert_eq!(rung(), 2);
    }

    #[test]
    fn announcing_an_earlier_sleep_wakes_the_other_sleeper() {
        let (waker, rung) = waker();
        let announce = |until| {
            assert_eq!(waker.prepare_sleep(|| at(until)), at(until));
            rung.load(Ordering::Relaxed)
        };
        assert_eq!(announce(100), 0, "nobody sleeps");
        assert_eq!(announce(100), 0, "the other one wakes in time");
        assert_eq!(announce(200), 0, "the other one wakes before");
        assert_eq!(announce(150), 1);
    }

    #[test]
    fn a_deadline_that_comes_in_between_is_announced_instead() {
        let (waker, rung) = waker();
        let mut seen = [at(100), at(50), at(50)].into_iter();
        let until = waker.prepare_sleep(|| seen.next().unwrap_or(Instant::FAR_FUTURE));
        assert_eq!((until, seen.next()), (at(50), None));
        waker.earlier(at(60));
        assert_eq!(rung.load(Ordering::Relaxed), 1, "the sleep until 100");
        waker.earlier(at(40));
        assert_eq!(rung.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_hook_that_panics_is_counted_and_the_next_add_calls_it_again() {
        let waker = DriverWaker::new();
        assert!(waker.install(Box::new(|| panic_any("no bell"))));
        assert!(!waker.install(Box::new(|| ())), "there is one");
        assert_eq!(waker.prepare_sleep(|| at(100)), at(100));
        assert_eq!(waker.panicked(), 0);
        for count in 1..4 {
            waker.earlier(at(90));
            assert_eq!(waker.panicked(), count);
        }
    }
}
