//! The memory of the server while calls last.

use std::time::Duration;

use busyhour::clock::Instant;
use serde::Serialize;

use crate::results::process::Process;
use crate::results::report::count;

/// Reads the memory of a process while as many calls last as ever did.
#[derive(Debug)]
pub(crate) struct LiveCalls {
    process: Option<Process>,
    base_bytes: u64,
    most: usize,
    look_at: Instant,
    /// At the last look, and the highest.
    bytes: Option<[u64; 2]>,
}

/// How many calls lasted at a time, and what memory they took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LiveUse {
    /// The most calls that lasted at a time.
    pub live_calls: u64,
    /// What the server's memory had grown by when the first of them ended, for each; absent
    /// without its process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_live_call: Option<f64>,
    /// The same when it was highest while so many lasted: with the transactions of INVITE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_live_call_max: Option<f64>,
}

impl LiveCalls {
    /// The memory of now is not counted as that of calls.
    pub fn new(process: Option<Process>) -> Self {
        Self {
            process,
            base_bytes: process.and_then(resident).unwrap_or(0),
            most: 0,
            look_at: Instant::ZERO,
            bytes: None,
        }
    }

    /// So many calls last.
    pub fn note(&mut self, now: Instant, count: usize) {
        if count == 0 || count < self.most || now < self.look_at {
            return;
        }
        (self.most, self.look_at) = (count, now + LOOK_PERIOD);
        if let Some(bytes) = self.process.and_then(resident) {
            let highest = self.bytes.map_or(0, |[_, highest]| highest);
            self.bytes = Some([bytes, highest.max(bytes)]);
        }
    }

    /// `None` if no call lasted.
    pub fn finish(&self) -> Option<LiveUse> {
        let each = |bytes: u64| bytes.saturating_sub(self.base_bytes) as f64 / self.most as f64;
        let [last, highest] = self
            .bytes
            .map_or([None; 2], |bytes| bytes.map(|one| Some(each(one))));
        (self.most > 0).then_some(LiveUse {
            live_calls: self.most as u64,
            bytes_per_live_call: last,
            bytes_per_live_call_max: highest,
        })
    }
}

impl LiveUse {
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let bytes = |value: f64| format!("{value:.0} B");
        let each = self.bytes_per_live_call.map(bytes);
        let highest = self.bytes_per_live_call_max.map(bytes);
        [
            ("calls at a time", Some(count(self.live_calls))),
            ("server memory each call", each),
            ("  at most", highest),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

fn resident(process: Process) -> Option<u64> {
    Some(process.usage()?.rss_bytes)
}

/// Reading takes some hundred microseconds.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_most_calls_at_a_time_are_noted() {
        let mut live = LiveCalls::new(Some(Process::new(std::process::id())));
        let mut now = Instant::ZERO;
        for count in [0, 3, 7, 7, 5, 0] {
            now = now + LOOK_PERIOD;
            live.note(now, count);
        }
        let found = live.finish().expect("calls lasted");
        assert_eq!(found.live_calls, 7);
        assert!(found.bytes_per_live_call <= found.bytes_per_live_call_max);
    }

    #[test]
    fn calls_that_end_at_once_have_no_memory() {
        let mut live = LiveCalls::new(None);
        live.note(Instant::ZERO, 0);
        assert!(live.finish().is_none());
    }
}
