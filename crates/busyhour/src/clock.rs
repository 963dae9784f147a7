//! Time: a monotonic [`Instant`] for deadlines, a [`UnixTime`] for people and
//! storage, and a [`Clock`] that is either the machine's or a simulation's.
//!
//! Nothing else in Busyhour reads the time. Protocol and data-structure code
//! takes `now` as an argument; the owner of the loop reads the clock.

mod boot;

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A source of monotonic and calendar time; cheap to clone.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use busyhour::clock::{Clock, UnixTime};
///
/// let clock = Clock::simulated(UnixTime::from_secs(1_700_000_000));
/// let before = clock.now();
/// clock.as_virtual().unwrap().advance(Duration::from_secs(5));
/// assert_eq!(clock.now() - before, Duration::from_secs(5));
/// assert_eq!(clock.unix_time().as_secs(), 1_700_000_005);
/// ```
#[derive(Debug, Clone)]
pub struct Clock(ClockSource);

#[derive(Debug, Clone)]
enum ClockSource {
    Machine(std::time::Instant),
    Virtual(Arc<VirtualClock>),
}

impl Clock {
    /// The machine's clock; its monotonic origin is the time of this call.
    pub fn machine() -> Self {
        Self(ClockSource::Machine(std::time::Instant::now()))
    }

    /// A clock that stands still until the program advances it.
    pub fn simulated(start: UnixTime) -> Self {
        Self(ClockSource::Virtual(Arc::new(VirtualClock::new(start))))
    }

    /// Monotonic time since the clock's origin. Costs about 22 ns on the machine's clock.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            ClockSource::Machine(origin) => Instant::from_elapsed(origin.elapsed()),
            ClockSource::Virtual(clock) => clock.now(),
        }
    }

    /// Calendar time; may jump when an operator or NTP steps it.
    pub fn unix_time(&self) -> UnixTime {
        match &self.0 {
            ClockSource::Machine(_) => UnixTime::from_system(SystemTime::now()),
            ClockSource::Virtual(clock) => clock.unix_time(),
        }
    }

    /// Time since the machine started, including time in which it was
    /// suspended; changes of the calendar do not affect it. Costs about as much
    /// as [`now`](Self::now).
    ///
    /// Two processes may compare their values if [`boot_id`](Self::boot_id)
    /// returns the same text to both. On systems other than Linux it begins
    /// with the clock.
    #[inline]
    pub fn since_boot(&self) -> Duration {
        match &self.0 {
            ClockSource::Machine(origin) => boot::elapsed().unwrap_or_else(|| origin.elapsed()),
            ClockSource::Virtual(clock) => clock.since_boot(),
        }
    }

    /// Identifies the start of the machine from which
    /// [`since_boot`](Self::since_boot) counts: a different text after each
    /// start, and on each machine. `None` if it is not known.
    ///
    /// Reads files; call it when the program starts.
    pub fn boot_id(&self) -> Option<Box<str>> {
        match &self.0 {
            ClockSource::Machine(_) => boot::id(),
            ClockSource::Virtual(clock) => clock.boot_id(),
        }
    }

    /// The controls of a simulated clock; `None` for the machine's.
    pub fn as_virtual(&self) -> Option<&VirtualClock> {
        match &self.0 {
            ClockSource::Machine(_) => None,
            ClockSource::Virtual(clock) => Some(clock),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::machine()
    }
}

/// The controls of a simulated [`Clock`].
#[derive(Debug)]
pub struct VirtualClock {
    monotonic_ns: AtomicU64,
    unix_origin_ns: AtomicI64,
    /// The number of the simulated machine's start; zero if none was set.
    boot: AtomicU64,
    /// How long before the origin it started.
    booted_before_ns: AtomicU64,
}

impl VirtualClock {
    fn new(start: UnixTime) -> Self {
        Self {
            monotonic_ns: AtomicU64::new(0),
            unix_origin_ns: AtomicI64::new(start.as_nanos().min(i64::MAX as u64) as i64),
            boot: AtomicU64::new(0),
            booted_before_ns: AtomicU64::new(0),
        }
    }

    /// The current virtual instant.
    pub fn now(&self) -> Instant {
        Instant(self.monotonic_ns.load(Ordering::Acquire))
    }

    /// Moves time forward by `by`, saturating at [`Instant::FAR_FUTURE`].
    pub fn advance(&self, by: Duration) {
        self.advance_to(self.now() + by);
    }

    /// Moves time forward to `to`; does nothing if that is in the past.
    pub fn advance_to(&self, to: Instant) {
        self.monotonic_ns.fetch_max(to.0, Ordering::AcqRel);
    }

    /// Changes the calendar by `seconds`, as an operator does; monotonic time
    /// does not change.
    pub fn step_calendar(&self, seconds: i64) {
        let step_ns = seconds.saturating_mul(1_000_000_000);
        self.unix_origin_ns.fetch_add(step_ns, Ordering::AcqRel);
    }

    /// Simulates a machine whose start has the number `boot`, from one up, this
    /// long before the clock's origin.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::clock::{Clock, UnixTime};
    ///
    /// let clock = Clock::simulated(UnixTime::from_secs(1_700_000_000));
    /// assert!(clock.boot_id().is_none(), "nobody said");
    /// clock.as_virtual().unwrap().set_boot(7, Duration::from_secs(60));
    /// assert!(clock.boot_id().is_some());
    /// assert_eq!(clock.since_boot(), Duration::from_secs(60));
    /// ```
    pub fn set_boot(&self, boot: u64, before_origin: Duration) {
        self.boot.store(boot, Ordering::Release);
        let before_ns = saturating_nanos(before_origin);
        self.booted_before_ns.store(before_ns, Ordering::Release);
    }

    fn since_boot(&self) -> Duration {
        let before_ns = self.booted_before_ns.load(Ordering::Acquire);
        Duration::from_nanos(self.now().0.saturating_add(before_ns))
    }

    fn boot_id(&self) -> Option<Box<str>> {
        let boot = self.boot.load(Ordering::Acquire);
        (boot > 0).then(|| format!("simulated {boot}").into())
    }

    fn unix_time(&self) -> UnixTime {
        let origin_ns = self.unix_origin_ns.load(Ordering::Acquire);
        UnixTime(self.now().0.saturating_add_signed(origin_ns))
    }
}

/// A point in monotonic time, in nanoseconds since its clock's origin.
///
/// Arithmetic saturates: a deadline too far in the future is
/// [`Instant::FAR_FUTURE`], and the difference to a later instant is zero.
///
/// ```
/// use std::time::Duration;
/// use busyhour::clock::Instant;
///
/// let due = Instant::from_nanos(10) + Duration::MAX;
/// assert_eq!(due, Instant::FAR_FUTURE);
/// assert_eq!(Instant::ZERO - due, Duration::ZERO);
/// assert_eq!(format!("{:?}", Instant::from_nanos(1_500_000)), "Instant(1.5ms)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline (584 years after the origin).
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The difference in nanoseconds, for hot paths where the arithmetic of a
    /// [`Duration`] (seconds and nanoseconds) costs too much.
    #[inline(always)]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    fn from_elapsed(elapsed: Duration) -> Self {
        Self(saturating_nanos(elapsed))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(by)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FAR_FUTURE => out.write_str("Instant(FAR_FUTURE)"),
            Self(ns) => write!(out, "Instant({:?})", Duration::from_nanos(ns)),
        }
    }
}

impl Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in calendar time, in nanoseconds since 1970-01-01 UTC.
///
/// ```
/// use busyhour::clock::{Clock, UnixTime};
/// use std::time::Duration;
///
/// let begin = UnixTime::from_secs(1_700_000_000);
/// let clock = Clock::simulated(begin);
/// clock.as_virtual().unwrap().advance(Duration::from_millis(1_500));
/// assert_eq!(clock.unix_time() - begin, Duration::from_millis(1_500));
/// assert_eq!(clock.unix_time().as_secs(), 1_700_000_001);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The point `secs` seconds after 1970, saturating in the year 2554.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The point `nanos` nanoseconds after 1970.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Whole seconds since 1970.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    fn from_system(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, saturating_nanos))
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(by)))
    }
}

impl Sub for UnixTime {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_never_runs_backwards() {
        let clock = Clock::simulated(UnixTime::from_secs(100));
        let controls = clock.as_virtual().unwrap();
        controls.advance_to(Instant::from_nanos(50));
        controls.advance_to(Instant::from_nanos(20));
        assert_eq!(clock.now(), Instant::from_nanos(50));
    }

    #[test]
    fn a_calendar_step_leaves_monotonic_time_alone() {
        let clock = Clock::simulated(UnixTime::from_secs(100));
        clock.as_virtual().unwrap().step_calendar(-40);
        assert_eq!(clock.now(), Instant::ZERO);
        assert_eq!(clock.unix_time(), UnixTime::from_secs(60));
    }

    #[test]
    fn a_calendar_step_leaves_the_time_since_the_boot_alone() {
        let clock = Clock::simulated(UnixTime::from_secs(100));
        let controls = clock.as_virtual().unwrap();
        controls.set_boot(1, Duration::from_secs(9));
        controls.advance(Duration::from_secs(1));
        controls.step_calendar(-40);
        assert_eq!(clock.since_boot(), Duration::from_secs(10));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn two_clocks_of_a_machine_count_from_the_same_boot() {
        let (one, other) = (Clock::machine(), Clock::machine());
        let (earlier, later) = (one.since_boot(), other.since_boot());
        assert!(earlier <= later && earlier > one.now() - Instant::ZERO);
        assert_eq!(one.boot_id(), other.boot_id());
        assert!(one.boot_id().is_some());
    }

    #[test]
    fn the_machine_clock_moves() {
        let clock = Clock::machine();
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.unix_time().as_secs() > 1_600_000_000);
    }
}
