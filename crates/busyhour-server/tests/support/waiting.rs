//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Waits until `is_so`. After a minute, which only a failing test reaches,
/// panics with what there is instead.
pub fn wait_until(mut is_so: impl FnMut() -> bool, what_is: impl FnOnce() -> String) {
    let given_up_at = Instant::now() + PATIENCE;
    let mut pace = FIRST_PACE;
    while !is_so() {
        if Instant::now() >= given_up_at {
            panic!(
                "the condition was not met within {PATIENCE:?}: {}",
                what_is()
            );
        }
        // This only leaves the processor to the others, for longer each time: a server that is not optimised takes some six
        // milliseconds of it to tell its statistics, and then the test reads them.
        std::thread::sleep(pace);
        pace = (pace * 3 / 2).min(LAST_PACE);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// The time between the first two checks of a condition, and the longest one; no test depends on their length.
const FIRST_PACE: Duration = Duration::from_millis(4);
const LAST_PACE: Duration = Duration::from_millis(400);
