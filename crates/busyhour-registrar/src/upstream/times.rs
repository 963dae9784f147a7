//! When a request to a registrar behind leaves: by chance, so that many do not leave at one instant, and in groups.

use busyhour::clock::Instant;
use std::time::Duration;

/// Between half of a time and all of it.
pub(super) fn jittered(longest: Duration, random: u32) -> Duration {
    longest / 2 + (longest / 2).mul_f64(part(random))
}

/// When seven to nine tenths of a lifetime have passed.
pub(super) fn renewed_after(life: Duration, random: u32) -> Duration {
    life.mul_f64(0.72 + 0.16 * part(random))
}

/// Renewals leave in groups, as each wake-up of the threads on the way costs more than a renewal.
pub(super) fn together(at: Instant) -> Instant {
    let grid = TOGETHER.as_nanos() as u64;
    Instant::from_nanos(at.as_nanos() / grid * grid)
}

/// So long before, or when the clock began.
pub(super) fn earlier(at: Instant, by: Duration) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_sub(by.as_nanos() as u64))
}

/// Between 0 and 1.
fn part(random: u32) -> f64 {
    f64::from(random) / f64::from(u32::MAX)
}

/// Requests within this time leave together.
pub(super) const TOGETHER: Duration = Duration::from_millis(100);
