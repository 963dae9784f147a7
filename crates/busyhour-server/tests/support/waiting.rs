//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Waits until something is so; panics with what there is instead when it is
/// not in a minute, which is far longer than anything here takes.
pub fn wait_until(mut is_so: impl FnMut() -> bool, what_is: impl FnOnce() -> String) {
    let given_up_at = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= given_up_at {
            panic!("waited in vain for {PATIENCE:?}: {}", what_is());
        }
        // Only to leave the processor to those who are waited for.
        std::thread::sleep(PACE);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something awaited; no test depends on its length.
const PACE: Duration = Duration::from_millis(5);
