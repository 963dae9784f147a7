//! Log lines about single queues that have become too long: which one, and what runs in it.

use busyhour::{
    bus::{Attribute, Delivery, Subscription},
    clock::{Clock, Instant},
    runtime::Runtime,
    serializer::{QueueAlert, Watermark},
};
use std::time::Duration;

/// Logs alerts of the runtime's serializers while it lives.
pub(in crate::server) struct QueueAlertLog {
    _alerts: Subscription<QueueAlert>,
}

/// At most so many lines a minute; the next one says how many were left out.
struct AlertLines {
    clock: Clock,
    minute_begins: Instant,
    lines_left: u32,
    left_out: u64,
}

impl QueueAlertLog {
    /// Of the alerts only those that begin are delivered.
    pub(in crate::server) fn start(runtime: &Runtime) -> Self {
        let begins = Attribute::new(|alert: &QueueAlert| alert.mark == Watermark::High);
        let alerts = runtime.queue_alerts().subscribe().name("the log of alerts");
        let alerts = alerts.having(&begins, true).capacity(WAITING_MAX);
        let mut lines = AlertLines {
            clock: runtime.clock().clone(),
            minute_begins: runtime.clock().now(),
            lines_left: LINES_A_MINUTE,
            left_out: 0,
        };
        let alerts = alerts.on(&runtime.pool().ephemeral());
        Self {
            _alerts: alerts.start(move |delivery| match delivery {
                Delivery::Event(alert, _) => lines.hear(alert),
                Delivery::Lost(count) => lines.left_out += count,
                _ => {}
            }),
        }
    }
}

impl AlertLines {
    fn hear(&mut self, alert: &QueueAlert) {
        let now = self.clock.now();
        if now >= self.minute_begins + MINUTE {
            (self.minute_begins, self.lines_left) = (now, LINES_A_MINUTE);
        }
        let Some(left) = self.lines_left.checked_sub(1) else {
            self.left_out += 1;
            return;
        };
        self.lines_left = left;
        tracing::warn!(
            queue = %alert.serializer,
            waiting = alert.queued_len,
            oldest_waiting_ms = alert.oldest_waiting_ns / 1_000_000,
            running = alert.running.unwrap_or("nothing with a label"),
            left_out = std::mem::take(&mut self.left_out),
            "a queue is too long"
        );
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const LINES_A_MINUTE: u32 = 10;
const WAITING_MAX: usize = 64;
