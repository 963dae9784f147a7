//! The task of one webhook: gathers a batch, posts it until it is taken, and begins anew.

use super::{
    attempts::{BatchAttempts, Verdict},
    batch::{Batch, BatchBuilder},
    view::{WebhookTestResult, WebhookView},
    webhook_config::WebhookConfig,
};
use crate::server::{
    ChangeEvent, ChangeId, ChangeReader, ChangeRequest, HttpAnswer, HttpClient, HttpFailure,
    HttpPurpose, HttpRequest, change::changes::Changes, http_client::breaker::Breakers, nanos,
    server_clock::ServerClock,
};
use busyhour::{clock::Instant, timer::Timers};
use hyper::{
    Method,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt};

/// What all deliveries share.
pub(super) struct DeliveryContext {
    pub(super) changes: Arc<Changes>,
    pub(super) clock: Arc<ServerClock>,
    pub(super) timers: Timers,
    pub(super) http: Arc<dyn HttpClient>,
    pub(super) breakers: Mutex<Breakers>,
    /// Counts requests, so that each has an id of its own.
    pub(super) last_id: AtomicU64,
}

/// One webhook, for its task and for those who look at it.
pub(super) struct Delivery {
    pub(super) name: String,
    pub(super) config: WebhookConfig,
    pub(super) is_configured: bool,
    context: Arc<DeliveryContext>,
    progress: Mutex<DeliveryProgress>,
}

#[derive(Default, Clone)]
struct DeliveryProgress {
    phase: DeliveryPhase,
    /// Up to where the changes were taken, or given up.
    position: Option<ChangeId>,
    /// The number of the last change that it has given, or left out.
    seen: u64,
    delivered: u64,
    batches: u64,
    failed_attempts: u64,
    lost: u64,
    last_status: Option<u16>,
    last_error: Option<String>,
    last_round_trip: Option<Duration>,
    last_delivered_at_ns: Option<u64>,
}

#[derive(Default, Clone, Copy)]
enum DeliveryPhase {
    #[default]
    Idle,
    Delivering,
    Waiting(Instant),
    Resting(Instant),
    Gone,
}

impl Delivery {
    pub(super) fn new(
        name: &str,
        config: WebhookConfig,
        is_configured: bool,
        context: Arc<DeliveryContext>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            config,
            is_configured,
            context,
            progress: Mutex::default(),
        }
    }

    /// Whether it works, and with exactly this.
    pub(super) fn has(&self, config: &WebhookConfig) -> bool {
        let is_gone = matches!(self.progress().phase, DeliveryPhase::Gone);
        !is_gone && self.config.entry == config.entry
    }

    /// From now on it is told what changes; what waits for the one that it replaces is told first.
    pub(super) fn begin_to_read(&self, before: Option<&Self>) -> ChangeReader {
        let goes_on = |before: &&Self| {
            let is_gone = matches!(before.progress().phase, DeliveryPhase::Gone);
            !is_gone && (before.config.entry.snapshot || !self.config.entry.snapshot)
        };
        if let Some(before) = before.filter(goes_on) {
            let taken = before.progress().clone();
            *self.progress() = DeliveryProgress {
                phase: DeliveryPhase::Idle,
                ..taken
            };
        }
        let position = self.progress().position;
        if position.is_some() {
            return self.read_from(position);
        }
        if !self.config.entry.snapshot {
            self.progress().position = Some(self.context.changes.position());
        }
        self.read_from(None)
    }

    /// Posts what changes, until the task is dropped or the receiver wants nothing more.
    pub(super) async fn run(self: Arc<Self>, mut reader: ChangeReader, seed: u64) {
        let mut attempts = BatchAttempts::new(seed);
        let mut lost_batch = 0;
        while let Some((batch, has_lost)) = self.gather(&mut reader, lost_batch).await {
            lost_batch = 0;
            attempts.reset();
            let verdict = self.deliver(&batch, &mut attempts).await;
            if batch.position.is_some() {
                self.progress().position = batch.position;
            }
            match verdict {
                Verdict::Gone => {
                    self.lose(batch.event_count);
                    self.progress().phase = DeliveryPhase::Gone;
                    tracing::warn!(webhook = self.name, "the receiver wants nothing more (410)");
                    return;
                }
                Verdict::Taken => {}
                Verdict::Again(_) | Verdict::Disliked => {
                    lost_batch = batch.event_count;
                    self.lose(lost_batch);
                    let events = batch.event_count;
                    tracing::warn!(webhook = self.name, events, "a batch was given up");
                }
            }
            if self.config.entry.snapshot && (has_lost || lost_batch > 0) {
                reader = self.read_from(None);
            }
        }
    }

    fn read_from(&self, position: Option<ChangeId>) -> ChangeReader {
        self.context.changes.read(ChangeRequest {
            name: format!("webhook {}", self.name),
            filter: self.config.filter.clone(),
            wants_snapshot: self.config.entry.snapshot,
            last_id: position.map(|position| position.to_string()),
        })
    }

    /// The next events, and whether a loss is among them. `None` if there will be none.
    async fn gather(&self, reader: &mut ChangeReader, lost: u64) -> Option<(Batch, bool)> {
        let mut batch = BatchBuilder::new(&self.name);
        let mut has_lost = false;
        if lost > 0 {
            batch.push(&ChangeEvent::Lost(lost));
        }
        while batch.len() == 0 {
            let event = reader.next().await?;
            has_lost |= self.take(&mut batch, &event);
        }
        let mut patience = pin!(self.context.timers.sleep(self.config.batch_delay()));
        while !batch.is_full(self.config.entry.batch) {
            let next = poll_fn(|context| match Pin::new(&mut *reader).poll_next(context) {
                Poll::Ready(event) => Poll::Ready(event),
                Poll::Pending => patience.as_mut().poll(context).map(|()| None),
            });
            match next.await {
                Some(event) => has_lost |= self.take(&mut batch, &event),
                None => break,
            }
        }
        Some((batch.finish(self.context.next_id(&self.name)), has_lost))
    }

    /// Adds what the receiver is told; returns whether that is a loss.
    fn take(&self, batch: &mut BatchBuilder, event: &ChangeEvent) -> bool {
        match event {
            ChangeEvent::Live(_) if !self.config.entry.snapshot => return false,
            ChangeEvent::Lost(count) => self.lose(*count),
            ChangeEvent::Changed(_, change) => self.progress().seen = change.number(),
            ChangeEvent::Live(_) | ChangeEvent::Reset | ChangeEvent::State(_) => {}
        }
        batch.push(event);
        matches!(event, ChangeEvent::Lost(_))
    }

    async fn deliver(&self, batch: &Batch, attempts: &mut BatchAttempts) -> Verdict {
        let begun = self.context.clock.now();
        loop {
            self.wait_for_breaker().await;
            let sent_at = self.context.clock.now();
            self.progress().phase = DeliveryPhase::Delivering;
            let outcome = self.context.post(&self.config, batch).await;
            let verdict = Verdict::of(&outcome);
            let now = self.context.clock.now();
            self.note(&outcome, verdict, batch, now - sent_at);
            let is_tried_enough = match verdict {
                Verdict::Taken | Verdict::Gone => true,
                Verdict::Disliked => attempts.failures() + 1 >= DISLIKED_MAX,
                Verdict::Again(_) => now - begun >= self.config.give_up_after(),
            };
            if is_tried_enough {
                return verdict;
            }
            let at_least = match verdict {
                Verdict::Again(at_least) => at_least,
                _ => None,
            };
            let next = now + attempts.next(at_least);
            self.progress().phase = DeliveryPhase::Waiting(next);
            self.context.timers.sleep_until(next).await;
        }
    }

    async fn wait_for_breaker(&self) {
        loop {
            let now = self.context.clock.now();
            let asked = self.context.breakers().may_ask(&self.config.entry.url, now);
            let Err(next) = asked else { return };
            self.progress().phase = DeliveryPhase::Resting(next);
            self.context.timers.sleep_until(next).await;
        }
    }

    fn note(
        &self,
        outcome: &Result<HttpAnswer, HttpFailure>,
        verdict: Verdict,
        batch: &Batch,
        round_trip: Duration,
    ) {
        let context = &self.context;
        // A receiver that dislikes a batch works.
        let is_answered = matches!(verdict, Verdict::Taken | Verdict::Disliked | Verdict::Gone);
        let url = &self.config.entry.url;
        context
            .breakers()
            .report(url, is_answered, context.clock.now());
        let mut progress = self.progress();
        progress.phase = DeliveryPhase::Idle;
        progress.last_status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
        if verdict == Verdict::Taken {
            progress.batches += 1;
            progress.delivered += batch.event_count;
            progress.last_error = None;
            progress.last_round_trip = Some(round_trip);
            progress.last_delivered_at_ns = Some(context.clock.unix_time().as_nanos());
            return;
        }
        progress.failed_attempts += 1;
        let is_first = progress.last_error.is_none();
        let reason = reason(outcome);
        if is_first {
            tracing::warn!(webhook = self.name, reason, "a webhook fails");
        }
        progress.last_error = Some(reason);
    }

    fn lose(&self, count: u64) {
        self.progress().lost += count;
    }

    pub(super) fn view(&self) -> WebhookView {
        let now = self.context.clock.now();
        let last = self.context.changes.published();
        let progress = self.progress();
        let (state, next) = match progress.phase {
            DeliveryPhase::Idle => ("idle", None),
            DeliveryPhase::Delivering => ("delivering", None),
            DeliveryPhase::Waiting(next) => ("waiting", Some(next)),
            DeliveryPhase::Resting(next) => ("resting", Some(next)),
            DeliveryPhase::Gone => ("gone", None),
        };
        let is_busy = !matches!(progress.phase, DeliveryPhase::Idle);
        WebhookView {
            name: self.name.clone(),
            url: self.config.entry.url.clone(),
            state,
            next_attempt_in_ns: next.map(|next| nanos(next - now)),
            behind: if is_busy {
                last.saturating_sub(progress.seen)
            } else {
                0
            },
            delivered: progress.delivered,
            batches: progress.batches,
            failed_attempts: progress.failed_attempts,
            lost: progress.lost,
            last_status: progress.last_status,
            last_error: progress.last_error.clone(),
            last_round_trip_ns: progress.last_round_trip.map(nanos),
            last_delivered_at_ns: progress.last_delivered_at_ns,
            is_signed: self.config.secret.is_some(),
            is_configured: self.is_configured,
            wants: wants(&self.config),
        }
    }

    fn progress(&self) -> MutexGuard<'_, DeliveryProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeliveryContext {
    pub(super) fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_id(&self, name: &str) -> String {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{name}-{:x}-{number}", self.changes.run())
    }

    async fn post(&self, config: &WebhookConfig, batch: &Batch) -> Result<HttpAnswer, HttpFailure> {
        let mut request = HttpRequest::new(HttpPurpose::Webhooks, Method::POST, config.url.clone());
        request.headers = headers(
            config,
            batch,
            self.clock.unix_time().as_nanos() / 1_000_000_000,
        );
        request.body = batch.body.clone();
        request.time_limit = config.time_limit();
        let (told, outcome) = oneshot::channel();
        // Nobody waits for it if the webhook was removed.
        let listener = move |outcome| drop(told.send(outcome));
        self.http.send(request, Box::new(listener))?;
        outcome.await.unwrap_or(Err(HttpFailure::Stopped))
    }

    /// Posts a test, outside of the order of the webhook's batches.
    pub(super) async fn test(&self, delivery: &Delivery) -> WebhookTestResult {
        let id = self.next_id(&delivery.name);
        let batch = BatchBuilder::test(&delivery.name, &delivery.config.url, id);
        let sent_at = self.clock.now();
        let outcome = self.post(&delivery.config, &batch).await;
        let is_taken = Verdict::of(&outcome) == Verdict::Taken;
        WebhookTestResult {
            is_taken,
            status: outcome.as_ref().ok().map(|answer| answer.status.as_u16()),
            error: (!is_taken).then(|| reason(&outcome)),
            round_trip_ns: nanos(self.clock.now() - sent_at),
        }
    }
}

fn headers(config: &WebhookConfig, batch: &Batch, unix_seconds: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut insert = |name: HeaderName, text: &str| {
        // Each was checked, or is made of what headers may have.
        if let Ok(mut value) = HeaderValue::from_str(text) {
            value.set_sensitive(name == AUTHORIZATION);
            headers.insert(name, value);
        }
    };
    insert(CONTENT_TYPE, "application/json");
    insert(HeaderName::from_static("webhook-id"), &batch.id);
    let timestamp = HeaderName::from_static("webhook-timestamp");
    insert(timestamp, &unix_seconds.to_string());
    if let Some(secret) = &config.secret {
        let signature = secret.sign(&batch.id, unix_seconds, &batch.body);
        insert(HeaderName::from_static("webhook-signature"), &signature);
    }
    if let Some(authorization) = &config.entry.authorization {
        insert(AUTHORIZATION, authorization);
    }
    headers
}

fn reason(outcome: &Result<HttpAnswer, HttpFailure>) -> String {
    match outcome {
        Ok(answer) => format!("answered {}", answer.status),
        Err(failure) => failure.to_string(),
    }
}

fn wants(config: &WebhookConfig) -> String {
    let entry = &config.entry;
    let mut wants = entry.kinds.clone();
    wants.extend(entry.user.iter().map(|user| format!("user={user}")));
    wants.extend(entry.having.iter().map(|having| format!("having={having}")));
    match wants.is_empty() {
        true => "everything".to_owned(),
        false => wants.join(" "),
    }
}

/// How often a batch is sent that the receiver does not like.
const DISLIKED_MAX: u32 = 5;
