//! The results of a storm of calls, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{Table, presets};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::results::call_tally::CallTally;
use crate::results::live_calls::LiveUse;
use crate::results::report::{count, latency};

/// The figures of a storm of calls.
#[derive(Clone, Debug, Serialize)]
pub struct CallReport {
    /// Whether the callers used authentication.
    pub auth: bool,
    /// The contacts of each called device.
    pub forks: u32,
    /// The offered rate, in calls a second; absent in a closed loop.
    pub offered: Option<f64>,
    /// Calls kept in progress; absent in an open loop.
    pub closed: Option<u32>,
    /// The time from the begin to the end of the last call.
    pub seconds: f64,
    /// Calls begun.
    pub calls: u64,
    /// Calls that did not begin when they were due, since their device was still in a
    /// call or its lamp still lit.
    pub skipped: u64,
    /// Calls that were answered and ended by BYE and its 200.
    pub answered: u64,
    /// Calls that their callers gave up, and that ended by a 487.
    pub given_up: u64,
    /// Contacts whose INVITE the server cancelled.
    pub cancelled_contacts: u64,
    /// What went wrong on both sides.
    pub failed: u64,
    /// Those among them that had begun: not just refused, or left without an answer to INVITE.
    pub dropped: u64,
    /// How often each thing went wrong.
    pub failures: BTreeMap<String, u64>,
    /// Messages of the storm that were sent again.
    pub retransmitted: u64,
    /// Messages of the server that came again.
    pub repeated: u64,
    /// Challenges answered.
    pub challenged: u64,
    /// Answers that came after their transaction had ended.
    pub late: u64,
    /// Messages that belong to no call of this run.
    pub unexpected: u64,
    /// Sends and receives that the system refused.
    pub socket_errors: u64,
    /// Calls that went as planned, a second.
    pub calls_per_s: f64,
    /// Calls begun a second while they were offered.
    pub begun_per_s: f64,
    /// Calls that went as planned a second while they were offered.
    pub goodput_per_s: f64,
    /// The median time from when a call was due until its 200, in microseconds.
    pub answer_p50_us: Option<f64>,
    /// The time that 99 of 100 did not exceed.
    pub answer_p99_us: Option<f64>,
    /// The longest time.
    pub answer_max_us: Option<f64>,
    /// The median post-dial delay, from when a call was due until its 180, in microseconds.
    pub ringing_p50_us: Option<f64>,
    /// The post-dial delay that 99 of 100 did not exceed.
    pub ringing_p99_us: Option<f64>,
    /// CPU time of the server from the first INVITE until its transactions were freed;
    /// absent without its process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// The same for each call that went as planned, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_call: Option<f64>,
    /// The calls that lasted at a time, if they lasted.
    #[serde(flatten)]
    pub live: Option<LiveUse>,
    /// How the lamps of the called devices were, if they were watched.
    #[serde(flatten)]
    pub lamps: Option<LampUse>,
}

/// How the lamps were.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LampUse {
    /// The number of lamps.
    pub lamps: u64,
    /// States that a watcher did not know: early, confirmed or terminated.
    pub lamps_told: u64,
    /// States that came again.
    pub lamps_repeated: u64,
    /// States of which no NOTIFY told, since they were over before: one told a later state, or
    /// nothing had been told of the call.
    pub lamps_skipped: u64,
    /// States that were shown after a later one of the same call, or too early.
    pub lamps_stale: u64,
    /// Lamps that are wrong at the end, or whose subscription the server ended or lost.
    pub lamps_wrong: u64,
    /// The median time from a state until its NOTIFY, in microseconds.
    pub notify_p50_us: Option<f64>,
    /// The time that 99 of 100 did not exceed.
    pub notify_p99_us: Option<f64>,
}

/// The options of the run, as a report repeats them, and what the driver measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSetting {
    pub auth: bool,
    pub forks: u32,
    pub offered: Option<f64>,
    pub closed: Option<u32>,
    pub seconds: f64,
    /// How long calls began.
    pub offering_s: f64,
    pub done_while_offering: u64,
}

impl CallReport {
    pub(crate) fn new(setting: CallSetting, tally: &CallTally) -> Self {
        let done = tally.answered + tally.given_up;
        let each_s = |count: u64, seconds: f64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        Self {
            auth: setting.auth,
            forks: setting.forks,
            offered: setting.offered,
            closed: setting.closed,
            seconds: setting.seconds,
            calls: tally.begun,
            skipped: tally.skipped,
            answered: tally.answered,
            given_up: tally.given_up,
            cancelled_contacts: tally.cancelled_contacts,
            failed: tally.failures(),
            dropped: tally.drops(),
            failures: (tally.failed.iter())
                .map(|(failure, count)| (failure.name(), *count))
                .collect(),
            retransmitted: tally.retransmitted,
            repeated: tally.repeated,
            challenged: tally.challenged,
            late: tally.late,
            unexpected: tally.unexpected,
            socket_errors: tally.socket_errors,
            calls_per_s: each_s(done, setting.seconds),
            begun_per_s: each_s(tally.begun, setting.offering_s),
            goodput_per_s: each_s(setting.done_while_offering, setting.offering_s),
            answer_p50_us: micros(&tally.answer_ns, 0.5),
            answer_p99_us: micros(&tally.answer_ns, 0.99),
            answer_max_us: micros(&tally.answer_ns, 1.0),
            ringing_p50_us: micros(&tally.ringing_ns, 0.5),
            ringing_p99_us: micros(&tally.ringing_ns, 0.99),
            cpu_s: None,
            cpu_us_per_call: None,
            live: None,
            lamps: None,
        }
    }

    /// Notes the CPU time of the server.
    pub(crate) fn used(&mut self, cpu_s: f64) {
        let done = self.answered + self.given_up;
        self.cpu_s = Some(cpu_s);
        self.cpu_us_per_call = Some(1e6 * cpu_s / done.max(1) as f64);
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("calls", count(self.calls)),
            ("answered and ended", count(self.answered)),
            ("given up", count(self.given_up)),
            ("contacts cancelled", count(self.cancelled_contacts)),
            ("retransmitted", count(self.retransmitted)),
            ("failed", self.failed_text()),
            ("calls a second", format!("{:.0}", self.calls_per_s)),
            ("  during the offer", format!("{:.0}", self.goodput_per_s)),
            ("INVITE to 200 p50", latency(self.answer_p50_us)),
            ("INVITE to 200 p99", latency(self.answer_p99_us)),
            ("INVITE to 200 max", latency(self.answer_max_us)),
            ("INVITE to 180 p50", latency(self.ringing_p50_us)),
            ("INVITE to 180 p99", latency(self.ringing_p99_us)),
        ];
        let odd = [
            ("calls skipped", self.skipped),
            ("challenges answered", self.challenged),
            ("repeated messages", self.repeated),
            ("late answers", self.late),
            ("unexpected messages", self.unexpected),
            ("socket errors", self.socket_errors),
        ];
        let odd = odd.into_iter().filter(|(_, value)| *value > 0);
        rows.extend(odd.map(|(name, value)| (name, count(value))));
        let cpu = self.cpu_us_per_call.map(|each| format!("{each:.0} µs"));
        rows.extend(cpu.map(|each| ("server CPU each call", each)));
        rows.extend(self.live.iter().flat_map(LiveUse::rows));
        rows.extend(self.lamps.iter().flat_map(LampUse::rows));
        rows
    }

    fn failed_text(&self) -> String {
        let reasons = self.failures.iter();
        let reasons: Vec<_> = reasons
            .map(|(reason, count)| format!("{reason}: {count}"))
            .collect();
        match reasons.is_empty() {
            true => count(self.failed),
            false => format!("{} ({})", count(self.failed), reasons.join(", ")),
        }
    }
}

impl LampUse {
    fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("lamps", count(self.lamps)),
            ("states told", count(self.lamps_told)),
            ("states repeated", count(self.lamps_repeated)),
            ("states skipped", count(self.lamps_skipped)),
            ("states stale", count(self.lamps_stale)),
            ("lamps wrong", count(self.lamps_wrong)),
            ("state to NOTIFY p50", latency(self.notify_p50_us)),
            ("state to NOTIFY p99", latency(self.notify_p99_us)),
        ]
    }
}

impl fmt::Display for CallReport {
    /// Two columns: what, and how much.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for (name, value) in self.rows() {
            table.add_row([name.to_owned(), value]);
        }
        table.fmt(f)
    }
}

/// A quantile in microseconds; `None` if nothing was measured.
pub(crate) fn micros(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    let has_any = !histogram.is_empty();
    has_any.then(|| histogram.value_at_quantile(quantile) as f64 / 1e3)
}
