//! The time by which leases end: calendar time that does not change when somebody sets
//! the clock.
//!
//! A stored lease has to end at a moment that the next start can find again. Calendar
//! time is not suitable: if a server starts with a clock that is a day behind, and
//! again after somebody has corrected it, every binding seems to have ended long ago.
//! So leases end by a separate calendar of the store, the *steady* one.
//!
//! While the machine runs, the steady calendar advances with the time since the
//! machine's boot, which nobody can set, and each start of the server on the same boot
//! continues it: whatever happens to the clock in the meantime, the remaining lifetime
//! of a lease is right to the nanosecond. After another boot, or on another machine,
//! only the clock can tell how much time has passed. So the store also keeps the last
//! difference of the two, checked each second, and applies it again: this removes the
//! error that the clock had when the steady calendar began, and only the clock's error
//! between the two boots remains. Even then a lease never lives longer than was granted
//! ([`Lease::remaining`](busyhour_registrar::Lease::remaining)).
//!
//! If a base could not be stored, there is no harm: within a boot it equals the one
//! before it, and after the boot the result is as if the clock had not been set.

use busyhour::clock::{Clock, UnixTime};
use busyhour_store::{Change, Contents, SettingKind};
use serde::{Deserialize, Serialize};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The steady calendar of one life of a server.
#[derive(Debug)]
pub(super) struct Steady {
    boot: Option<Box<str>>,
    /// What the steady calendar says at the boot.
    origin_ns: u64,
    /// The stored calendar time of the boot; [`UNKNOWN`] if there is none.
    stored_ns: AtomicU64,
}

/// What the store keeps of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    /// Which boot; none where that is not known.
    boot: Option<Box<str>>,
    /// What the steady calendar says at the boot.
    steady_ns: u64,
    /// The last calendar time of the boot, by the clock.
    clock_ns: u64,
}

/// What the clock says now.
#[derive(Debug, Clone, Copy)]
struct Reading {
    unix: UnixTime,
    since_boot: Duration,
}

impl Steady {
    /// Continues the stored calendar on this boot.
    fn resume(base: Option<&Base>, boot: Option<Box<str>>, now: Reading) -> Self {
        let clock_ns = now.boot_ns();
        let origin_ns = match base {
            Some(base) if base.boot.is_some() && base.boot == boot => base.steady_ns,
            Some(base) => base.steady_of(clock_ns),
            None => clock_ns,
        };
        Self {
            boot,
            origin_ns,
            stored_ns: AtomicU64::new(UNKNOWN),
        }
    }

    pub(super) fn at(&self, since_boot: Duration) -> UnixTime {
        UnixTime::from_nanos(self.origin_ns) + since_boot
    }

    /// The value to store, if the clock was set since the last one was stored.
    pub(super) fn news(&self, clock: &Clock) -> Option<Base> {
        self.news_at(Reading::of(clock))
    }

    fn news_at(&self, now: Reading) -> Option<Base> {
        let clock_ns = now.boot_ns();
        let stored_ns = self.stored_ns.load(Ordering::Relaxed);
        (stored_ns == UNKNOWN || stored_ns.abs_diff(clock_ns) >= STEP_MIN_NS).then(|| Base {
            boot: self.boot.clone(),
            steady_ns: self.origin_ns,
            clock_ns,
        })
    }

    /// That is durable now.
    pub(super) fn stored(&self, base: &Base) {
        self.stored_ns.store(base.clock_ns, Ordering::Relaxed);
    }
}

impl Base {
    /// What stores it.
    pub(super) fn change(&self) -> Change {
        Change::PutSetting {
            kind: SettingKind::Server,
            name: NAME.to_owned(),
            value: self.text(),
        }
    }

    /// As it stands in a row.
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// # Errors
    ///
    /// When it is not the text of one.
    fn of_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The steady time of a calendar time, by the last difference of the two.
    fn steady_of(&self, clock_ns: u64) -> u64 {
        let apart = i128::from(self.steady_ns) - i128::from(self.clock_ns);
        let steady_ns = i128::from(clock_ns) + apart;
        // Before 1970 there is nothing to write down: it begins anew there.
        u64::try_from(steady_ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl Reading {
    fn of(clock: &Clock) -> Self {
        Self {
            unix: clock.unix_time(),
            since_boot: clock.since_boot(),
        }
    }

    /// What the clock's calendar says of the boot.
    fn boot_ns(self) -> u64 {
        let since_ns = u64::try_from(self.since_boot.as_nanos()).unwrap_or(u64::MAX);
        self.unix.as_nanos().saturating_sub(since_ns)
    }
}

/// Goes on with what the store keeps.
pub(super) fn resume(contents: &Contents, clock: &Clock) -> Steady {
    let stored = contents
        .settings
        .get(&(SettingKind::Server, NAME.to_owned()));
    let base = stored.map(|text| Base::of_text(text)).transpose();
    let base = base.unwrap_or_else(|reason| {
        tracing::warn!(reason, "the stored state of the clock cannot be read");
        None
    });
    Steady::resume(base.as_ref(), clock.boot_id(), Reading::of(clock))
}

/// The steady time now, for a program that writes leases while no server runs.
pub(crate) fn steady_time(contents: &Contents, clock: &Clock) -> UnixTime {
    resume(contents, clock).at(clock.since_boot())
}

/// Of the setting.
const NAME: &str = "steady";
/// No calendar says so.
const UNKNOWN: u64 = u64::MAX;
/// A clock that is slewed slowly must not cause a write each second.
const STEP_MIN_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What happens to the machine between two checks.
    #[derive(Debug, Clone)]
    enum Operation {
        /// This many seconds pass.
        Pass(u32),
        /// The clock is set to a time that is wrong by this many seconds.
        SetClock(i32),
        /// The check that the server makes each second.
        Look,
        /// The server ends, and is started again.
        Restart,
        /// The machine is off for this many seconds, while its clock goes on.
        Reboot(u32),
    }

    /// The real time, and the time that the machine shows.
    struct Machine {
        now_s: u64,
        booted_s: u64,
        boot: u64,
        wrong_by_s: i64,
        stored: Option<String>,
        steady: Steady,
    }

    impl Machine {
        fn new(wrong_by_s: i64) -> Self {
            let (now_s, booted_s, boot) = (START_S, START_S - 500, 1);
            let reading = reading(now_s, booted_s, wrong_by_s);
            let mut machine = Self {
                now_s,
                booted_s,
                boot,
                wrong_by_s,
                stored: None,
                steady: Steady::resume(None, name(boot), reading),
            };
            machine.look();
            machine
        }

        fn apply(&mut self, operation: &Operation) {
            match operation {
                Operation::Pass(seconds) => self.now_s += u64::from(*seconds),
                Operation::SetClock(by) => self.wrong_by_s = (*by).into(),
                Operation::Look => self.look(),
                Operation::Restart => self.restart(),
                Operation::Reboot(seconds) => {
                    // The server ran until then, and checked each second.
                    self.look();
                    self.now_s += u64::from(*seconds);
                    (self.booted_s, self.boot) = (self.now_s - 3, self.boot + 1);
                    self.restart();
                }
            }
        }

        fn restart(&mut self) {
            let base = self.stored.as_deref().map(Base::of_text);
            let base = base.transpose().unwrap();
            self.steady = Steady::resume(base.as_ref(), name(self.boot), self.reading());
            self.look();
        }

        fn look(&mut self) {
            if let Some(base) = self.steady.news_at(self.reading()) {
                self.steady.stored(&base);
                self.stored = Some(base.text());
            }
        }

        fn reading(&self) -> Reading {
            reading(self.now_s, self.booted_s, self.wrong_by_s)
        }

        fn steady_s(&self) -> u64 {
            self.steady.at(self.reading().since_boot).as_secs()
        }
    }

    fn reading(now_s: u64, booted_s: u64, wrong_by_s: i64) -> Reading {
        Reading {
            unix: UnixTime::from_secs(now_s.saturating_add_signed(wrong_by_s)),
            since_boot: Duration::from_secs(now_s - booted_s),
        }
    }

    fn name(boot: u64) -> Option<Box<str>> {
        Some(boot.to_string().into())
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..100_000_u32).prop_map(Operation::Pass),
            (-200_000..200_000).prop_map(Operation::SetClock),
            Just(Operation::Look),
            Just(Operation::Restart),
            (3..100_000_u32).prop_map(Operation::Reboot),
        ]
    }

    proptest! {
        /// The oracle is a clock outside of the machine.
        #[test]
        fn the_steady_time_follows_real_time_whatever_the_clock_says(
            wrong_by_s in -200_000_i64..200_000,
            operations in proptest::collection::vec(operation(), 0..60),
        ) {
            let mut machine = Machine::new(wrong_by_s);
            let (begun_s, steady_s) = (machine.now_s, machine.steady_s());
            for operation in &operations {
                machine.apply(operation);
                prop_assert_eq!(machine.steady_s() - steady_s, machine.now_s - begun_s);
            }
        }
    }

    #[test]
    fn a_clock_set_while_the_machine_was_off_is_believed() {
        let mut machine = Machine::new(0);
        let before_s = machine.steady_s();
        machine.apply(&Operation::Reboot(10));
        assert_eq!(machine.steady_s() - before_s, 10);
        machine.now_s += 5;
        (machine.booted_s, machine.boot, machine.wrong_by_s) = (machine.now_s, 9, 3600);
        machine.restart();
        assert_eq!(machine.steady_s() - before_s, 3615);
    }

    #[test]
    fn an_unknown_boot_never_equals_another() {
        let base = Steady::resume(None, None, reading(START_S, START_S - 9, 0));
        let base = base.news_at(reading(START_S, START_S - 9, 0)).unwrap();
        let again = reading(START_S + 7, START_S + 6, 0);
        let steady = Steady::resume(Some(&base), None, again);
        assert_eq!(steady.at(again.since_boot).as_secs(), START_S + 7);
    }

    #[test]
    fn a_clock_that_forgot_the_year_begins_in_1970() {
        let late = reading(START_S, START_S - 9, 0);
        let mut base = Steady::resume(None, name(1), late).news_at(late).unwrap();
        base.steady_ns = 0;
        let early = reading(20, 10, 0);
        let steady = Steady::resume(Some(&base), name(2), early);
        assert_eq!(steady.at(early.since_boot).as_secs(), 10);
        assert_eq!(Base::of_text(&base.text()).unwrap(), base);
    }

    const START_S: u64 = 1_800_000_000;
}
