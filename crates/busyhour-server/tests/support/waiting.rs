//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Waits until `is_so`. After a minute, which only a failing test reaches,
/// panics with what there is instead.
pub fn wait_until(mut is_so: impl FnMut() -> bool, what_is: impl FnOnce() -> String) {
    let given_up_at = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= given_up_at {
            panic!(
                "the condition was not met within {PATIENCE:?}: {}",
                what_is()
            );
        }
        // This only leaves the processor to the others.
        std::thread::sleep(PACE);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two checks of a condition; no test depends on its length.
const PACE: Duration = Duration::from_millis(5);
