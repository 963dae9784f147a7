use crate::clock::Instant;
use std::time::Duration;

/// The instant in `deadline ..= deadline + slack` that most other timers with
/// slack choose as well: the one with the most trailing zero bits.
///
/// Windows that overlap enough thus share one wake-up, without any search.
pub(super) fn coalesce(deadline: Instant, slack: Duration) -> Instant {
    let (first, last) = (deadline.as_nanos(), (deadline + slack).as_nanos());
    if first == last || first == 0 {
        return deadline;
    }
    // Above the highest bit in which `first - 1` and `last` differ they agree,
    // so clearing all bits of `last` below it stays above `first - 1`.
    let differing = (first - 1) ^ last;
    let highest = 63 - differing.leading_zeros();
    Instant::from_nanos(last >> highest << highest)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_instant_with_most_trailing_zero_bits_is_chosen(first in any::<u64>(), slack in 0..5000u64) {
            let last = first.saturating_add(slack);
            let chosen = coalesce(Instant::from_nanos(first), Duration::from_nanos(slack)).as_nanos();
            prop_assert!((first..=last).contains(&chosen));
            let roundest = (first..=last).map(u64::trailing_zeros).max();
            prop_assert_eq!(Some(chosen.trailing_zeros()), roundest);
        }
    }

    #[test]
    fn no_slack_moves_nothing() {
        let deadline = Instant::from_nanos(12345);
        assert_eq!(coalesce(deadline, Duration::ZERO), deadline);
    }

    #[test]
    fn slack_at_the_end_of_time_stays_there() {
        let window = coalesce(Instant::FAR_FUTURE, Duration::MAX);
        assert_eq!(window, Instant::FAR_FUTURE);
    }
}
