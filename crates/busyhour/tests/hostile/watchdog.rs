//! Ends the test program when a case hangs: a hang would otherwise stop the whole run without a name.

use std::{process, sync::mpsc, thread, time::Duration};

/// How long a case may take on a loaded machine before it counts as hung.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs `case` on this thread. Aborts the process with the case's name when it does not return in two minutes.
pub fn watched<R>(name: impl Into<String>, case: impl FnOnce() -> R) -> R {
    let name = name.into();
    let (finished, waiting) = mpsc::channel::<()>();
    thread::spawn(move || {
        if waiting.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("hostile: `{name}` did not end within {DEADLINE:?}");
            process::abort();
        }
    });
    let result = case();
    drop(finished);
    result
}
