//! Whether a socket has more to read than is read, and not just for a moment.
//!
//! Full calls alone do not say so: callers who wait for their answers, or a machine that pauses, leave as much each time, and it
//! is read soon. So each wait has to be long as well (the idea of CoDel, RFC 8289), for longer than the processor's share of a
//! control group pauses.

use std::time::Duration;

/// Watches what calls bring, and how long it has waited.
///
/// Times are since the Unix epoch, as the kernel gives arrival times; who reads gives one for each call. A clock that is set
/// forward may end a wait too soon, so that a little is dropped early.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    /// When the last call returned that brought as many as it asked for.
    now: Duration,
    /// Since then each call brought as many as it asked for.
    full_since: Option<Duration>,
    /// Since then the first that each call brought had waited for long.
    long_since: Option<Duration>,
}

impl StandingQueue {
    /// A call has brought as many as it asked for.
    pub(super) fn note_full(&mut self, now: Duration) {
        if now < self.now {
            // The clock was set back.
            self.note_end();
        }
        self.now = now;
        self.full_since.get_or_insert(now);
    }

    /// A call has brought fewer, or nothing.
    pub(super) fn note_end(&mut self) {
        *self = Self::default();
    }

    /// The first that this call has brought had waited so long.
    pub(super) fn note_wait(&mut self, wait: Duration) {
        let is_long = self.is_full() && wait >= LONG;
        self.long_since = is_long.then(|| self.long_since.unwrap_or(self.now));
    }

    /// Whether calls bring as many as they ask for.
    pub(super) fn is_full(&self) -> bool {
        self.full_since.is_some()
    }

    /// Whether it may stand soon: then waits have to be known.
    pub(super) fn may_stand(&self) -> bool {
        self.has_lasted(self.full_since, FULL_BEFORE_WAITS)
    }

    /// Whether it stands.
    pub(super) fn stands(&self) -> bool {
        self.has_lasted(self.full_since, FULL_FOR) && self.has_lasted(self.long_since, LONG_FOR)
    }

    fn has_lasted(&self, since: Option<Duration>, long: Duration) -> bool {
        since.is_some_and(|since| self.now.saturating_sub(since) >= long)
    }
}

/// When the kernel is asked for arrival times for the first time, what waits already has none. So early, the waits are known in
/// time where twice as many come as are read.
const FULL_BEFORE_WAITS: Duration = Duration::from_millis(50);
/// A shorter burst is read later, and nothing of it is lost.
const FULL_FOR: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_millis(30);
/// A control group's share is given anew each 100 ms.
const LONG_FOR: Duration = Duration::from_millis(110);

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Duration = Duration::from_secs(1_800_000_000);

    /// When it stands, in ms, if the first of each call has waited as long as this says; a call takes 2 ms.
    fn stands_after(wait_ms: impl Fn(u64) -> u64) -> Option<u64> {
        let mut queue = StandingQueue::default();
        (0..2000).step_by(2).find(|ms| {
            queue.note_full(NOON + Duration::from_millis(*ms));
            if queue.may_stand() {
                queue.note_wait(Duration::from_millis(wait_ms(*ms)));
            }
            queue.stands()
        })
    }

    /// What came before its time was recorded seems to have come now.
    fn recorded(came_ms: u64, now_ms: u64) -> u64 {
        if came_ms < 50 { 0 } else { now_ms - came_ms }
    }

    #[test]
    fn it_stands_after_a_quarter_of_a_second_of_twice_the_load() {
        assert_eq!(stands_after(|ms| recorded(ms / 2, ms)), Some(250));
        let five_times = stands_after(|ms| recorded(ms / 5, ms)).unwrap();
        assert!((250..400).contains(&five_times), "{five_times}");
    }

    #[test]
    fn full_calls_with_short_waits_or_pauses_are_none() {
        assert_eq!(stands_after(|_| 10), None);
        let paused = |ms: u64| if ms % 100 < 20 { 70 } else { 10 };
        assert_eq!(stands_after(paused), None);
    }

    #[test]
    fn a_call_that_brings_fewer_begins_anew() {
        let mut queue = StandingQueue::default();
        queue.note_full(NOON);
        queue.note_wait(LONG);
        queue.note_full(NOON + FULL_FOR);
        assert!(queue.stands() && queue.is_full());
        queue.note_end();
        assert!(!queue.stands() && !queue.is_full());
        queue.note_wait(LONG);
        assert_eq!(queue.long_since, None, "of a call that was not full");
        queue.note_full(NOON + FULL_FOR);
        queue.note_wait(LONG);
        assert!(!queue.may_stand());
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let mut queue = StandingQueue::default();
        queue.note_full(NOON);
        queue.note_wait(LONG);
        let set_back = NOON - Duration::from_secs(3600);
        queue.note_full(set_back);
        queue.note_wait(LONG);
        assert!(!queue.may_stand());
        queue.note_full(set_back + FULL_FOR);
        assert!(queue.stands(), "it does not wait for the old time");
    }
}
