//! What two looks at a server tell, as rows for people and as an object for programs.

use super::ServerLook;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Values now, and rates since the look before.
pub(super) struct View {
    pub(super) health: String,
    pub(super) uptime_s: u64,
    pub(super) figures: Vec<Figure>,
    pub(super) queues: Vec<Queue>,
}

/// One line of the upper part.
pub(super) struct Figure {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

/// A queue in which something waits, or did.
pub(super) struct Queue {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) waiting: u64,
    pub(super) most: u64,
    pub(super) oldest_ms: f64,
    pub(super) is_high: bool,
}

impl View {
    pub(super) fn between(before: &ServerLook, now: &ServerLook) -> Self {
        let uptime = |look: &ServerLook| number(&look.stats, "/uptime_ns");
        let seconds = ((uptime(now) - uptime(before)) / 1e9).max(1e-3);
        let figures = FIGURES.iter().map(|(group, name, path, kind)| {
            let value = number(&now.stats, path);
            let (value, unit) = match kind {
                Kind::Now => (value, ""),
                Kind::Milliseconds => (value / 1e6, "ms"),
                Kind::Permille => (value / 10.0, "%"),
                Kind::Mebibytes => (value / f64::from(1 << 20), "MiB"),
                Kind::Rate => ((value - number(&before.stats, path)) / seconds, "/s"),
            };
            Figure {
                group,
                name,
                value: value.max(0.0),
                unit,
            }
        });
        Self {
            health: now.health.trim().to_owned(),
            uptime_s: (uptime(now) / 1e9) as u64,
            figures: figures.collect(),
            queues: queues(&now.queues),
        }
    }

    pub(super) fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let name = format!("{} {}", figure.group, figure.name).replace(' ', "_");
            (name, json!((figure.value * 1000.0).round() / 1000.0))
        });
        let mut object: serde_json::Map<_, _> = figures.collect();
        object.insert("uptime_s".into(), self.uptime_s.into());
        object.insert("health".into(), self.health.clone().into());
        object.insert(
            "queues_high".into(),
            self.queues
                .iter()
                .filter(|queue| queue.is_high)
                .count()
                .into(),
        );
        Value::Object(object)
    }
}

impl Figure {
    pub(super) fn text(&self) -> String {
        match (self.unit, self.value) {
            ("", value) => format!("{value:.0}"),
            ("/s", value) if value < 10.0 => format!("{value:.1} /s"),
            ("ms", value) if value < 10.0 => format!("{value:.2} ms"),
            (unit, value) => format!("{value:.0} {unit}"),
        }
    }
}

enum Kind {
    Now,
    Rate,
    Milliseconds,
    /// Shown in hundredths.
    Permille,
    Mebibytes,
}

/// Those in which most waits come first.
fn queues(answer: &Value) -> Vec<Queue> {
    let rows = answer["queues"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let mut queues: Vec<_> = rows
        .iter()
        .map(|row| Queue {
            kind: text(row, "kind"),
            name: text(row, "name"),
            waiting: row["queued_len"].as_u64().unwrap_or(0),
            most: row["queued_high_water"].as_u64().unwrap_or(0),
            oldest_ms: row["oldest_waiting_ns"].as_f64().unwrap_or(0.0) / 1e6,
            is_high: row["is_high"].as_bool().unwrap_or(false),
        })
        .collect();
    queues.sort_by_key(|queue| Reverse((queue.waiting, queue.most)));
    queues
}

fn number(stats: &Value, path: &str) -> f64 {
    stats.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

const FIGURES: &[(&str, &str, &str, Kind)] = &[
    (
        "devices",
        "registered",
        "/registrar/device_count",
        Kind::Now,
    ),
    ("devices", "contacts", "/registrar/binding_count", Kind::Now),
    ("devices", "accounts", "/registrar/account_count", Kind::Now),
    (
        "registrations",
        "requests",
        "/registrar/requests",
        Kind::Rate,
    ),
    (
        "registrations",
        "accepted",
        "/registrar/accepted",
        Kind::Rate,
    ),
    (
        "registrations",
        "wrong password",
        "/registrar/forbidden",
        Kind::Rate,
    ),
    (
        "registrations",
        "half within",
        "/registrar/latency_p50_ns",
        Kind::Milliseconds,
    ),
    (
        "registrations",
        "99 of 100 within",
        "/registrar/latency_p99_ns",
        Kind::Milliseconds,
    ),
    (
        "watchers",
        "subscriptions",
        "/watch/watcher_count",
        Kind::Now,
    ),
    ("watchers", "NOTIFYs", "/watch/notified", Kind::Rate),
    ("calls", "now", "/calls/dialogs/call_count", Kind::Now),
    ("calls", "new", "/calls/dialogs/begun", Kind::Rate),
    ("calls", "refused", "/calls/refused", Kind::Rate),
    ("network", "received", "/network/received", Kind::Rate),
    ("network", "sent", "/network/sent", Kind::Rate),
    (
        "network",
        "lost by the kernel",
        "/network/kernel_dropped",
        Kind::Rate,
    ),
    (
        "network",
        "REGISTERs dropped early",
        "/network/early_drop_permille_max",
        Kind::Permille,
    ),
    (
        "network",
        "early drops begun",
        "/network/early_drops_begun",
        Kind::Now,
    ),
    (
        "network",
        "connections",
        "/network/streams/connection_count",
        Kind::Now,
    ),
    (
        "database",
        "transactions",
        "/store/transactions",
        Kind::Rate,
    ),
    (
        "database",
        "oldest change",
        "/store/oldest_waiting_ns",
        Kind::Milliseconds,
    ),
    ("database", "failed", "/store/failed", Kind::Rate),
    ("runtime", "tasks", "/runtime/pool/processed", Kind::Rate),
    (
        "runtime",
        "buffers",
        "/runtime/buffers/used_bytes",
        Kind::Mebibytes,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, accepted: u64) -> ServerLook {
        ServerLook {
            stats: json!({
                "uptime_ns": seconds * 1_000_000_000,
                "registrar": {"accepted": accepted, "device_count": 7, "latency_p99_ns": 2_500_000},
                "network": {"early_drop_permille_max": 375, "early_drops_begun": 3},
            }),
            queues: json!({"queues": [
                {"kind": "a", "name": "short", "queued_len": 1, "queued_high_water": 9},
                {"kind": "b", "name": "long", "queued_len": 5, "queued_high_water": 5,
                 "oldest_waiting_ns": 3_000_000, "is_high": true},
            ]}),
            health: "ok\n".into(),
        }
    }

    #[test]
    fn rates_are_by_the_servers_own_clock() {
        let view = View::between(&at(10, 100), &at(14, 140)).json();
        assert_eq!(view["registrations_accepted"], 10.0);
        assert_eq!(view["devices_registered"], 7.0);
        assert_eq!(view["registrations_99_of_100_within"], 2.5);
        assert_eq!(
            (&view["uptime_s"], &view["queues_high"]),
            (&json!(14), &json!(1))
        );
    }

    #[test]
    fn what_is_dropped_early_is_a_part_in_hundredths_and_a_number_since_the_start() {
        let view = View::between(&at(10, 100), &at(14, 140));
        assert_eq!(view.json()["network_REGISTERs_dropped_early"], 37.5);
        assert_eq!(view.json()["network_early_drops_begun"], 3.0);
        let text = |name| {
            view.figures
                .iter()
                .find(|it| it.name == name)
                .map(Figure::text)
        };
        assert_eq!(text("REGISTERs dropped early").as_deref(), Some("38 %"));
        assert_eq!(text("early drops begun").as_deref(), Some("3"));
    }

    #[test]
    fn a_restarted_server_has_no_negative_rates_and_the_longest_queue_is_first() {
        let view = View::between(&at(100, 5000), &at(1, 3));
        assert!(view.figures.iter().all(|figure| figure.value >= 0.0));
        assert_eq!(view.queues[0].name, "long");
    }
}
