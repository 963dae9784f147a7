//! The results of a storm, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::results::tally::Tally;

/// The figures of one phase: a whole storm, or one step of a ramp.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `sip` or `iax2`.
    pub protocol: &'static str,
    /// Whether the devices used authentication.
    pub auth: bool,
    /// `insert` or `refresh`.
    pub kind: &'static str,
    /// The offered rate, in registrations a second; absent in a closed loop.
    pub offered: Option<f64>,
    /// Registrations kept in progress; absent in an open loop.
    pub closed: Option<u32>,
    /// The time from the begin to the last answer.
    pub seconds: f64,
    /// Registrations begun.
    pub sent: u64,
    /// Registrations that ended with a valid 200 or REGACK.
    pub acknowledged: u64,
    /// Retransmitted datagrams.
    pub retransmitted: u64,
    /// Challenges answered.
    pub challenged: u64,
    /// Registrations that failed.
    pub failed: u64,
    /// How many failed by each reason.
    pub failures: BTreeMap<String, u64>,
    /// Answers that came after their registration had ended.
    pub late: u64,
    /// Datagrams that answer no request of this run.
    pub unexpected: u64,
    /// Sends and receives that the system refused.
    pub socket_errors: u64,
    /// Registrations acknowledged a second.
    pub register_per_s: f64,
    /// Registrations begun a second while they were offered. If this is less
    /// than `offered`, the storm was too slow, or its devices were still busy
    /// with earlier registrations.
    pub begun_per_s: f64,
    /// Registrations acknowledged a second while they were offered. This is
    /// the throughput of a server that is offered more than it can process.
    pub goodput_per_s: f64,
    /// The median latency, from due to acknowledged, in microseconds; absent
    /// if nothing was acknowledged.
    pub p50_us: Option<f64>,
    /// The latency that 99 of 100 registrations did not exceed.
    pub p99_us: Option<f64>,
    /// The latency that 999 of 1,000 registrations did not exceed.
    pub p99_9_us: Option<f64>,
    /// The longest latency.
    pub max_us: Option<f64>,
    /// What the phase cost the server; absent without its process id.
    #[serde(flatten)]
    pub server: Option<ServerUse>,
    /// What the watchers received, if there were any.
    #[serde(flatten)]
    pub watch: Option<WatchUse>,
}

/// What the watchers received during a phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WatchUse {
    /// The number of watchers.
    pub watchers: u64,
    /// NOTIFY requests without retransmissions.
    pub notified: u64,
    /// NOTIFY requests a second, up to the last one.
    pub notify_per_s: f64,
    /// Retransmitted NOTIFY requests.
    pub notified_again: u64,
    /// Subscriptions that the server ended, or had lost by the end.
    pub watchers_ended: u64,
    /// Watchers that have a wrong state of their device a while after the
    /// last NOTIFY, and watchers whose subscription has ended.
    pub watchers_wrong: u64,
    /// From the last answer to a device to the last NOTIFY, in milliseconds;
    /// 0 if the last NOTIFY came first.
    pub told_after_ms: f64,
    /// CPU time of the server for each NOTIFY, in microseconds. It includes
    /// everything that the server did, also the registrations. Absent without
    /// its process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_notify: Option<f64>,
}

/// What a phase cost the server.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerUse {
    /// CPU time in seconds.
    pub cpu_s: f64,
    /// CPU time over elapsed time: 100 is one core.
    pub cpu_percent: f64,
    /// The same in the second in which it was highest; absent if the process
    /// could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent_max: Option<f64>,
    /// CPU time for each acknowledged registration, in microseconds.
    pub cpu_us_per_register: f64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// The largest resident memory.
    pub rss_bytes_max: u64,
}

/// The options of the run, as a report repeats them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub protocol: &'static str,
    pub auth: bool,
    pub kind: &'static str,
    pub offered: Option<f64>,
    pub closed: Option<u32>,
}

impl Report {
    pub(crate) fn new(setting: Setting, tally: &Tally, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        let offering = tally.offering.unwrap_or_default();
        let has_any = !tally.latency_ns.is_empty();
        let micros = |quantile: f64| {
            has_any.then(|| tally.latency_ns.value_at_quantile(quantile) as f64 / 1e3)
        };
        Self {
            protocol: setting.protocol,
            auth: setting.auth,
            kind: setting.kind,
            offered: setting.offered,
            closed: setting.closed,
            seconds,
            sent: tally.sent,
            acknowledged: tally.acknowledged,
            retransmitted: tally.retransmitted,
            challenged: tally.challenged,
            failed: tally.failures(),
            failures: tally
                .failed
                .iter()
                .map(|(failure, count)| (failure.name(), *count))
                .collect(),
            late: tally.late,
            unexpected: tally.unexpected,
            socket_errors: tally.socket_errors,
            register_per_s: tally.acknowledged as f64 / seconds.max(f64::MIN_POSITIVE),
            begun_per_s: offering.per_s(tally.sent),
            goodput_per_s: offering.per_s(offering.acknowledged),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p99_9_us: micros(0.999),
            max_us: has_any.then(|| tally.latency_ns.max() as f64 / 1e3),
            server: None,
            watch: None,
        }
    }

    /// Whether every registration was acknowledged.
    pub fn is_clean(&self) -> bool {
        self.failed == 0 && self.acknowledged == self.sent
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("sent", count(self.sent)),
            ("acknowledged", count(self.acknowledged)),
            ("retransmitted", count(self.retransmitted)),
            ("failed", self.failed_text()),
            (
                "acknowledged a second",
                format!("{:.0}", self.register_per_s),
            ),
            ("  during the offer", format!("{:.0}", self.goodput_per_s)),
            ("latency p50", latency(self.p50_us)),
            ("latency p99", latency(self.p99_us)),
            ("latency p99.9", latency(self.p99_9_us)),
            ("latency max", latency(self.max_us)),
        ];
        let odd = [
            ("challenges answered", self.challenged),
            ("late answers", self.late),
            ("unexpected datagrams", self.unexpected),
            ("socket errors", self.socket_errors),
        ];
        rows.extend(
            odd.into_iter()
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| (name, count(value))),
        );
        rows.extend(self.server.iter().flat_map(ServerUse::rows));
        rows.extend(self.watch.iter().flat_map(WatchUse::rows));
        rows
    }

    fn failed_text(&self) -> String {
        let reasons: Vec<_> = self
            .failures
            .iter()
            .map(|(reason, count)| format!("{reason}: {count}"))
            .collect();
        match reasons.is_empty() {
            true => count(self.failed),
            false => format!("{} ({})", count(self.failed), reasons.join(", ")),
        }
    }
}

impl ServerUse {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        vec![
            (
                "server CPU",
                format!(
                    "{:.2} s, {:.1} % of a core{}",
                    self.cpu_s,
                    self.cpu_percent,
                    self.cpu_percent_max
                        .map_or_else(String::new, |peak| format!(", {peak:.1} % at its peak"))
                ),
            ),
            (
                "server CPU each",
                format!("{:.1} µs", self.cpu_us_per_register),
            ),
            (
                "server memory",
                format!(
                    "{}, at most {}",
                    mib(self.rss_bytes),
                    mib(self.rss_bytes_max)
                ),
            ),
        ]
    }
}

impl WatchUse {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("watchers", count(self.watchers)),
            ("notified", count(self.notified)),
            ("notified a second", format!("{:.0}", self.notify_per_s)),
            ("notified again", count(self.notified_again)),
            (
                "last notified after",
                latency(Some(self.told_after_ms * 1e3)),
            ),
            ("watchers wrong", count(self.watchers_wrong)),
        ];
        let each = self.cpu_us_per_notify.map(|each| format!("{each:.1} µs"));
        rows.extend(each.map(|each| ("server CPU each NOTIFY", each)));
        rows
    }
}

impl fmt::Display for Report {
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

/// The steps of a ramp as one table, with one row for each step.
pub(crate) fn ramp_table(steps: &[Report]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "offered/s",
        "acknowledged/s",
        "retransmitted",
        "failed",
        "p50",
        "p99",
        "max",
        "server CPU",
    ]);
    for step in steps {
        table.add_row(ramp_row(step));
    }
    table
        .column_iter_mut()
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn ramp_row(step: &Report) -> [String; 8] {
    [
        step.offered
            .map_or_else(String::new, |offered| format!("{offered:.0}")),
        format!("{:.0}", step.register_per_s),
        count(step.retransmitted),
        count(step.failed),
        latency(step.p50_us),
        latency(step.p99_us),
        latency(step.max_us),
        step.server
            .map_or_else(String::new, |server| format!("{:.1} %", server.cpu_percent)),
    ]
}

/// 12,345
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 850 µs, 1.25 ms, 3.10 s; a dash where nothing was measured
pub(crate) fn latency(micros: Option<f64>) -> String {
    let Some(micros) = micros else {
        return "–".to_owned();
    };
    match micros {
        micros if micros < 1e3 => format!("{micros:.0} µs"),
        micros if micros < 1e6 => format!("{:.2} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted_for_reading() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(12_000), "12,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(latency(Some(850.4)), "850 µs");
        assert_eq!(latency(Some(1_250.0)), "1.25 ms");
        assert_eq!(latency(Some(3_100_000.0)), "3.10 s");
        assert_eq!(latency(None), "–");
    }
}
