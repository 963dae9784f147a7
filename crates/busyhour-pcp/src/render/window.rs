use busyhour::clock::UnixTime;
use std::time::Duration;

/// The moments for which values are wanted: `from`, and each `step` after it
/// up to `until`, that included.
///
/// # Examples
///
/// ```
/// use busyhour::clock::UnixTime;
/// use busyhour_pcp::Window;
/// use std::time::Duration;
///
/// let (from, until) = (UnixTime::from_secs(600), UnixTime::from_secs(900));
/// let window = Window::new(from, until, Duration::from_secs(60));
/// assert_eq!(window.count(), 6);
/// assert_eq!(window.time(5), until);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: u64,
    step: u64,
    count: usize,
}

impl Window {
    /// A step of less than a millisecond is taken as one, and an `until`
    /// before `from` as `from`.
    pub fn new(from: UnixTime, until: UnixTime, step: Duration) -> Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let step = step.max(STEP_NANOS_MIN);
        let span = until.as_nanos().saturating_sub(from.as_nanos());
        Self {
            from: from.as_nanos(),
            step,
            count: usize::try_from(span / step)
                .unwrap_or(usize::MAX)
                .saturating_add(1),
        }
    }

    /// How many moments.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The moment at `index`.
    pub fn time(&self, index: usize) -> UnixTime {
        UnixTime::from_nanos(self.nanos(index))
    }

    /// The first moment.
    pub fn from(&self) -> UnixTime {
        self.time(0)
    }

    /// The last moment; up to a step before the `until` that was given.
    pub fn until(&self) -> UnixTime {
        self.time(self.count - 1)
    }

    /// From one moment to the next.
    pub fn step(&self) -> Duration {
        Duration::from_nanos(self.step)
    }

    #[inline]
    pub(crate) fn nanos(&self, index: usize) -> u64 {
        self.from
            .saturating_add(self.step.saturating_mul(index as u64))
    }

    /// How many moments are at or before `nanos`.
    #[inline]
    pub(crate) fn passed(&self, nanos: u64) -> usize {
        match nanos.checked_sub(self.from) {
            None => 0,
            Some(since) => (since / self.step)
                .try_into()
                .map_or(self.count, |steps: usize| self.count.min(steps + 1)),
        }
    }
}

const STEP_NANOS_MIN: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_passed_are_those_at_or_before() {
        let from = UnixTime::from_secs(100);
        let window = Window::new(from, UnixTime::from_secs(120), Duration::from_secs(10));
        let passed = |seconds| window.passed(UnixTime::from_secs(seconds).as_nanos());
        assert_eq!(
            [99, 100, 109, 110, 120, 999].map(passed),
            [0, 1, 1, 2, 3, 3]
        );
    }
}
