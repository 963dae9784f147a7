//! Which share of the REGISTERs is dropped before anybody reads them, while the server cannot keep up.
//!
//! What waits longest in the kernel is retransmitted, so a receiver that is behind drops it unread, after it has taken it out of
//! the socket. At twice the load that was two of five that it took out. Here so many are dropped by chance, by a filter in the
//! kernel, that hardly any waits so long. The share follows from how long those that are read have waited, by the rule of PIE
//! (RFC 8033 §4.2): it grows while that is longer than it should be, and while it becomes longer.
//!
//! Chance asks nobody who he is: whoever sends more loses more, and takes from others what he would take by waiting before
//! them. Where devices are challenged, each registration is two requests, and a challenge whose answer is dropped was for
//! nothing. So what shows credentials is not dropped, unless more than two of three REGISTERs that are read do: then somebody
//! shows them who was not asked, and all have the same chance. Some always pass.
//!
//! What belongs to calls is never dropped here: new calls are refused by other means. If REGISTERs are not most of what is
//! read, they are not the load, and none of them is dropped here either.

use super::drop_filter::{CREDENTIALS, Dropped};
use memchr::memmem;
use std::time::Duration;

/// The share that is dropped, and what it was computed from.
#[derive(Debug, Default)]
pub(super) struct EarlyDrop {
    share: f64,
    /// How long the oldest datagram had waited at the last look. None at first (RFC 8033 §4.2), so the first look at a long wait
    /// begins with a large share: the load may pause every few ms, and each pause begins anew.
    wait_s: f64,
    /// When the next look is due, since the Unix epoch.
    due: Duration,
    /// The part of the last datagrams that were REGISTERs.
    registers: f64,
    /// The part of these that showed credentials.
    proving: f64,
    /// Datagrams until one is looked at.
    unseen: u32,
}

impl EarlyDrop {
    /// Takes in how long a datagram has waited that is read `now`, since the Unix epoch. Returns what should be dropped, if that
    /// was computed anew.
    pub(super) fn look(&mut self, now: Duration, wait: Duration) -> Option<Dropped> {
        if now < self.due && self.due - now <= PERIOD {
            return None;
        }
        self.due = now + PERIOD;
        let wait_s = wait.as_secs_f64();
        let step = OF_EXCESS * (wait_s - WAIT_GOOD_S) + OF_GROWTH * (wait_s - self.wait_s);
        self.wait_s = wait_s;
        self.share = match wait_s < WAIT_NONE_S {
            true if self.share < SHARE_MIN => 0.0,
            // Nothing is left to do, or soon.
            true => self.share * KEPT_WITHOUT_WAIT,
            false => (self.share + step).clamp(0.0, SHARE_MAX),
        };
        Some(match self.share {
            share if share == 0.0 || !self.are_registers_most() => Dropped::Nothing,
            share if PROVING.contains(&self.proving) => Dropped::WithoutCredentials(share),
            share => Dropped::Any(share),
        })
    }

    /// Takes in a datagram that is read; looks at a few of them.
    pub(super) fn note(&mut self, datagram: &[u8]) {
        if self.unseen > 0 {
            self.unseen -= 1;
            return;
        }
        self.unseen = UNSEEN;
        let is_register = datagram.starts_with(b"REGISTER ");
        count(&mut self.registers, is_register);
        if is_register {
            count(
                &mut self.proving,
                memmem::find(datagram, CREDENTIALS).is_some(),
            );
        }
    }

    /// Whether the load is registrations.
    pub(super) fn are_registers_most(&self) -> bool {
        self.registers > 0.5
    }

    /// The load is over, or is not known yet. What kind it is stays.
    pub(super) fn rest(&mut self) {
        (self.share, self.wait_s) = (0.0, 0.0);
    }

    /// Whether nothing is dropped.
    pub(super) fn is_idle(&self) -> bool {
        self.share == 0.0
    }
}

/// The part of the last ones that are so.
fn count(part: &mut f64, is_so: bool) {
    *part += (f64::from(u8::from(is_so)) - *part) / LATELY;
}

const PERIOD: Duration = Duration::from_millis(16);
/// So long that the receiver finds something whenever there is room inside.
const WAIT_GOOD_S: f64 = 0.03;
const WAIT_NONE_S: f64 = 0.005;
const KEPT_WITHOUT_WAIT: f64 = 0.8;
const SHARE_MIN: f64 = 1.0 / 64.0;
/// By RFC 8033 §5.1, in a second: how much a second too long, and a second more than at the last look, add to the share.
const OF_EXCESS: f64 = 0.125;
const OF_GROWTH: f64 = 1.25;
/// Of sixteen REGISTERs one passes at least.
const SHARE_MAX: f64 = 15.0 / 16.0;
/// So many that were looked at.
const LATELY: f64 = 64.0;
/// To search each would cost a twentieth of a registration.
const UNSEEN: u32 = 12;
/// Half of them, if each device is challenged once.
const PROVING: std::ops::Range<f64> = 0.1..0.67;

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: &[u8] = b"REGISTER sip:a SIP/2.0\r\nAuthorization: Digest username=\"a\"\r\n\r\n";
    const WITHOUT: &[u8] = b"REGISTER sip:a SIP/2.0\r\n\r\n";

    /// Reads so many of these.
    fn read(early: &mut EarlyDrop, len: u32, datagrams: &[&[u8]]) {
        for index in 0..len as usize {
            let datagram = datagrams[index % datagrams.len()];
            (0..=UNSEEN).for_each(|_| early.note(datagram));
        }
    }

    /// One that reads REGISTERs only.
    fn early_drop() -> EarlyDrop {
        let mut early = EarlyDrop::default();
        read(&mut early, 300, &[WITHOUT]);
        early
    }

    /// After so many looks at such waits in ms.
    fn after(early: &mut EarlyDrop, looks: u32, wait_ms: impl Fn(u32) -> u64) -> Dropped {
        let mut last = Dropped::Nothing;
        for look in 0..looks {
            let now = early.due + Duration::from_millis(1);
            last = early
                .look(now, Duration::from_millis(wait_ms(look)))
                .unwrap();
        }
        last
    }

    fn share(dropped: Dropped) -> f64 {
        match dropped {
            Dropped::Nothing => 0.0,
            Dropped::WithoutCredentials(share) | Dropped::Any(share) => share,
        }
    }

    #[test]
    fn short_waits_drop_nothing() {
        let mut early = early_drop();
        assert_eq!(after(&mut early, 1000, |_| 29), Dropped::Nothing);
        assert!(early.is_idle());
    }

    #[test]
    fn the_first_look_at_a_long_wait_drops_a_good_part() {
        let first = share(after(&mut early_drop(), 1, |_| 300));
        assert!((0.3..0.5).contains(&first), "{first}");
    }

    #[test]
    fn long_waits_drop_more_and_more_and_never_all() {
        let mut early = early_drop();
        let soon = share(after(&mut early, 10, |_| 200));
        assert!(soon > 0.2, "{soon}");
        let long = share(after(&mut early, 1000, |_| 200));
        assert_eq!(long, SHARE_MAX);
        assert_eq!(after(&mut early, 1000, |_| 0), Dropped::Nothing);
    }

    #[test]
    fn a_wait_that_becomes_shorter_drops_less() {
        let mut early = early_drop();
        let before = share(after(&mut early, 20, |_| 200));
        let now = share(after(&mut early, 1, |_| 100));
        assert!(now < before, "{now} {before}");
    }

    #[test]
    fn looks_are_some_time_apart() {
        let mut early = early_drop();
        let at = |ms| Duration::from_secs(1) + Duration::from_millis(ms);
        assert!(early.look(at(0), Duration::ZERO).is_some());
        assert!(early.look(at(15), Duration::ZERO).is_none());
        assert!(early.look(at(16), Duration::ZERO).is_some());
        // The clock was set back.
        assert!(early.look(Duration::ZERO, Duration::ZERO).is_some());
    }

    #[test]
    fn what_shows_credentials_passes_where_about_half_do() {
        let mut early = early_drop();
        let is_any = |dropped| matches!(dropped, Dropped::Any(_));
        assert!(
            is_any(after(&mut early, 10, |_| 200)),
            "nobody is challenged"
        );
        read(&mut early, 300, &[WITHOUT, WITH]);
        let preferred = after(&mut early, 10, |_| 200);
        assert!(matches!(preferred, Dropped::WithoutCredentials(_)));
        read(&mut early, 300, &[WITH]);
        assert!(
            is_any(after(&mut early, 10, |_| 200)),
            "a flood of credentials"
        );
    }

    #[test]
    fn nothing_is_dropped_while_other_messages_are_the_load() {
        let mut early = early_drop();
        read(
            &mut early,
            300,
            &[
                b"INVITE sip:a SIP/2.0\r\n",
                b"BYE sip:a SIP/2.0\r\n",
                WITHOUT,
            ],
        );
        assert_eq!(after(&mut early, 100, |_| 200), Dropped::Nothing);
        assert!(!early.are_registers_most());
    }
}
