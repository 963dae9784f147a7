//! Which share of the REGISTERs is dropped before anybody reads them, while the server cannot keep up.
//!
//! What waits longest in the kernel is retransmitted, so a receiver that is behind drops it unread, after it has taken it out of
//! the socket. At twice the load that was two of five that it took out. Here so many are dropped by chance, by a filter in the
//! kernel, that hardly any waits so long. The share follows from how long those that are read have waited, by the rule of PIE
//! (RFC 8033 §4.2): it grows while that is longer than it should be, and while it becomes longer.
//!
//! Chance asks nobody who he is: whoever sends more loses more, and takes from others what he would take by waiting before
//! them. Where devices are challenged, each registration is two requests, and a challenge whose answer is dropped was for
//! nothing. So what shows credentials is not dropped while nearly all of them answer a challenge ([`ShownCredentials`]), unless
//! more than two of three REGISTERs that come show them: then dropping the others is not enough, and all have the same
//! chance. Some always pass.
//!
//! What belongs to calls is not dropped here, unless it hides behind three empty lines: new calls are refused by other means.
//! If REGISTERs are not most of what comes, they are not the load, and none of them is dropped here either.
//!
//! Only what passed is seen. So of what comes, that which had the chance to be dropped counts in full, and the rest for as much
//! less as the other is fewer than it was. And each decision has two bounds, so that a load between the kinds is not now of one
//! and now of the other.

use super::{
    drop_filter::Dropped,
    drop_program::{is_register, shows_credentials},
    shown_credentials::{Judged, ShownCredentials},
};
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
    /// The part of the last datagrams that came that were REGISTERs.
    registers: Majority,
    /// The part of these that showed credentials.
    proving: Majority,
    shown: ShownCredentials,
    /// Datagrams until one is looked at.
    unseen: u32,
    /// From which the next number of these is drawn.
    draw: u32,
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
        // It would grow while nothing follows from it.
        if !self.are_registers_most() {
            self.share = 0.0;
        }
        Some(match self.share {
            0.0 => Dropped::Nothing,
            share if self.spares_credentials() => Dropped::WithoutCredentials(share),
            share => Dropped::Any(share),
        })
    }

    /// Takes in a datagram that is read; looks at a few of them. It passed a filter that drops this, and `judged` says what became
    /// of the credentials that were shown until now.
    pub(super) fn note(
        &mut self,
        datagram: &[u8],
        dropped: Dropped,
        judged: impl FnOnce() -> Judged,
    ) {
        if self.unseen > 0 {
            self.unseen -= 1;
            return;
        }
        self.unseen = self.draw_unseen();
        let is_register = is_register(datagram);
        let is_proving = is_register && shows_credentials(datagram);
        let weight = match dropped {
            _ if !is_register => 1.0 - dropped.share(),
            Dropped::WithoutCredentials(share) if is_proving => 1.0 - share,
            _ => 1.0,
        };
        self.registers.count(is_register, weight, REGISTERS);
        if is_register {
            self.proving.count(is_proving, weight, PROVING);
        }
        if is_proving {
            self.shown.note(UNSEEN + 1, judged());
        }
    }

    /// Each number up to twice the mean is as likely (with the factors of Numerical Recipes): what comes in turns would else be seen
    /// always at the same turn.
    fn draw_unseen(&mut self) -> u32 {
        self.draw = self
            .draw
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        ((u64::from(self.draw) * u64::from(2 * UNSEEN + 1)) >> 32) as u32
    }

    /// Whether the load is registrations.
    pub(super) fn are_registers_most(&self) -> bool {
        self.registers.is_reached
    }

    fn spares_credentials(&self) -> bool {
        self.shown.are_trusted() && !self.proving.is_reached
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

/// The part of the last ones that are so, and whether it is large.
#[derive(Debug, Default)]
struct Majority {
    part: f64,
    /// It was above the upper bound, and has not been below the lower one since.
    is_reached: bool,
}

impl Majority {
    /// Takes one in that counts for so much; one at most.
    fn count(&mut self, is_so: bool, weight: f64, (until, from): (f64, f64)) {
        self.part += (f64::from(u8::from(is_so)) - self.part) * weight / LATELY;
        self.is_reached = self.part > if self.is_reached { until } else { from };
    }
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
/// So many that were looked at, if all of them could be dropped.
const LATELY: f64 = 64.0;
/// On average. To search each would cost a twentieth of a registration.
const UNSEEN: u32 = 12;
/// REGISTERs are the load above the second part, until they are below the first.
const REGISTERS: (f64, f64) = (0.35, 0.5);
/// So with those that show credentials. Half of the REGISTERs do, if each device is challenged once.
const PROVING: (f64, f64) = (0.55, 0.67);

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: &[u8] = b"REGISTER sip:a SIP/2.0\r\nAuthorization: Digest username=\"a\"\r\n\r\n";
    const WITHOUT: &[u8] = b"REGISTER sip:a SIP/2.0\r\n\r\n";
    const OTHER: &[u8] = b"INVITE sip:a SIP/2.0\r\n\r\n";

    /// Reads so many of these, after a filter that drops nothing. All credentials answer a challenge.
    fn read(early: &mut EarlyDrop, judged: &mut Judged, len: u32, datagrams: &[&[u8]]) {
        for index in 0..len as usize {
            let datagram = datagrams[index % datagrams.len()];
            for _ in 0..=UNSEEN {
                judged.answers += u64::from(datagram == WITH);
                early.note(datagram, Dropped::Nothing, || *judged);
            }
        }
    }

    /// One that reads REGISTERs only.
    fn early_drop() -> EarlyDrop {
        let mut early = EarlyDrop::default();
        read(&mut early, &mut Judged::default(), 300, &[WITHOUT]);
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

    #[test]
    fn short_waits_drop_nothing() {
        let mut early = early_drop();
        assert_eq!(after(&mut early, 1000, |_| 29), Dropped::Nothing);
        assert!(early.is_idle());
    }

    #[test]
    fn the_first_look_at_a_long_wait_drops_a_good_part() {
        let first = after(&mut early_drop(), 1, |_| 300).share();
        assert!((0.3..0.5).contains(&first), "{first}");
    }

    #[test]
    fn long_waits_drop_more_and_more_and_never_all() {
        let mut early = early_drop();
        let soon = after(&mut early, 10, |_| 200).share();
        assert!(soon > 0.2, "{soon}");
        let long = after(&mut early, 1000, |_| 200).share();
        assert_eq!(long, SHARE_MAX);
        assert_eq!(after(&mut early, 1000, |_| 0), Dropped::Nothing);
    }

    #[test]
    fn a_wait_that_becomes_shorter_drops_less() {
        let mut early = early_drop();
        let before = after(&mut early, 20, |_| 200).share();
        let now = after(&mut early, 1, |_| 100).share();
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
    fn what_shows_credentials_passes_while_it_answers_challenges_and_is_not_most() {
        let (mut early, mut judged) = (early_drop(), Judged::default());
        let is_any = |dropped| matches!(dropped, Dropped::Any(_));
        assert!(
            is_any(after(&mut early, 10, |_| 200)),
            "nobody is challenged"
        );
        read(&mut early, &mut judged, 300, &[WITHOUT, WITH]);
        let spared = after(&mut early, 10, |_| 200);
        assert!(matches!(spared, Dropped::WithoutCredentials(_)));
        read(&mut early, &mut judged, 300, &[WITH]);
        assert!(is_any(after(&mut early, 10, |_| 200)), "all show them");
        read(&mut early, &mut judged, 300, &[WITHOUT, WITH]);
        let spared = after(&mut early, 10, |_| 200);
        assert!(matches!(spared, Dropped::WithoutCredentials(_)));
        for _ in 0..=UNSEEN {
            (0..200).for_each(|_| early.note(WITH, Dropped::Nothing, || judged));
            (0..200).for_each(|_| early.note(WITHOUT, Dropped::Nothing, || judged));
        }
        assert!(is_any(after(&mut early, 10, |_| 200)), "they are false");
    }

    #[test]
    fn nothing_is_dropped_while_other_messages_are_the_load() {
        let mut early = early_drop();
        let others = [OTHER, OTHER, WITHOUT];
        read(&mut early, &mut Judged::default(), 300, &others);
        assert_eq!(after(&mut early, 100, |_| 200), Dropped::Nothing);
        assert!(!early.are_registers_most());
    }

    /// What comes in a millisecond, where ten can be read.
    #[derive(Default)]
    struct Load {
        /// Those that register for the first time, and are challenged or not.
        newcomers: f64,
        are_challenged: bool,
        /// Those that show credentials at once, right ones and false ones.
        refreshes: f64,
        pretenders: f64,
        /// Messages of calls.
        others: f64,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Message {
        First,
        Proof,
        Pretence,
        Other,
    }

    impl Message {
        fn bytes(self) -> &'static [u8] {
            match self {
                Self::First => WITHOUT,
                Self::Proof | Self::Pretence => WITH,
                Self::Other => OTHER,
            }
        }
    }

    /// A receiver with its filter, in steps of a millisecond.
    struct Loop {
        early: EarlyDrop,
        dropped: Dropped,
        judged: Judged,
        queue: std::collections::VecDeque<(u64, Message)>,
        chance: u64,
        /// How often the filter became one of another kind, and how often it was of each.
        switches: u32,
        kinds: [u32; 3],
        longest_wait_ms: u64,
    }

    impl Loop {
        fn new(seed: u64) -> Self {
            Self {
                early: EarlyDrop::default(),
                dropped: Dropped::Nothing,
                judged: Judged::default(),
                queue: Default::default(),
                chance: seed,
                switches: 0,
                kinds: [0; 3],
                longest_wait_ms: 0,
            }
        }

        /// From 0 to 1 (xorshift).
        fn chance(&mut self) -> f64 {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            (self.chance >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn arrive(&mut self, ms: u64, message: Message, mean: f64) {
            let more = self.chance() < mean.fract();
            for _ in 0..mean as u32 + u32::from(more) {
                let share = match (message, self.dropped) {
                    (Message::Other, _) => 0.0,
                    (Message::Proof | Message::Pretence, Dropped::WithoutCredentials(_)) => 0.0,
                    (_, dropped) => dropped.share(),
                };
                if self.chance() >= share {
                    self.queue.push_back((ms, message));
                }
            }
        }

        /// Returns how many newcomers were challenged.
        fn read(&mut self, ms: u64) -> u32 {
            let mut challenged = 0;
            for place in 0..10 {
                let Some((came, message)) = self.queue.pop_front() else {
                    break;
                };
                if place == 0 {
                    self.look(ms, ms - came);
                }
                challenged += u32::from(message == Message::First);
                self.judged.answers += u64::from(message == Message::Proof);
                let judged = self.judged;
                self.early.note(message.bytes(), self.dropped, || judged);
            }
            challenged
        }

        /// As the filter, it is set anew only if much changes.
        fn look(&mut self, ms: u64, wait_ms: u64) {
            self.longest_wait_ms = self.longest_wait_ms.max(wait_ms);
            let now = Duration::from_millis(ms);
            let Some(dropped) = self.early.look(now, Duration::from_millis(wait_ms)) else {
                return;
            };
            let is_other =
                std::mem::discriminant(&dropped) != std::mem::discriminant(&self.dropped);
            self.switches += u32::from(is_other);
            if is_other || (dropped.share() - self.dropped.share()).abs() > 1.0 / 32.0 {
                self.dropped = dropped;
            }
            self.kinds[match dropped {
                Dropped::Nothing => 0,
                Dropped::Any(_) => 1,
                Dropped::WithoutCredentials(_) => 2,
            }] += 1;
        }

        fn run(&mut self, span: std::ops::Range<u64>, load: &Load) {
            let mut challenged = 0;
            for ms in span {
                self.arrive(ms, Message::First, load.newcomers);
                self.arrive(ms, Message::Proof, load.refreshes + f64::from(challenged));
                self.arrive(ms, Message::Pretence, load.pretenders);
                self.arrive(ms, Message::Other, load.others);
                challenged = self.read(ms) * u32::from(load.are_challenged);
            }
        }

        /// After ten seconds of a load, in which it finds out what that is, and ten in which it has.
        fn after(seed: u64, load: &Load) -> Self {
            let mut receiver = Self::new(seed);
            receiver.run(0..10_000, load);
            let chance = receiver.chance;
            receiver = Self {
                switches: 0,
                kinds: [0; 3],
                longest_wait_ms: 0,
                chance,
                ..receiver
            };
            receiver.run(10_000..20_000, load);
            receiver
        }

        /// Of which kind it was for all of the time, if it was of one, and hardly anything waited long.
        #[track_caller]
        fn assert_steady(&self, kind: usize) {
            let Self {
                switches,
                kinds,
                longest_wait_ms,
                ..
            } = self;
            assert_eq!(*switches, 0, "{kinds:?}");
            assert!(kinds[kind] > 500, "{kinds:?}");
            assert!(*longest_wait_ms < 200, "{longest_wait_ms} ms");
        }
    }

    #[test]
    fn a_load_of_calls_and_registrations_does_not_switch_the_filter_on_and_off() {
        for (seed, registers) in [(1, 12.0), (2, 13.0), (3, 14.0)] {
            let load = Load {
                newcomers: registers,
                others: 20.0 - registers,
                ..Load::default()
            };
            Loop::after(seed, &load).assert_steady(1);
        }
    }

    #[test]
    fn as_many_refreshes_as_newcomers_do_not_switch_it_between_its_kinds() {
        for (seed, refreshes) in [(1, 0.0), (5, 4.0), (2, 4.0), (3, 6.0), (4, 8.0)] {
            let load = Load {
                newcomers: 8.0,
                are_challenged: true,
                refreshes,
                ..Load::default()
            };
            Loop::after(seed, &load).assert_steady(2);
        }
    }

    #[test]
    fn refreshes_that_are_the_load_have_the_chance_of_all() {
        let load = Load {
            newcomers: 2.0,
            are_challenged: true,
            refreshes: 18.0,
            ..Load::default()
        };
        Loop::after(1, &load).assert_steady(1);
    }

    #[test]
    fn a_flood_of_false_credentials_is_not_spared() {
        for (seed, pretenders) in [(1, 3.0), (2, 8.0), (3, 20.0)] {
            let mut load = Load {
                newcomers: 8.0,
                are_challenged: true,
                refreshes: 2.0,
                ..Load::default()
            };
            let mut receiver = Loop::after(seed, &load);
            receiver.assert_steady(2);
            load.pretenders = pretenders;
            receiver.run(20_000..25_000, &load);
            (receiver.kinds, receiver.switches) = ([0; 3], 0);
            receiver.longest_wait_ms = 0;
            receiver.run(25_000..35_000, &load);
            receiver.assert_steady(1);
        }
    }
}
