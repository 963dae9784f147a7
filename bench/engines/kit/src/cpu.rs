//! Processor time.

use std::{fs, time::Duration};

/// What this process has used, in ticks of 10 ms; `None` where the system does not tell it.
pub fn used() -> Option<Duration> {
    let told = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, which may contain anything, ends with the last parenthesis; then
    // come the fields from the third one on.
    let (_, fields) = told.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(10 * (user + system)))
}
