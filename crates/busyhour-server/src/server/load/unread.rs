//! Whether the datagrams that nobody has read yet form a standing queue.
//!
//! What belongs to calls is handled on the threads that receive, so while they cannot keep
//! up, it waits nowhere but in the kernel. The measure is for how long: the datagrams that
//! wait there, divided by those that were read in a second since the last look. If that was
//! long at each look for a while, the queue stands and is not just a peak (the idea of CoDel,
//! RFC 8289), and new calls are refused until it is short: they cost little then, and the
//! messages of calls that last are read in time. While the kernel's buffer is half full, that
//! holds at once, since it would soon drop messages of any call.

use crate::server::Unread;
use busyhour::clock::Instant;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Looks at the sockets now and then, for threads that ask all the time.
///
/// Only who looks takes the lock; what it found is published by itself.
#[derive(Debug, Default)]
pub(super) struct UnreadWatch {
    queue: Mutex<UnreadQueue>,
    look_at_ns: AtomicU64,
    stands_until_ns: AtomicU64,
}

/// What a series of looks says.
#[derive(Debug, Default)]
struct UnreadQueue {
    last: Option<Look>,
    /// The waits are long since then.
    long_since: Option<Instant>,
    stands: bool,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    read: u64,
}

impl UnreadWatch {
    /// Whether the queue stood at the last look, which is this one if it is time to look
    /// again. A look of long ago says nothing.
    pub(super) fn stands(&self, now: Instant, unread: impl FnOnce() -> Unread) -> bool {
        if now.as_nanos() >= self.look_at_ns.load(Ordering::Relaxed)
            && let Ok(mut queue) = self.queue.try_lock()
        {
            queue.look(now, unread());
            let until = if queue.stands {
                now + LOOKS_APART_MAX
            } else {
                now
            };
            let next = now + LOOK_PERIOD;
            self.look_at_ns.store(next.as_nanos(), Ordering::Relaxed);
            self.stands_until_ns
                .store(until.as_nanos(), Ordering::Relaxed);
        }
        self.stood(now)
    }

    /// Whether the queue stood at the last look.
    pub(super) fn stood(&self, now: Instant) -> bool {
        now.as_nanos() < self.stands_until_ns.load(Ordering::Relaxed)
    }
}

impl UnreadQueue {
    /// This is what the sockets have now.
    fn look(&mut self, now: Instant, unread: Unread) {
        let last = self.last.replace(Look {
            at: now,
            read: unread.read,
        });
        let Some(last) = last.filter(|last| now < last.at + LOOKS_APART_MAX) else {
            // Nobody knows how fast they are read.
            (self.long_since, self.stands) = (None, unread.is_half_full());
            return;
        };
        let wait = wait(unread, unread.read.saturating_sub(last.read), now - last.at);
        self.long_since = match wait >= LONG {
            true => self.long_since.or(Some(now)),
            false => None,
        };
        let is_long = (self.long_since).is_some_and(|since| now >= since + PEAK_MAX);
        self.stands = match self.stands {
            true => wait >= SHORT || unread.is_half_full(),
            false => is_long || unread.is_half_full(),
        };
    }
}

/// How long the last datagram will have waited when it is read, if the others are read as
/// fast as these.
fn wait(unread: Unread, read: u64, within: Duration) -> Duration {
    let each_ns = within.as_nanos() / u128::from(read.max(1));
    let nanos = each_ns * u128::from(unread.waiting);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The system is asked at most so often.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Without a new call for so long, the past is forgotten.
const LOOKS_APART_MAX: Duration = Duration::from_secs(1);
/// With the time that a queue grows before it stands, less than half of the half second after
/// which a client retransmits (RFC 3261's T1).
const LONG: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(25);
const PEAK_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that reads so many datagrams in a millisecond.
    struct Reader {
        watch: UnreadWatch,
        per_ms: u64,
        ms: u64,
        read: u64,
    }

    impl Reader {
        fn new(per_ms: u64) -> Self {
            Self {
                watch: UnreadWatch::default(),
                per_ms,
                ms: 0,
                read: 0,
            }
        }

        /// Looks each 10 ms for so long, while so many wait.
        fn look(&mut self, for_ms: u64, waiting: u64) -> bool {
            let mut stands = false;
            for _ in 0..for_ms / 10 {
                self.pass(10);
                stands = self.look_once(waiting, 0);
            }
            stands
        }

        fn look_once(&self, waiting: u64, filled_permille: u16) -> bool {
            self.watch.stands(self.now(), || Unread {
                waiting,
                read: self.read,
                filled_permille,
            })
        }

        fn stands(&self) -> bool {
            let not_asked = || panic!("the system is asked too often");
            self.watch.stands(self.now(), not_asked)
        }

        fn pass(&mut self, ms: u64) {
            self.ms += ms;
            self.read += ms * self.per_ms;
        }

        fn now(&self) -> Instant {
            Instant::ZERO + Duration::from_millis(self.ms)
        }
    }

    #[test]
    fn a_queue_that_is_read_in_time_does_not_stand_however_long_it_is() {
        assert!(!Reader::new(20).look(5_000, 1_900));
        assert!(!Reader::new(1).look(5_000, 99));
    }

    #[test]
    fn a_queue_stands_when_it_was_long_for_a_while_until_it_is_short() {
        let mut reader = Reader::new(20);
        assert!(!reader.look(100, 3_000), "a peak");
        assert!(reader.look(50, 3_000));
        assert!(reader.look(1_000, 600), "not yet short");
        assert!(!reader.look(10, 400));
        assert!(!reader.look(100, 3_000), "another peak");
    }

    #[test]
    fn one_look_at_a_short_queue_shows_that_it_does_not_stand() {
        let mut reader = Reader::new(20);
        for _ in 0..100 {
            assert!(!reader.look(90, 3_000));
            assert!(!reader.look(10, 1_000));
        }
    }

    #[test]
    fn a_buffer_that_is_half_full_stands_at_once() {
        let mut reader = Reader::new(1_000);
        assert!(!reader.look_once(100, 499));
        for (filled, stands) in [(500, true), (600, true), (10, false)] {
            reader.pass(10);
            assert_eq!(reader.look_once(100, filled), stands);
        }
    }

    #[test]
    fn what_was_long_ago_says_nothing() {
        let mut reader = Reader::new(0);
        assert!(reader.look(500, 10), "nobody reads");
        reader.pass(1_000);
        // A machine that stood still has read nothing meanwhile.
        assert!(!reader.look_once(1_000, 0));
    }

    #[test]
    fn the_system_is_not_asked_for_each_call() {
        let mut reader = Reader::new(1);
        assert!(reader.look_once(0, 500));
        reader.pass(9);
        assert!(reader.stands());
        reader.pass(1);
        assert!(!reader.look_once(0, 0));
        assert!(!reader.stands());
    }
}
