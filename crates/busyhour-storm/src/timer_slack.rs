//! How late Linux may let a sleep end.

use nix::sys::prctl;

/// Until it is dropped, the sleeps of this thread and of those that it starts end on time. Linux lets them end up to 50 µs late, to wake
/// several threads at once. At 20,000 registrations a second that is as long as from one to the next: they would leave in groups, and
/// each would have waited for the storm itself.
pub(crate) struct TimerSlack {
    before_ns: Option<u64>,
}

impl TimerSlack {
    pub fn smallest() -> Self {
        let before_ns = prctl::get_timerslack().ok();
        // Where the system refuses, registrations leave a little later than they are due, as their latency shows.
        let _ = prctl::set_timerslack(1);
        Self {
            before_ns: before_ns.and_then(|slack| u64::try_from(slack).ok()),
        }
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        let _ = self.before_ns.map(prctl::set_timerslack);
    }
}
