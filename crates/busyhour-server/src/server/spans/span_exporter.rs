//! Sends what is over to the collector, in batches.

use super::{SpanExportConfig, SpansStats, ended_span::EndedSpan, otlp_json};
use crate::server::{
    HttpAnswer, HttpClient, HttpFailure, http_client::breaker::Breaker, server_clock::ServerClock,
    stats::counters::Counter,
};
use busyhour::{clock::Instant, runtime::Runtime, timer::Timers};
use serde::Deserialize;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// The queue of ended spans. The first one that comes begins a task, which ends when nothing waits.
/// What finds no room is dropped and counted: nothing waits for the collector.
pub(super) struct SpanExporter {
    config: SpanExportConfig,
    http: Arc<dyn HttpClient>,
    runtime: Runtime,
    timers: Timers,
    clock: Arc<ServerClock>,
    state: Mutex<ExportState>,
    followed: Counter,
    exported: Counter,
    dropped: Counter,
    failed: Counter,
    rejected_spans: Counter,
    export_failures: Counter,
}

struct ExportState {
    waiting: Vec<EndedSpan>,
    /// The task runs.
    is_sending: bool,
    breaker: Breaker,
    /// The last request was not taken, which the log says.
    is_failing: bool,
}

/// What a collector answers.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExportAnswer {
    partial_success: PartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A number, or, as protocol buffers write 64 bits in JSON, a text.
    rejected_spans: serde_json::Value,
}

impl SpanExporter {
    pub(super) fn new(
        runtime: &Runtime,
        config: &SpanExportConfig,
        http: Arc<dyn HttpClient>,
        clock: Arc<ServerClock>,
    ) -> Self {
        Self {
            config: config.clone(),
            http,
            runtime: runtime.clone(),
            timers: runtime.timers().clone(),
            clock,
            state: Mutex::new(ExportState {
                waiting: Vec::new(),
                is_sending: false,
                breaker: Breaker::new(REST),
                is_failing: false,
            }),
            followed: Counter::default(),
            exported: Counter::default(),
            dropped: Counter::default(),
            failed: Counter::default(),
            rejected_spans: Counter::default(),
            export_failures: Counter::default(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Queues a span.
    pub(super) fn push(self: &Arc<Self>, span: EndedSpan) {
        self.followed.increment();
        let mut state = self.state();
        if state.waiting.len() >= WAITING_MAX {
            return self.dropped.increment();
        }
        state.waiting.push(span);
        let begins = !std::mem::replace(&mut state.is_sending, true);
        drop(state);
        if begins {
            // It goes on without its handle, and ends when nothing waits.
            drop(self.runtime.pool().spawn(self.clone().run()));
        }
    }

    async fn run(self: Arc<Self>) {
        let mut is_full = false;
        loop {
            if !is_full {
                self.timers.sleep(GATHER).await;
            }
            if self.has_nothing_to_send() {
                return;
            }
            self.wait_for_breaker().await;
            let batch = self.take_batch();
            is_full = batch.len() == BATCH_MAX;
            let outcome = self.post(&batch).await;
            self.note(batch.len() as u64, outcome);
        }
    }

    async fn wait_for_breaker(&self) {
        loop {
            let asked = self.state().breaker.may_ask(self.now());
            let Err(next) = asked else { return };
            self.timers.sleep_until(next).await;
        }
    }

    /// Whether the task ends; the next span that comes begins another one.
    fn has_nothing_to_send(&self) -> bool {
        let mut state = self.state();
        state.is_sending = !state.waiting.is_empty();
        !state.is_sending
    }

    fn take_batch(&self) -> Vec<EndedSpan> {
        let mut state = self.state();
        let len = state.waiting.len().min(BATCH_MAX);
        state.waiting.drain(..len).collect()
    }

    async fn post(&self, batch: &[EndedSpan]) -> Result<HttpAnswer, HttpFailure> {
        let body = otlp_json::write(batch, self.config.instance.as_deref());
        let request = self.config.request(body);
        let (told, outcome) = oneshot::channel();
        let listener = move |outcome| drop(told.send(outcome));
        self.http.send(request, Box::new(listener))?;
        outcome.await.unwrap_or(Err(HttpFailure::Stopped))
    }

    fn note(&self, count: u64, outcome: Result<HttpAnswer, HttpFailure>) {
        let failure = match outcome {
            Ok(answer) if answer.status.is_success() => {
                self.exported.add(count);
                self.rejected_spans.add(rejected(&answer));
                None
            }
            Ok(answer) => Some(format!("answered {}", answer.status)),
            Err(failure) => Some(failure.to_string()),
        };
        if failure.is_some() {
            self.failed.add(count);
            self.export_failures.increment();
        }
        let mut state = self.state();
        state.breaker.report(failure.is_none(), self.now());
        let was_failing = std::mem::replace(&mut state.is_failing, failure.is_some());
        drop(state);
        let url = self.config.url.to_string();
        match (was_failing, failure) {
            (false, Some(reason)) => {
                tracing::warn!(url, reason, "the collector does not take spans");
            }
            (true, None) => {
                let lost = self.failed.get() + self.dropped.get();
                tracing::info!(url, lost, "the collector takes spans again");
            }
            _ => {}
        }
    }

    pub(super) fn stats(&self) -> SpansStats {
        let state = self.state();
        SpansStats {
            followed: self.followed.get(),
            exported: self.exported.get(),
            dropped: self.dropped.get(),
            failed: self.failed.get(),
            rejected_spans: self.rejected_spans.get(),
            export_failures: self.export_failures.get(),
            waiting_count: state.waiting.len() as u64,
            breaker_open_count: u64::from(state.breaker.is_open()),
        }
    }

    fn state(&self) -> MutexGuard<'_, ExportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rejected(answer: &HttpAnswer) -> u64 {
    let answer: ExportAnswer = serde_json::from_slice(&answer.body).unwrap_or_default();
    let rejected = answer.partial_success.rejected_spans;
    let text = rejected.as_str().and_then(|text| text.parse().ok());
    text.or(rejected.as_u64()).unwrap_or(0)
}

/// How long spans gather for one request to the collector.
const GATHER: Duration = Duration::from_secs(1);
/// Between two attempts when the collector does not answer.
const REST: Duration = Duration::from_secs(30);
/// In one request; of some hundred bytes for each step.
const BATCH_MAX: usize = 512;
/// Requests that wait for the collector, beside those in the request under way.
const WAITING_MAX: usize = 4096;
