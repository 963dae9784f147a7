//! Ends the test program when a case hangs: a hang would otherwise stop the whole run without a name.

use std::{
    io::{self, Write},
    process,
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long a case may take before it counts as hung. On a machine with ten times as many threads as processors, the
/// case that makes two thousand threads one after the other takes three minutes.
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs `case` on this thread. Aborts the process with the case's name when it does not return in time.
pub fn watched<R>(name: impl Into<String>, case: impl FnOnce() -> R) -> R {
    let name = name.into();
    let (finished, waiting) = mpsc::channel::<()>();
    thread::spawn(move || {
        if waiting.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Past the capture of the test harness, which would be lost with the process.
            let message = format!("hostile: `{name}` did not end within {DEADLINE:?}\n");
            let _ = io::stderr().write_all(message.as_bytes());
            process::abort();
        }
    });
    let result = case();
    drop(finished);
    result
}
