//! Whether a socket has more to read than is read, and not just for a moment.
//!
//! Full calls alone do not say so: callers who wait for their answers, or a machine that pauses, leave as much each time, and it
//! is read soon. So each wait has to be long as well (the idea of CoDel, RFC 8289), for longer than the processor's share of a
//! control group pauses.

use std::time::{Duration, Instant};

/// Watches what calls bring, and how long it has waited.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    /// Since then each call brought as many as it asked for.
    full_since: Option<Instant>,
    /// Since then the first that each call brought had waited for long.
    long_since: Option<Instant>,
}

impl StandingQueue {
    /// A call has brought as many as it asked for.
    pub(super) fn note_full(&mut self, now: Instant) {
        self.full_since.get_or_insert(now);
    }

    /// A call has brought fewer, or nothing.
    pub(super) fn note_end(&mut self) {
        *self = Self::default();
    }

    /// The first that a call has brought had waited so long.
    pub(super) fn note_wait(&mut self, now: Instant, wait: Duration) {
        self.long_since = (wait >= LONG).then(|| self.long_since.unwrap_or(now));
    }

    /// Whether calls bring as many as they ask for.
    pub(super) fn is_full(&self) -> bool {
        self.full_since.is_some()
    }

    /// Whether it may stand soon: then waits have to be known.
    pub(super) fn may_stand(&self, now: Instant) -> bool {
        has_lasted(self.full_since, now, FULL_BEFORE_WAITS)
    }

    /// Whether it stands.
    pub(super) fn stands(&self, now: Instant) -> bool {
        has_lasted(self.full_since, now, FULL_FOR) && has_lasted(self.long_since, now, LONG_FOR)
    }
}

fn has_lasted(since: Option<Instant>, now: Instant, long: Duration) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= long)
}

/// What waits before has no arrival time. So early, the waits are known in time where twice as many come as are read.
const FULL_BEFORE_WAITS: Duration = Duration::from_millis(50);
/// A shorter burst is read later, and nothing of it is lost.
const FULL_FOR: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_millis(30);
/// A control group's share is given anew each 100 ms.
const LONG_FOR: Duration = Duration::from_millis(110);

#[cfg(test)]
mod tests {
    use super::*;

    /// When it stands, in ms, if the first of each call has waited as long as this says; a call takes 2 ms.
    fn stands_after(wait_ms: impl Fn(u64) -> u64) -> Option<u64> {
        let (mut queue, begin) = (StandingQueue::default(), Instant::now());
        (0..2000).step_by(2).find(|ms| {
            let now = begin + Duration::from_millis(*ms);
            queue.note_full(now);
            if queue.may_stand(now) {
                queue.note_wait(now, Duration::from_millis(wait_ms(*ms)));
            }
            queue.stands(now)
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
        let (mut queue, now) = (StandingQueue::default(), Instant::now());
        let later = now + FULL_FOR;
        queue.note_full(now);
        queue.note_wait(now, LONG);
        assert!(queue.stands(later) && queue.is_full());
        queue.note_end();
        assert!(!queue.stands(later) && !queue.is_full());
        queue.note_full(later);
        queue.note_wait(later, LONG);
        assert!(!queue.may_stand(later));
    }
}
