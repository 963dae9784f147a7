//! Ends the test program when a case hangs. Otherwise a hang would stop the whole run
//! without the name of the case.

use std::{
    io::{self, Write},
    process,
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long a case may take before it counts as hung. With ten times as many busy threads
/// as processors, the case that makes two thousand threads one after the other takes
/// three minutes.
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs `case` on this thread. Aborts the process, with the case's name, if it does not
/// return in time.
pub fn watched<R>(name: impl Into<String>, case: impl FnOnce() -> R) -> R {
    let name = name.into();
    let (finished, waiting) = mpsc::channel::<()>();
    thread::spawn(move || {
        if waiting.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Written directly, since the test harness captures output, which would be
            // lost with the process.
            let message = format!("hostile: `{name}` did not end within {DEADLINE:?}\n");
            let _ = io::stderr().write_all(message.as_bytes());
            process::abort();
        }
    });
    let result = case();
    drop(finished);
    result
}
